//! Multipart forms (RFC 7578), parsed as leniently as the indexers do.

use std::borrow::Cow;

use memchr::memchr;

/// Iterator over the parts of a form, with their names and contents.
pub(super) struct Form<'a> {
    /// `--` followed by the boundary.
    boundary: Vec<u8>,
    /// Text after the boundary line of the next part.
    rest: Option<&'a [u8]>,
}

impl<'a> Form<'a> {
    /// Finds the first part. Returns `None` if the content type has no boundary, or an invalid one.
    pub(super) fn read(content_type: &str, body: &'a [u8]) -> Option<Form<'a>> {
        let boundary = parameter(content_type, "boundary")?;
        let (last, before) = boundary.as_bytes().split_last()?;
        let is_good = before.len() <= 200
            && before.iter().all(|byte| matches!(byte, b' '..=b'~'))
            && matches!(last, b'!'..=b'~');
        if !is_good {
            return None;
        }
        let boundary = [b"--", boundary.as_bytes()].concat();
        let mut rest = body;
        loop {
            let (line, after) = line(rest);
            if trim(line) == boundary {
                return Some(Form {
                    boundary,
                    rest: Some(after),
                });
            }
            if line.is_empty() {
                return Some(Form {
                    boundary,
                    rest: None,
                });
            }
            rest = after;
        }
    }

    /// Returns the content of a part, and the text after it if another part follows.
    fn content(&self, body: &'a [u8]) -> (&'a [u8], Option<&'a [u8]>) {
        let mut rest = body;
        loop {
            let begin = body.len() - rest.len();
            let (line, after) = line(rest);
            let tail = match line.strip_prefix(&self.boundary[..]) {
                _ if line.is_empty() => Some(None),
                Some(tail) => match trim_end(tail) {
                    b"" => Some(Some(after)),
                    b"--" => Some(None),
                    _ => None,
                },
                None => None,
            };
            if let Some(next) = tail {
                return (without_line_end(body.get(..begin).unwrap_or(body)), next);
            }
            rest = after;
        }
    }
}

impl<'a> Iterator for Form<'a> {
    type Item = (String, Cow<'a, [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take().filter(|rest| !rest.is_empty())?;
        let mut body = rest;
        loop {
            let (line, after) = line(body);
            body = after;
            if trim(line).is_empty() {
                break;
            }
        }
        let head = rest.get(..rest.len() - body.len()).unwrap_or_default();
        let head = String::from_utf8_lossy(head);
        let disposition = header(&head, "content-disposition").unwrap_or_default();
        let (content, next) = self.content(body);
        self.rest = next;
        // A file is kept as bytes, any other part as text.
        let content = match parameter(&disposition, "filename") {
            Some(_) => Cow::Borrowed(content),
            None => match String::from_utf8_lossy(content) {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            },
        };
        let name = parameter(&disposition, "name");
        Some((name.unwrap_or_else(|| "None".to_owned()), content))
    }
}

/// Splits off the first line, including its line end.
fn line(text: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr(b'\n', text).map_or(text.len(), |at| at + 1);
    text.split_at(end)
}

fn without_line_end(text: &[u8]) -> &[u8] {
    match text {
        [before @ .., b'\r', b'\n'] | [before @ .., b'\n' | b'\r'] => before,
        _ => text,
    }
}

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn trim(text: &[u8]) -> &[u8] {
    let begin = text.iter().position(|byte| !is_blank(byte));
    trim_end(
        begin
            .and_then(|begin| text.get(begin..))
            .unwrap_or_default(),
    )
}

fn trim_end(text: &[u8]) -> &[u8] {
    let end = text
        .iter()
        .rposition(|byte| !is_blank(byte))
        .map_or(0, |last| last + 1);
    text.get(..end).unwrap_or_default()
}

/// Returns the value of the first header with this name, including folded lines.
fn header(head: &str, wanted: &str) -> Option<String> {
    let mut value: Option<String> = None;
    let mut rest = head;
    while !rest.is_empty() {
        let end = rest.find(['\r', '\n']).map_or(rest.len(), |at| {
            let pair = rest.get(at..).is_some_and(|end| end.starts_with("\r\n"));
            at + 1 + usize::from(pair)
        });
        let (line, after) = rest.split_at(end);
        rest = after;
        if line.starts_with([' ', '\t']) {
            if let Some(value) = &mut value {
                value.push_str(line);
            }
            continue;
        }
        if value.is_some() {
            break;
        }
        let name = line.split_once(':').map(|(name, _)| name);
        let is_name = |name: &str| {
            name.bytes()
                .all(|byte| matches!(byte, b'!'..=b'9' | b';'..=b'~'))
        };
        match name {
            Some(name) if is_name(name) => {
                if name.eq_ignore_ascii_case(wanted) {
                    let value_of = line.get(name.len() + 1..).unwrap_or_default();
                    value = Some(value_of.trim_start_matches([' ', '\t']).to_owned());
                }
            }
            _ if line.starts_with("From ") => {}
            _ => break,
        }
    }
    value.map(|value| value.trim_end_matches(['\r', '\n']).to_owned())
}

/// Returns the value of a parameter, such as `name` in `form-data; name="a"`. If the parameter is
/// repeated, returns its last value.
fn parameter(text: &str, wanted: &str) -> Option<String> {
    let mut found = None;
    // The first part is the type (`form-data`), not a parameter.
    for part in parts(text).skip(1) {
        let Some((name, value)) = part.split_once('=') else {
            continue;
        };
        if trimmed(name).to_lowercase() != wanted {
            continue;
        }
        let value = trimmed(value);
        let inside = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        found = Some(match inside {
            Some(inside) => inside.replace("\\\\", "\\").replace("\\\"", "\""),
            None => value.to_owned(),
        });
    }
    found
}

/// Splits a string at semicolons outside of quotes.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let mut is_quoted = false;
        let mut before = 0;
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b'"' if before != b'\\' => is_quoted = !is_quoted,
                b';' if !is_quoted => {
                    rest = text.get(at + 1..);
                    return text.get(..at);
                }
                _ => {}
            }
            before = byte;
        }
        Some(text)
    })
}

fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c))
}
