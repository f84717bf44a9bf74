//! Flattening of JSON into pairs of names and values.
//!
//! JSON is parsed as by the Python indexers: `NaN` is a number, and numbers may have any length. If an object repeats a
//! name, the last value is used, in the position of the first value.

use std::collections::HashMap;

/// Maximum nesting depth. The indexers fail for deeper nesting.
const MAX_DEPTH: usize = 900;
/// Maximum number of digits of an integer. The indexers fail for more digits.
const MAX_DIGITS: usize = 4300;

/// A string. Unpaired surrogates are encoded like other characters, so the string may be invalid
/// UTF-8.
type Text = Vec<u8>;

/// A JSON value. `Scalar(None)` is a value that can be parsed but not written.
enum Value {
    Object(Vec<(Text, Value)>),
    List(Vec<Value>),
    Scalar(Option<Text>),
    /// A number whose fraction is zero, stored without the fraction.
    Whole(Text),
    Null,
}

/// Rules by which a program converts JSON values to text.
#[derive(Clone, Copy)]
pub(super) struct Manner {
    /// Text written for `null`.
    pub null: &'static str,
    /// Keeps names whose value is an empty string.
    pub keeps_empty: bool,
    /// Keeps values without a name: a top-level scalar, and the elements of a top-level list.
    pub keeps_nameless: bool,
    /// Writes a number with a zero fraction as `1.0`, not as `1`.
    pub has_floats: bool,
}

/// Lists all named values in order; the elements of a list have the name of the list. A repeated name is
/// made unique by appending a number. Returns `None` if the body is not JSON.
pub(super) fn flat(body: &[u8], manner: Manner) -> Option<Vec<(String, String)>> {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let text = std::str::from_utf8(body).ok()?;
    let mut reader = Reader {
        rest: text.as_bytes(),
    };
    let value = reader.value(0)?;
    reader.skip_blanks();
    if !reader.rest.is_empty() {
        return None;
    }
    let mut values = Values {
        manner,
        all: Vec::new(),
        places: HashMap::new(),
        times: HashMap::new(),
    };
    values.take(&value, b"")?;
    Some(values.all)
}

struct Values {
    manner: Manner,
    all: Vec<(String, String)>,
    places: HashMap<String, usize>,
    times: HashMap<String, u64>,
}

impl Values {
    fn take(&mut self, value: &Value, name: &[u8]) -> Option<()> {
        match value {
            Value::Object(members) => members
                .iter()
                .try_for_each(|(name, value)| self.take(value, name)),
            Value::List(values) => values.iter().try_for_each(|value| self.take(value, name)),
            Value::Null => self.take(&Value::Scalar(Some(self.manner.null.into())), name),
            Value::Whole(number) => {
                let end: &[u8] = if self.manner.has_floats { b".0" } else { b"" };
                self.take(&Value::Scalar(Some([number, end].concat())), name)
            }
            Value::Scalar(Some(value)) if value.is_empty() && !self.manner.keeps_empty => Some(()),
            Value::Scalar(value) => {
                if !name.is_empty() || self.manner.keeps_nameless {
                    let name = self.free(std::str::from_utf8(name).ok()?);
                    self.put(name, String::from_utf8(value.clone()?).ok()?);
                }
                Some(())
            }
        }
    }

    fn free(&mut self, name: &str) -> String {
        if !self.places.contains_key(name) {
            return name.to_owned();
        }
        let times = self.times.entry(name.to_owned()).or_insert(1);
        *times += 1;
        format!("{name}.{times}_")
    }

    fn put(&mut self, name: String, value: String) {
        match self.places.get(&name).and_then(|at| self.all.get_mut(*at)) {
            // The input itself contains a name that equals the numbered name.
            Some(there) => there.1 = value,
            None => {
                self.places.insert(name.clone(), self.all.len());
                self.all.push((name, value));
            }
        }
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn skip_blanks(&mut self) {
        while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    fn takes(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text.as_bytes()) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.skip_blanks();
        let scalar = |text: &str| Some(Value::Scalar(Some(text.into())));
        match self.rest.first()? {
            _ if depth > MAX_DEPTH => None,
            b'{' => self.object(depth),
            b'[' => self.list(depth),
            b'"' => Some(Value::Scalar(Some(self.text()?))),
            b't' => self.takes("true").then(|| scalar("true"))?,
            b'f' => self.takes("false").then(|| scalar("false"))?,
            b'n' => self.takes("null").then_some(Value::Null),
            b'N' => self.takes("NaN").then(|| scalar("nan"))?,
            // Infinite numbers can be parsed, but not written.
            b'I' => self.takes("Infinity").then_some(Value::Scalar(None)),
            b'-' if self.takes("-Infinity") => Some(Value::Scalar(None)),
            _ => self.number(),
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        self.takes("{");
        let mut members: Vec<(Text, Value)> = Vec::new();
        let mut places = HashMap::new();
        self.skip_blanks();
        if self.takes("}") {
            return Some(Value::Object(members));
        }
        loop {
            self.skip_blanks();
            let name = self.text()?;
            self.skip_blanks();
            if !self.takes(":") {
                return None;
            }
            let value = self.value(depth + 1)?;
            match places
                .get(&name)
                .and_then(|at: &usize| members.get_mut(*at))
            {
                Some(there) => there.1 = value,
                None => {
                    places.insert(name.clone(), members.len());
                    members.push((name, value));
                }
            }
            self.skip_blanks();
            if self.takes("}") {
                return Some(Value::Object(members));
            }
            if !self.takes(",") {
                return None;
            }
        }
    }

    fn list(&mut self, depth: usize) -> Option<Value> {
        self.takes("[");
        let mut values = Vec::new();
        self.skip_blanks();
        if self.takes("]") {
            return Some(Value::List(values));
        }
        loop {
            values.push(self.value(depth + 1)?);
            self.skip_blanks();
            if self.takes("]") {
                return Some(Value::List(values));
            }
            if !self.takes(",") {
                return None;
            }
        }
    }

    fn text(&mut self) -> Option<Text> {
        if !self.takes("\"") {
            return None;
        }
        let mut text = Vec::new();
        loop {
            let (first, rest) = self.rest.split_first()?;
            self.rest = rest;
            match first {
                b'"' => return Some(text),
                b'\\' => self.escaped(&mut text)?,
                0..=31 => return None,
                _ => text.push(*first),
            }
        }
    }

    /// Parses the character after a backslash.
    fn escaped(&mut self, text: &mut Text) -> Option<()> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        text.push(match first {
            b'"' | b'\\' | b'/' => *first,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let unit = self.character()?;
                match char::from_u32(unit) {
                    Some(c) => text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                    None => {
                        let tail = |shift: u32| 0x80 | (unit >> shift & 0x3f) as u8;
                        text.extend_from_slice(&[0xed, tail(6), tail(0)]);
                    }
                }
                return Some(());
            }
            _ => return None,
        });
        Some(())
    }

    /// Parses the digits after `\u`, including the second half of a surrogate pair.
    fn character(&mut self) -> Option<u32> {
        let unit = self.unit()?;
        if (0xd800..0xdc00).contains(&unit) {
            let before = self.rest;
            if self.takes("\\u") {
                let second = self.unit()?;
                if (0xdc00..0xe000).contains(&second) {
                    return Some(0x1_0000 + ((unit - 0xd800) << 10) + (second - 0xdc00));
                }
                self.rest = before;
            }
        }
        Some(unit)
    }

    fn unit(&mut self) -> Option<u32> {
        let (digits, rest) = self.rest.split_at_checked(4)?;
        self.rest = rest;
        digits.iter().try_fold(0, |unit, digit| {
            Some(unit * 16 + char::from(*digit).to_digit(16)?)
        })
    }

    fn number(&mut self) -> Option<Value> {
        let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = self.rest;
        let sign = usize::from(text.starts_with(b"-"));
        let whole = digits(text.get(sign..)?);
        if whole == 0 || (whole > 1 && text.get(sign) == Some(&b'0')) {
            return None;
        }
        let integer = sign + whole;
        let mut end = integer;
        if let Some((b'.', rest)) = text.get(end..)?.split_first() {
            match digits(rest) {
                0 => {}
                count => end += 1 + count,
            }
        }
        if let Some((b'e' | b'E', rest)) = text.get(end..)?.split_first() {
            let sign = usize::from(matches!(rest.first(), Some(b'+' | b'-')));
            match digits(rest.get(sign..)?) {
                0 => {}
                count => end += 1 + sign + count,
            }
        }
        let (number, rest) = text.split_at_checked(end)?;
        self.rest = rest;
        let number = std::str::from_utf8(number).ok()?;
        if end == integer {
            return match number {
                "-0" => Some(Value::Scalar(Some(b"0".to_vec()))),
                _ => (whole <= MAX_DIGITS).then(|| Value::Scalar(Some(number.into()))),
            };
        }
        let number: f64 = number.parse().ok()?;
        if number.fract() == 0.0 && number.is_finite() {
            let whole = format!("{number:.0}");
            let whole = if whole == "-0" { "0" } else { &whole };
            return Some(Value::Whole(whole.into()));
        }
        Some(Value::Scalar(written(number).map(String::into_bytes)))
    }
}

/// Formats a number with a fraction. Returns `None` if it is infinite.
fn written(number: f64) -> Option<String> {
    if number.is_infinite() {
        return None;
    }
    // Shortest digits that round-trip, in scientific notation below 0.0001.
    if number.abs() >= 1e-4 {
        return Some(format!("{number}"));
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once("e-")?;
    Some(format!("{digits}e-{exponent:0>2}"))
}
