//! Splits an answer of an index server into pieces while it arrives: lines, or the elements of a JSON array.

/// Maximum length of a piece, in bytes. Longer ones are skipped.
const MAX_LINE: usize = 1 << 20;

/// A piece of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A line without its line break.
    Line(&'a [u8]),
    /// An element of an array: an array or object, or another value, which is invalid in an index.
    Element(&'a [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceForm {
    /// Undecided: only white space so far.
    Unknown,
    Lines,
    Array(Scan),
    /// After the end of an array.
    Over,
}

/// State of the JSON scanner at `Pieces::seen`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Scan {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

/// Splits an answer into pieces.
pub(super) struct Pieces {
    kept: Vec<u8>,
    /// Start of the current piece, and end of its scanned part.
    begin: usize,
    seen: usize,
    form: PieceForm,
    /// Set while a piece that is too long is skipped.
    skips: bool,
}

impl Pieces {
    pub(crate) fn new() -> Pieces {
        Pieces {
            kept: Vec::new(),
            begin: 0,
            seen: 0,
            form: PieceForm::Unknown,
            skips: false,
        }
    }

    /// Adds input. Take the complete pieces before each call.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.kept.drain(..self.begin);
        self.seen = self.seen.saturating_sub(self.begin);
        self.begin = 0;
        if self.kept.len() > MAX_LINE {
            self.skips = true;
            self.kept.clear();
            self.seen = 0;
        }
        self.kept.extend_from_slice(bytes);
    }

    /// Returns the next complete piece.
    pub(crate) fn next(&mut self) -> Option<Piece<'_>> {
        loop {
            match self.form {
                PieceForm::Unknown => {
                    let rest = &self.kept[self.begin..];
                    // Some servers send a byte order mark first.
                    let rest = match rest.strip_prefix(b"\xef\xbb\xbf") {
                        Some(rest) if self.begin == 0 => rest,
                        _ => rest,
                    };
                    let text = rest.trim_ascii_start();
                    self.form = match text.first() {
                        None => return None,
                        // Leading spaces are kept for lines, since the header of a CDX file begins with a
                        // space.
                        Some(b'[') => PieceForm::Array(Scan::default()),
                        Some(_) => PieceForm::Lines,
                    };
                    let left = if self.form == PieceForm::Lines {
                        rest
                    } else {
                        text
                    };
                    self.begin = self.kept.len() - left.len();
                    self.seen = self.begin;
                }
                PieceForm::Lines => {
                    let unseen = &self.kept[self.seen..];
                    let Some(length) = memchr::memchr(b'\n', unseen) else {
                        self.seen = self.kept.len();
                        return None;
                    };
                    let (begin, end) = (self.begin, self.seen + length);
                    self.begin = end + 1;
                    self.seen = self.begin;
                    if !std::mem::take(&mut self.skips) && end - begin <= MAX_LINE {
                        let line = &self.kept[begin..end];
                        return Some(Piece::Line(line.strip_suffix(b"\r").unwrap_or(line)));
                    }
                }
                PieceForm::Array(scan) => {
                    let (begin, end) = self.element(scan)?;
                    let skipped = std::mem::take(&mut self.skips) || end - begin > MAX_LINE;
                    let element = &self.kept[begin..end];
                    if !skipped && !element.trim_ascii().is_empty() {
                        let element = &self.kept[begin..end];
                        return Some(Piece::Element(element.trim_ascii()));
                    }
                }
                PieceForm::Over => return None,
            }
        }
    }

    /// Returns start and end of the next element of an array.
    fn element(&mut self, mut scan: Scan) -> Option<(usize, usize)> {
        while let Some(byte) = self.kept.get(self.seen) {
            let at = self.seen;
            self.seen += 1;
            if scan.in_string {
                match byte {
                    _ if scan.escaped => scan.escaped = false,
                    b'\\' => scan.escaped = true,
                    b'"' => scan.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => scan.in_string = true,
                b'[' | b'{' => {
                    scan.depth += 1;
                    if scan.depth == 1 {
                        self.begin = self.seen;
                    }
                }
                b']' | b'}' => scan.depth = scan.depth.saturating_sub(1),
                _ => {}
            }
            let ends = scan.depth == 0 || (scan.depth == 1 && *byte == b',');
            if ends {
                let begin = std::mem::replace(&mut self.begin, self.seen);
                self.form = match scan.depth {
                    0 => PieceForm::Over,
                    _ => PieceForm::Array(scan),
                };
                return Some((begin, at));
            }
        }
        self.form = PieceForm::Array(scan);
        None
    }

    /// Returns the last line if it has no line break. Returns an error if the answer is incomplete.
    pub(crate) fn rest(&mut self) -> Result<Option<Piece<'_>>, &'static str> {
        match self.form {
            PieceForm::Lines if !self.skips => {
                let line = &self.kept[self.begin..];
                self.begin = self.kept.len();
                Ok((!line.is_empty() && line.len() <= MAX_LINE).then_some(Piece::Line(line)))
            }
            PieceForm::Array(_) => Err("its JSON is incomplete"),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use redis_tests::Rng;

    use super::*;

    fn pieces(text: &[u8], step: usize) -> (Vec<String>, bool) {
        let mut pieces = Pieces::new();
        let mut all = Vec::new();
        for part in text.chunks(step) {
            pieces.feed(part);
            while let Some(piece) = pieces.next() {
                all.push(format!("{piece:?}"));
            }
        }
        let whole = match pieces.rest() {
            Ok(last) => {
                all.extend(last.map(|piece| format!("{piece:?}")));
                true
            }
            Err(_) => false,
        };
        (all, whole)
    }

    #[test]
    fn pieces_do_not_depend_on_chunk_boundaries() {
        let line = |text: &str| format!("{:?}", Piece::Line(text.as_bytes()));
        let element = |text: &str| format!("{:?}", Piece::Element(text.as_bytes()));
        for (text, expected, whole) in [
            ("", vec![], true),
            (" \r\n", vec![], true),
            ("a 1 {}\nb 2 {}", vec![line("a 1 {}"), line("b 2 {}")], true),
            (
                " CDX N b\r\n\na 1\r\n",
                vec![line(" CDX N b"), line(""), line("a 1")],
                true,
            ),
            (
                "{\"a\": 1}\n{}\n",
                vec![line("{\"a\": 1}"), line("{}")],
                true,
            ),
            ("[]", vec![], true),
            (
                "\u{feff}\n [[\"a,]\\\"\\\\\", 1],\n [], {\"b\": [{}]} , 5]\nmore",
                vec![
                    element("[\"a,]\\\"\\\\\", 1]"),
                    element("[]"),
                    element("{\"b\": [{}]}"),
                    element("5"),
                ],
                true,
            ),
            ("[[\"a\"], [\"b\"", vec![element("[\"a\"]")], false),
            ("[[\"a\"]}", vec![element("[\"a\"]")], true),
        ] {
            // At least three bytes, so that a byte order mark arrives as a whole.
            for step in [3, 4, 7, 1000] {
                assert_eq!(
                    pieces(text.as_bytes(), step),
                    (expected.clone(), whole),
                    "{text:?} by {step}"
                );
            }
        }
    }

    #[test]
    fn overlong_piece_is_skipped_and_not_kept() {
        let long = "x".repeat(3 * MAX_LINE);
        let text = format!("a 1\n{long}\nb 2\n{long}");
        let mut pieces = Pieces::new();
        let mut found = Vec::new();
        for part in text.as_bytes().chunks(10_000) {
            pieces.feed(part);
            assert!(pieces.kept.len() < MAX_LINE + 20_000);
            while let Some(piece) = pieces.next() {
                found.push(format!("{piece:?}"));
            }
        }
        assert_eq!(pieces.rest(), Ok(None));
        let line = |text: &str| format!("{:?}", Piece::Line(text.as_bytes()));
        assert_eq!(found, [line("a 1"), line("b 2")]);
        let text = format!("[[1],[\"{long}\"],[2]]");
        let element = |text: &str| format!("{:?}", Piece::Element(text.as_bytes()));
        assert_eq!(
            self::tests::pieces(text.as_bytes(), 5000),
            (vec![element("[1]"), element("[2]")], true)
        );
    }

    #[test]
    fn random_bytes_are_read_to_their_end() {
        let mut rng = Rng::new("pieces::noise");
        for _ in 0..2000 {
            let noise: Vec<u8> = (0..rng.below(200))
                .map(|_| *rng.pick(b"[]{}\",\\ \n\r:1a\xff"))
                .collect();
            let step = 1 + rng.below(30) as usize;
            pieces(&noise, step);
        }
    }
}
