//! Tokens of clients that may change data over HTTP or gRPC.

/// Minimum and maximum length of a token, in bytes.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=4096;

/// A secret that clients send in the header field `Authorization: Bearer TOKEN`.
#[derive(Clone)]
pub struct Token(Box<[u8]>);

impl Token {
    /// Reads a token from the contents of a file. Surrounding white space is removed.
    ///
    /// # Errors
    /// Fails with a description if the token is too short, too long, or contains other characters than visible ASCII
    /// characters.
    ///
    /// ```
    /// use crawlspace_compact::token::Token;
    /// let token = Token::parse(b"0123456789abcdef\n").unwrap();
    /// assert!(token.permits(b"Bearer 0123456789abcdef"));
    /// assert!(!token.permits(b"Bearer 0123456789abcdeF"));
    /// assert!(Token::parse(b"secret").is_err());
    /// ```
    pub fn parse(text: &[u8]) -> Result<Token, String> {
        let token = text.trim_ascii();
        if !LENGTHS.contains(&token.len()) || !token.iter().all(u8::is_ascii_graphic) {
            return Err(format!(
                "invalid token: write {} or more ASCII characters without spaces, for example those of \
                 `openssl rand -hex 32`",
                LENGTHS.start()
            ));
        }
        Ok(Token(token.into()))
    }

    /// Returns true if the value of a header field `Authorization` contains this token. The time does not depend on where
    /// the given token differs.
    pub fn permits(&self, authorization: &[u8]) -> bool {
        let Some((scheme, given)) = authorization.split_at_checked(7) else {
            return false;
        };
        let given = given.trim_ascii();
        let differing = self
            .0
            .iter()
            .zip(given)
            .fold(0, |all, (a, b)| all | (a ^ b));
        scheme.eq_ignore_ascii_case(b"Bearer ")
            && given.len() == self.0.len()
            && std::hint::black_box(differing) == 0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_of_the_bearer_scheme_is_permitted() {
        let token = Token::parse(b" 0123456789abcdef\r\n").unwrap();
        for (authorization, is_permitted) in [
            ("Bearer 0123456789abcdef", true),
            ("bearer  0123456789abcdef ", true),
            ("Bearer 0123456789abcde", false),
            ("Bearer 0123456789abcdef0", false),
            ("Bearer 1123456789abcdef", false),
            ("Bearer0123456789abcdef", false),
            ("Basic  0123456789abcdef", false),
            ("Bearer ", false),
            ("", false),
        ] {
            let is = token.permits(authorization.as_bytes());
            assert_eq!(is, is_permitted, "{authorization:?}");
        }
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[test]
    fn short_long_and_unusual_tokens_are_refused() {
        for text in [
            "",
            "0123456789abcde",
            "0123456789 abcdef",
            "0123456789abcdeä",
        ] {
            let error = Token::parse(text.as_bytes()).unwrap_err();
            assert!(error.contains("openssl rand -hex 32"), "{text:?}");
        }
        assert!(Token::parse(&[b'x'; 4096]).is_ok());
        assert!(Token::parse(&[b'x'; 4097]).is_err());
    }
}
