//! Links with attributes, as in TimeMaps and `Link` headers (RFC 6690, RFC 8288, RFC 7089).
//!
//! The parser is incremental, accepts arbitrary input, and limits the length of each link.

/// Maximum length of a link with its attributes, in bytes.
const MAX_LINK: usize = 128 << 10;
/// Maximum number of attributes per link; further ones are dropped.
const MAX_ATTRIBUTES: usize = 32;

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// URI reference between `<` and `>`.
    pub target: String,
    /// Lowercase names, and values without quotes.
    pub attributes: Vec<(String, String)>,
}

impl Link {
    /// Returns the value of an attribute; the first one, if there are several.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns whether `rel` contains this relation type.
    pub fn is(&self, relation: &str) -> bool {
        let words = self
            .attribute("rel")
            .unwrap_or_default()
            .split_ascii_whitespace();
        words
            .into_iter()
            .any(|word| word.eq_ignore_ascii_case(relation))
    }
}

/// The text is not a valid list of links.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadLinks(String);

/// Incremental parser of links.
///
/// ```
/// use crawlspace_serve::link_format::Links;
/// let mut links = Links::new();
/// links.feed(b"<http://a.com/>; rel=\"original\",\n<http://h/2016/http://a.com/>; rel=\"first mem");
/// assert!(links.next().unwrap().unwrap().is("original"));
/// assert!(links.next().is_none());
/// links.feed(b"ento\"; datetime=\"Fri, 01 Jan 2016 00:00:00 GMT\"");
/// assert!(links.next().is_none());
/// assert!(links.finish().unwrap().unwrap().is("memento"));
/// ```
#[derive(Debug, Default)]
pub struct Links {
    fed: Vec<u8>,
    seen: usize,
    /// The current link: its target, and the text after the `>`.
    target: Vec<u8>,
    rest: Vec<u8>,
    state: ParserState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ParserState {
    /// Before a `<`.
    #[default]
    Between,
    Target,
    Rest,
    /// Within quotes; `Escaped` after a backslash there.
    Quoted,
    Escaped,
    /// After the end of the list, or after an error.
    Over,
}

impl Links {
    /// Creates a parser without input.
    pub fn new() -> Links {
        Links::default()
    }

    /// Parses a complete list of links. Returns the links before the first error.
    pub fn all(text: &[u8]) -> Vec<Link> {
        let mut links = Links::new();
        links.feed(text);
        let mut all = Vec::new();
        loop {
            match links.next() {
                Some(Ok(link)) => all.push(link),
                Some(Err(_)) => return all,
                None => break,
            }
        }
        all.extend(links.finish().ok().flatten());
        all
    }

    /// Adds input. Take the complete links before each call.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.fed.drain(..self.seen);
        self.seen = 0;
        self.fed.extend_from_slice(bytes);
    }

    /// Returns the next complete link.
    ///
    /// # Errors
    /// Fails if the text is not a list of links; the parser then returns nothing more.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<Result<Link, BadLinks>> {
        while let Some(&byte) = self.fed.get(self.seen) {
            self.seen += 1;
            let state = match (self.state, byte) {
                (ParserState::Over, _) => return None,
                (ParserState::Between, b'<') => ParserState::Target,
                (ParserState::Between, b',') => ParserState::Between,
                (ParserState::Between, byte) if byte.is_ascii_whitespace() => ParserState::Between,
                (ParserState::Between, _) => return Some(Err(self.bad("is not a list of links"))),
                (ParserState::Target, b'>') => ParserState::Rest,
                (ParserState::Target, byte) => {
                    self.target.push(byte);
                    ParserState::Target
                }
                (ParserState::Rest, b',') => {
                    self.state = ParserState::Between;
                    return Some(Ok(self.link()));
                }
                (ParserState::Rest, byte) => {
                    let begins = self.rest.is_empty();
                    if begins && byte != b';' && !byte.is_ascii_whitespace() {
                        return Some(Err(self.bad("is not a list of links")));
                    }
                    if !begins || byte == b';' {
                        self.rest.push(byte);
                    }
                    match byte {
                        b'"' => ParserState::Quoted,
                        _ => ParserState::Rest,
                    }
                }
                (ParserState::Quoted, byte) => {
                    self.rest.push(byte);
                    match byte {
                        b'"' => ParserState::Rest,
                        b'\\' => ParserState::Escaped,
                        _ => ParserState::Quoted,
                    }
                }
                (ParserState::Escaped, byte) => {
                    self.rest.push(byte);
                    ParserState::Quoted
                }
            };
            self.state = state;
            if self.target.len() + self.rest.len() > MAX_LINK {
                return Some(Err(self.bad("has a link that is too long")));
            }
        }
        None
    }

    /// Returns the last link, which has no comma after it.
    ///
    /// # Errors
    /// Fails if the text ends within a link.
    pub fn finish(&mut self) -> Result<Option<Link>, BadLinks> {
        match self.state {
            ParserState::Rest => {
                self.state = ParserState::Over;
                Ok(Some(self.link()))
            }
            ParserState::Between | ParserState::Over => Ok(None),
            ParserState::Target | ParserState::Quoted | ParserState::Escaped => {
                Err(self.bad("ends within a link"))
            }
        }
    }

    fn bad(&mut self, what: &str) -> BadLinks {
        self.state = ParserState::Over;
        self.fed = Vec::new();
        self.seen = 0;
        BadLinks(format!("its answer {what}"))
    }

    fn link(&mut self) -> Link {
        let target = String::from_utf8_lossy(&self.target).trim().to_owned();
        let attributes = attributes(&String::from_utf8_lossy(&self.rest));
        self.target.clear();
        self.rest.clear();
        Link { target, attributes }
    }
}

/// Parses `; name=value; name="value"`.
fn attributes(text: &str) -> Vec<(String, String)> {
    let mut attributes = Vec::new();
    let mut chars = text.chars().peekable();
    while attributes.len() < MAX_ATTRIBUTES && chars.peek().is_some() {
        let mut name = String::new();
        let mut value = String::new();
        while let Some(c) = chars.next_if(|c| !matches!(c, '=' | ';')) {
            name.push(c);
        }
        if chars.next_if_eq(&'=').is_some() {
            while chars.next_if(|c| c.is_whitespace()).is_some() {}
            if chars.next_if_eq(&'"').is_some() {
                while let Some(c) = chars.next() {
                    match c {
                        '"' => break,
                        '\\' => value.extend(chars.next()),
                        c => value.push(c),
                    }
                }
            }
            while let Some(c) = chars.next_if(|c| *c != ';') {
                value.push(c);
            }
        }
        chars.next_if_eq(&';');
        let name = name.trim().to_ascii_lowercase();
        if !name.is_empty() {
            attributes.push((name, value.trim().to_owned()));
        }
    }
    attributes
}

#[cfg(test)]
mod tests {
    use redis_tests::Rng;

    use super::*;

    fn read(text: &[u8], step: usize) -> (Vec<Link>, bool) {
        let mut links = Links::new();
        let mut all = Vec::new();
        for part in text.chunks(step) {
            links.feed(part);
            while let Some(link) = links.next() {
                match link {
                    Ok(link) => all.push(link),
                    Err(_) => return (all, false),
                }
            }
        }
        match links.finish() {
            Ok(last) => {
                all.extend(last);
                (all, true)
            }
            Err(_) => (all, false),
        }
    }

    fn link(target: &str, attributes: &[(&str, &str)]) -> Link {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Link {
            target: target.to_owned(),
            attributes: attributes.iter().map(owned).collect(),
        }
    }

    #[test]
    fn links_do_not_depend_on_chunk_boundaries() {
        let date = "Fri, 01 Jan 2016 00:00:00 GMT";
        for (text, expected, whole) in [
            (String::new(), vec![], true),
            (" , ,\n".into(), vec![], true),
            (
                format!(
                    "<http://a.com/?b,c;d=\"e\">;rel=original,\r\n <http://h/>; REL = \"first memento\" ; datetime=\"{date}\","
                ),
                vec![
                    link("http://a.com/?b,c;d=\"e\"", &[("rel", "original")]),
                    link("http://h/", &[("rel", "first memento"), ("datetime", date)]),
                ],
                true,
            ),
            (
                r#"<a>;title="b\",c\\";d;;e="";rel='x'"#.into(),
                vec![link(
                    "a",
                    &[("title", "b\",c\\"), ("d", ""), ("e", ""), ("rel", "'x'")],
                )],
                true,
            ),
            ("<a>".into(), vec![link("a", &[])], true),
            ("<a>,<b>".into(), vec![link("a", &[]), link("b", &[])], true),
            (
                "<a>;rel=b,<c".into(),
                vec![link("a", &[("rel", "b")])],
                false,
            ),
            ("<a>;rel=\"b".into(), vec![], false),
            ("<a>;rel=\"b\\".into(), vec![], false),
            ("<!DOCTYPE html>\n<html>".into(), vec![], false),
            ("{\"a\": 1}".into(), vec![], false),
            ("plain".into(), vec![], false),
        ] {
            for step in [1, 2, 7, 1000] {
                assert_eq!(
                    read(text.as_bytes(), step),
                    (expected.clone(), whole),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn relations_are_split_into_words() {
        let link = link("a", &[("rel", "first  Memento"), ("rel", "self")]);
        assert!(link.is("memento") && link.is("first"));
        assert!(!link.is("first memento") && !link.is("mement") && !link.is("self"));
    }

    #[test]
    fn overlong_links_are_refused() {
        for endless in ["<", "<a>;", "<a>;b=\"", "<a>;b=\"\\\\", "<a>; c"] {
            let mut links = Links::new();
            links.feed(endless.as_bytes());
            let mut outcome = None;
            for _ in 0..1000 {
                links.feed(&[b'x'; 1000]);
                outcome = links.next();
                if outcome.is_some() {
                    break;
                }
            }
            assert!(matches!(outcome, Some(Err(_))), "{endless}");
            assert!(links.fed.capacity() == 0 && links.finish() == Ok(None));
        }
        let many = format!("<a>{}", ";b=c".repeat(10_000));
        assert_eq!(
            Links::all(many.as_bytes())[0].attributes.len(),
            MAX_ATTRIBUTES
        );
    }

    #[test]
    fn random_bytes_cause_no_panic() {
        let mut rng = Rng::new("link_format::noise");
        let text = br#"<http://a.com/>; rel="original", <http://h/1>; rel="memento"; datetime="Fri, 01 Jan 2016 00:00:00 GMT""#;
        for _ in 0..5000 {
            let mut noise = text.to_vec();
            for _ in 0..1 + rng.below(5) {
                let at = rng.below(noise.len() as u64) as usize;
                match rng.below(3) {
                    0 => noise[at] = rng.bits() as u8,
                    1 => {
                        noise.remove(at);
                    }
                    _ => noise.insert(at, *rng.pick(b"<>\"\\;,= \n\xff")),
                }
            }
            let whole = read(&noise, noise.len());
            assert_eq!(read(&noise, 1 + rng.below(9) as usize), whole);
        }
    }
}
