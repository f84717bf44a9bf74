//! Objects of JSON whose values are strings.

/// An object that is being written.
pub(super) struct Object<'a> {
    into: &'a mut Vec<u8>,
    between: u8,
}

impl Object<'_> {
    pub(crate) fn begin(into: &mut Vec<u8>) -> Object<'_> {
        Object {
            into,
            between: b'{',
        }
    }

    /// Adds a member. `name` is with its quotes and its colon.
    pub(crate) fn text(&mut self, name: &[u8], value: &str) {
        self.name(name);
        // As good as all are as they should be, and looking at all bytes at once is cheap.
        let escaped = value.bytes().fold(false, |any, byte| {
            any | (byte < b' ') | (byte == b'"') | (byte == b'\\')
        });
        if !escaped {
            self.into.push(b'"');
            self.into.extend_from_slice(value.as_bytes());
            self.into.push(b'"');
        } else if let Ok(text) = serde_json::to_string(value) {
            self.into.extend_from_slice(text.as_bytes());
        }
    }

    /// Adds a number, as a string.
    pub(crate) fn number(&mut self, name: &[u8], mut value: u64) {
        self.name(name);
        let mut digits = [0; 22];
        let mut at = digits.len();
        let mut put = |byte| {
            at = at.saturating_sub(1);
            if let Some(place) = digits.get_mut(at) {
                *place = byte;
            }
        };
        put(b'"');
        loop {
            put(b'0' + (value % 10) as u8);
            value /= 10;
            if value == 0 {
                break;
            }
        }
        put(b'"');
        self.into
            .extend_from_slice(digits.get(at..).unwrap_or_default());
    }

    pub(crate) fn end(self) {
        if self.between == b'{' {
            self.into.push(b'{');
        }
        self.into.push(b'}');
    }

    fn name(&mut self, name: &[u8]) {
        self.into.push(std::mem::replace(&mut self.between, b','));
        self.into.extend_from_slice(name);
    }
}
