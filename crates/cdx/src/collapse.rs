//! The `collapse=` parameter: keeps only the first of consecutive captures with the same value.

use crate::{Field, FilterError, Line, UnknownField};

/// Compares a field, or its first bytes, with the value of the previous capture.
///
/// ```
/// use crawlspace_cdx::{Collapse, Format, Line, Read};
/// let mut days = Collapse::parse(b"timestamp:8").unwrap();
/// let mut is_new = |id: &[u8]| match Line::read(id, Format::Record) {
///     Ok(Read::Capture(line)) => days.is_new(&line).unwrap(),
///     _ => unreachable!(),
/// };
/// assert!(is_new(b"org,example)/ 20240102030405 a.warc.gz 0"));
/// assert!(!is_new(b"org,example)/ 20240102235959 a.warc.gz 9"));
/// assert!(is_new(b"org,example)/ 20240103000000 a.warc.gz 18"));
/// ```
#[derive(Clone, Debug)]
pub struct Collapse {
    field: Field,
    bytes: usize,
    last: Option<Vec<u8>>,
}

impl Collapse {
    /// Parses `field` or `field:n`, where n is a number of bytes, at least 1.
    ///
    /// # Errors
    /// Fails when the field or the number is malformed.
    pub fn parse(spec: &[u8]) -> Result<Collapse, FilterError> {
        let colon = memchr::memchr(b':', spec);
        let field = Field::named(&spec[..colon.unwrap_or(spec.len())]);
        if !field.is_plausible() {
            return Err(FilterError::BadField(field.name().into()));
        }
        let bytes = match colon {
            None => usize::MAX,
            Some(at) => {
                let digits = std::str::from_utf8(&spec[at + 1..]).unwrap_or("");
                let signed = digits.starts_with('+');
                match digits.parse() {
                    Ok(n) if n > 0 && !signed => n,
                    _ => {
                        let what = "an invalid number of bytes after the ':' (must be at least 1)";
                        return Err(FilterError::Syntax { at: at + 1, what });
                    }
                }
            }
        };
        Ok(Collapse {
            field,
            bytes,
            last: None,
        })
    }

    /// Returns the field whose values are compared.
    pub fn field(&self) -> &Field {
        &self.field
    }

    /// Returns true if the line's value differs from that of the previous line; always true for the first
    /// line. The next call compares its line with this line.
    ///
    /// # Errors
    /// Fails when the line does not have the field.
    pub fn is_new(&mut self, line: &Line<'_>) -> Result<bool, UnknownField> {
        let value = line
            .field(&self.field)
            .ok_or_else(|| UnknownField(self.field.name().into()))?;
        Ok(self.is_new_value(&value))
    }

    /// Compares a value of the [`field`](Collapse::field) with the previous value, as
    /// [`is_new`](Collapse::is_new) does with lines.
    ///
    /// ```
    /// use crawlspace_cdx::Collapse;
    /// let mut years = Collapse::parse(b"timestamp:4").unwrap();
    /// assert!(years.is_new_value(b"20240102030405"));
    /// assert!(!years.is_new_value(b"20241231235959"));
    /// ```
    pub fn is_new_value(&mut self, value: &[u8]) -> bool {
        let value = &value[..self.bytes.min(value.len())];
        match &mut self.last {
            Some(last) if last == value => false,
            Some(last) => {
                last.clear();
                last.extend_from_slice(value);
                true
            }
            None => {
                self.last = Some(value.to_vec());
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Read};

    fn kept(spec: &str, lines: &[&str]) -> Vec<usize> {
        let mut collapse = Collapse::parse(spec.as_bytes()).unwrap();
        let is_new = |line: &str| match Line::read(line.as_bytes(), Format::Auto).unwrap() {
            Read::Capture(line) => collapse.is_new(&line).unwrap(),
            Read::Skipped => panic!("{line}"),
        };
        let new: Vec<bool> = lines.iter().copied().map(is_new).collect();
        (0..lines.len()).filter(|&i| new[i]).collect()
    }

    #[test]
    fn only_the_first_of_a_run_is_new() {
        let lines = [
            "a 2020 {\"digest\":\"X\"}",
            "b 2020 {\"digest\":\"X\"}",
            "c 2021 {\"digest\":\"Y\"}",
            "d 2021 {\"digest\":\"X\"}",
        ];
        assert_eq!(kept("digest", &lines), [0, 2, 3]);
        assert_eq!(kept("timestamp", &lines), [0, 2]);
        assert_eq!(kept("timestamp:3", &lines), [0]);
        assert_eq!(kept("urlkey:100", &lines), [0, 1, 2, 3]);
    }

    #[test]
    fn empty_first_value_is_new() {
        let lines = [
            "a 2020 {}",
            "b 2020 {\"lang\":\"\"}",
            "c 2020 {\"lang\":\"de\"}",
        ];
        assert_eq!(kept("lang", &lines), [0, 2]);
    }

    #[test]
    fn json_field_is_unknown_in_other_formats() {
        let mut collapse = Collapse::parse(b"lang").unwrap();
        let Ok(Read::Capture(line)) = Line::read(b"x.warc.gz", Format::File) else {
            panic!()
        };
        assert_eq!(
            collapse.is_new(&line),
            Err(UnknownField(b"lang"[..].into()))
        );
    }

    #[test]
    fn spec_is_a_field_with_an_optional_positive_number() {
        for spec in [
            "timestamp:",
            "timestamp:0",
            "timestamp:-1",
            "timestamp:+1",
            "timestamp:1:2",
            "timestamp: 1",
            "timestamp:99999999999999999999999",
        ] {
            let error = Collapse::parse(spec.as_bytes()).unwrap_err();
            assert!(
                matches!(error, FilterError::Syntax { at: 10, .. }),
                "{spec}"
            );
        }
        for spec in ["", ":8", "a b", "!status"] {
            let error = Collapse::parse(spec.as_bytes()).unwrap_err();
            assert!(matches!(error, FilterError::BadField(_)), "{spec}");
        }
    }
}
