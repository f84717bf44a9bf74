//! Fields of a mapping: lookup, unknown names, and typed values.

use std::time::Duration;

use super::Reader;
use super::errors::Position;
use super::location::one_of;
use super::yaml::{Node, Pair, Value};

/// Maximum timeout, in seconds (one day).
const MAX_SECONDS: f64 = 86_400.0;

/// A mapping with known field names.
pub(super) struct Fields<'n> {
    pub entries: &'n [Pair],
    pub position: Position,
}

impl<'n> Fields<'n> {
    /// Returns the value of a field, which may be empty.
    pub(crate) fn get(&self, name: &str) -> Option<&'n Node> {
        self.entry(name).map(|entry| &entry.value)
    }

    pub(crate) fn entry(&self, name: &str) -> Option<&'n Pair> {
        self.entries.iter().find(|entry| &*entry.key == name)
    }

    /// Returns the first of these fields that the mapping has.
    pub(crate) fn first(&self, names: &[&str]) -> Option<&'n Pair> {
        names.iter().find_map(|name| self.entry(name))
    }
}

impl Reader<'_> {
    /// Returns the fields of a mapping; any other node is an error.
    pub(super) fn fields<'n>(&mut self, node: &'n Node, what: &str) -> Option<Fields<'n>> {
        match &node.value {
            Value::Map(entries) => Some(Fields {
                entries,
                position: node.position,
            }),
            _ => {
                let what = format!("{what} must be a mapping (got {})", node.kind());
                self.found.error(node.position, what);
                None
            }
        }
    }

    /// Reports fields with unknown names as errors.
    pub(super) fn only(&mut self, fields: &Fields<'_>, known: &[&str], of: &str) {
        for entry in fields.entries {
            if !known.contains(&&*entry.key) {
                let hint = match meant(&entry.key, known) {
                    none if none.is_empty() => format!("; valid fields are {}", one_of(known)),
                    meant => meant,
                };
                let what = format!("{of} has no field {:?}{hint}", &*entry.key);
                self.found.error(entry.position, what);
            }
        }
    }

    /// Parses a string and expands `${NAME}`. Plain numbers are accepted as strings.
    pub(super) fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        let mut text = match &node.value {
            Value::Text { text, plain } if !node.is_nothing() => {
                if *plain && text.starts_with("${") {
                    let whole = self.expanded(text);
                    self.found.take(node.position, whole)?
                } else {
                    text.to_string()
                }
            }
            _ => {
                let what = format!("{what} must be a string (got {})", node.kind());
                self.found.error(node.position, what);
                return None;
            }
        };
        if text.trim().is_empty() {
            self.found.error(node.position, format!("{what} is empty"));
            return None;
        }
        // Block strings (`>` or `|`) end with a line break.
        text.truncate(text.trim_end_matches('\n').len());
        Some(text)
    }

    /// Expands environment variables in a string. As in pywb, only plain (unquoted) strings that begin with a
    /// variable are expanded.
    fn expanded(&self, text: &str) -> Result<String, String> {
        let mut whole = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) = after
                .split_once('}')
                .ok_or_else(|| "the closing } of ${ is missing".to_owned())?;
            let value = (self.variable)(name).ok_or_else(|| {
                format!(
                    "the environment has no variable {name:?}: set it, or put the text into quotes"
                )
            })?;
            whole.push_str(before);
            whole.push_str(&value);
            rest = after;
        }
        whole.push_str(rest);
        Ok(whole)
    }

    /// Parses a required field with `read`.
    pub(super) fn needed<T>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Some(node) = fields.get(name) else {
            self.found
                .error(fields.position, format!("the field {name} is missing"));
            return None;
        };
        let text = self.text(node, name)?;
        let value = read(&text).map_err(|error| format!("{name}: {error}"));
        self.found.take(node.position, value)
    }

    /// Parses `index_timeout` (or `timeout`), in seconds.
    pub(super) fn timeout(&mut self, fields: &Fields<'_>) -> Option<Duration> {
        let entry = fields.first(&["index_timeout", "timeout"])?;
        if let (Some(_), Some(other)) = (fields.entry("index_timeout"), fields.entry("timeout")) {
            let what = "timeout is an alias for index_timeout: set only one of them";
            self.found.error(other.position, what);
        }
        let text = self.text(&entry.value, &entry.key)?;
        let seconds = text
            .parse::<f64>()
            .ok()
            .filter(|seconds| (0.001..=MAX_SECONDS).contains(seconds));
        let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let outcome = duration.ok_or_else(|| {
            let key = &entry.key;
            format!("{key} must be a number of seconds from 0.001 to {MAX_SECONDS} (got {text:?})")
        });
        self.found.take(entry.value.position, outcome)
    }

    /// Parses a boolean field; a missing field is false.
    pub(super) fn flag(&mut self, fields: &Fields<'_>, name: &str) -> bool {
        let Some(node) = fields.get(name) else {
            return false;
        };
        let text = self.text(node, name).unwrap_or_default();
        let outcome = match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => Ok(true),
            "false" | "no" | "off" => Ok(false),
            _ => Err(format!("{name} must be true or false (got {text:?})")),
        };
        self.found.take(node.position, outcome).unwrap_or(false)
    }

    /// Parses a field with a positive integer.
    pub(super) fn number(&mut self, fields: &Fields<'_>, name: &str) -> Option<u64> {
        let node = fields.get(name)?;
        let text = self.text(node, name)?;
        let outcome = text.parse().ok().filter(|number| *number > 0);
        let outcome = outcome
            .ok_or_else(|| format!("{name} must be a whole number of at least 1 (got {text:?})"));
        self.found.take(node.position, outcome)
    }
}

/// Returns a suggestion (`; did you mean …?`) to append to an error message, or an empty string if no
/// known word is close.
pub(super) fn meant(word: &str, known: &[&str]) -> String {
    // Comparing a very long word would be slow.
    let word: String = word.chars().take(40).collect();
    let near = known
        .iter()
        .map(|known| (strsim::osa_distance(&word, known), *known))
        .filter(|(distance, known)| *distance <= 2 && *distance * 2 < known.len())
        .min();
    match near {
        Some((_, known)) => format!("; did you mean {known}?"),
        None => String::new(),
    }
}
