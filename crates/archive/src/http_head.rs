//! The status line and header fields that the block of a record begins with, and the payload after them.

/// The largest HTTP header that is looked for, in bytes.
pub const MAX_HEAD: usize = 256 * 1024;

/// Where it ends in these bytes: after the first line that is blank. `None` when there is none.
pub fn end_of(block: &[u8]) -> Option<usize> {
    let mut start = 0;
    memchr::memchr_iter(b'\n', block).find_map(|at| {
        let line = block.get(start..at)?;
        start = at + 1;
        // Programs that check WARC files take a line of nothing but spaces for the end as well.
        line.iter().all(|byte| is_blank(*byte)).then_some(at + 1)
    })
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r' | 0x1c..=0x1f)
}

/// A head in parts: its first line, and its fields as they are written, folded lines with them.
pub struct Head<'a> {
    /// `HTTP/1.1 200 OK`.
    pub first: &'a [u8],
    /// Each without its line end.
    pub fields: Vec<&'a [u8]>,
}

impl<'a> Head<'a> {
    /// Takes a head apart.
    pub fn of(head: &'a [u8]) -> Head<'a> {
        let mut lines =
            crawlspace_cdx::lines(head).take_while(|line| !line.iter().all(|byte| is_blank(*byte)));
        let first = lines.next().unwrap_or_default();
        Head {
            first,
            fields: lines.collect(),
        }
    }

    /// The status, `None` when the first line has none.
    pub fn status(&self) -> Option<u16> {
        let mut words = self
            .first
            .split(|&byte| byte == b' ')
            .filter(|word| !word.is_empty());
        let status = words.nth(1).filter(|_| self.first.starts_with(b"HTTP/"))?;
        std::str::from_utf8(status).ok()?.parse().ok()
    }

    /// The value of the first field of that name.
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.fields
            .iter()
            .find(|line| is_named(line, name))
            .and_then(|line| line.get(name.len()..))
            .map(|value| {
                value
                    .trim_ascii_start()
                    .strip_prefix(b":")
                    .unwrap_or(value)
                    .trim_ascii()
            })
    }

    /// Names and values of all fields, folded lines put together.
    pub fn named(&self) -> Vec<(&'a [u8], Vec<u8>)> {
        let mut named: Vec<(&[u8], Vec<u8>)> = Vec::with_capacity(self.fields.len());
        for line in &self.fields {
            if matches!(line.first(), Some(b' ' | b'\t')) {
                if let Some((_, value)) = named.last_mut() {
                    value.push(b' ');
                    value.extend_from_slice(line.trim_ascii());
                }
                continue;
            }
            let Some(colon) = memchr::memchr(b':', line) else {
                continue;
            };
            let (name, value) = line.split_at_checked(colon).unwrap_or((line, b""));
            let value = value.strip_prefix(b":").unwrap_or(value);
            named.push((name.trim_ascii_end(), value.trim_ascii().to_vec()));
        }
        named
    }

    /// Whether the payload is chunked.
    pub fn is_chunked(&self) -> bool {
        self.get("Transfer-Encoding")
            .is_some_and(|value| value.to_ascii_lowercase().ends_with(b"chunked"))
    }

    /// A copy of the head whose fields of these names are replaced by those of `other`.
    pub fn with_fields_of(&self, other: &Head<'_>, names: &[&str]) -> Vec<u8> {
        let one_of = |line: &[u8]| names.iter().any(|name| is_named(line, name));
        let mut head = self.first.to_vec();
        let mut leave_out = false;
        for line in &self.fields {
            // A folded line goes the way of the one before.
            if !matches!(line.first(), Some(b' ' | b'\t')) {
                leave_out = one_of(line);
            }
            if !leave_out {
                head.extend_from_slice(b"\r\n");
                head.extend_from_slice(line);
            }
        }
        for line in other.fields.iter().filter(|line| one_of(line)) {
            head.extend_from_slice(b"\r\n");
            head.extend_from_slice(line);
        }
        head.extend_from_slice(b"\r\n\r\n");
        head
    }
}

fn is_named(line: &[u8], name: &str) -> bool {
    line.split_at_checked(name.len())
        .is_some_and(|(own, rest)| {
            own.eq_ignore_ascii_case(name.as_bytes()) && rest.trim_ascii_start().starts_with(b":")
        })
}

/// What a chunked payload is without the chunks. `None` when it is not chunked, or breaks off.
pub fn unchunked(mut payload: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(payload.len());
    loop {
        let end = memchr::memchr(b'\n', payload)?;
        let (line, rest) = payload.split_at_checked(end + 1)?;
        let digits = line.split(|byte| *byte == b';').next()?.trim_ascii();
        let size = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        if size == 0 {
            return Some(plain);
        }
        let (chunk, rest) = rest.split_at_checked(size)?;
        plain.extend_from_slice(chunk);
        payload = rest
            .strip_prefix(b"\r\n")
            .or_else(|| rest.strip_prefix(b"\n"))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_after_its_first_blank_line() {
        for (block, end) in [
            (
                &b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody\r\n\r\n"[..],
                Some(25),
            ),
            (b"HTTP/1.1 200 OK\nA: b\n\nbody", Some(22)),
            (b"HTTP/1.1 200 OK\r\n \t\r\nbody", Some(21)),
            (b"\r\nbody", Some(2)),
            (b"HTTP/1.1 200 OK\r\nA: b\r\n", None),
            (b"", None),
        ] {
            assert_eq!(end_of(block), end, "{:?}", String::from_utf8_lossy(block));
        }
    }

    #[test]
    fn fields_that_say_how_a_payload_is_written_come_with_it() {
        let own = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n folded\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n";
        let other = b"HTTP/1.0 404 No\nX: y\nContent-Length : 5\n\n";
        let (own, other) = (Head::of(own), Head::of(other));
        assert!(own.is_chunked() && !other.is_chunked());
        assert_eq!((own.status(), other.status()), (Some(200), Some(404)));
        let both = own.with_fields_of(&other, &["Content-Length", "Transfer-Encoding"]);
        assert_eq!(
            both,
            b"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length : 5\r\n\r\n"
        );
        assert_eq!(other.get("content-length"), Some(&b"5"[..]));
    }

    #[test]
    fn folded_lines_belong_to_the_field_before_them() {
        let head = Head::of(b"HTTP/1.1 200 OK\r\nA : b \r\n\tc\r\nno field\r\nD:\r\n\r\n");
        let named = [(&b"A"[..], b"b c".to_vec()), (b"D", Vec::new())];
        assert_eq!(head.named(), named);
    }

    #[test]
    fn chunks_are_put_together() {
        let chunked = b"5\r\nhello\r\n6;a=b\r\n world\r\n0\r\n\r\n";
        assert_eq!(unchunked(chunked).as_deref(), Some(&b"hello world"[..]));
        for wrong in [
            "",
            "5\r\nhell",
            "x\r\n",
            "5\r\nhelloworld",
            "-1\r\n",
            "ffffffffffffffff\r\n",
        ] {
            assert_eq!(unchunked(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
