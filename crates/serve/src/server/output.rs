//! Rows as text.

use crate::query::Output;
use crawlspace_archive::row::{self, Row, quote};
use crawlspace_cdx::Field;

/// Writes rows in one of the formats that are a line a row.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    output: Output,
    fields: Option<Vec<String>>,
    /// Whether rows do not say where they come from.
    no_source: bool,
}

/// What says where a row comes from.
const SOURCE: [&str; 3] = ["source", "source-coll", "source_type"];

impl Writer {
    /// A writer of that format; with `fields` only these, in that order.
    pub(crate) fn new(output: Output, fields: Option<Vec<String>>) -> Writer {
        Writer {
            output,
            fields,
            no_source: false,
        }
    }

    /// A writer of rows that do not say where they come from.
    pub(crate) fn without_source(self, no_source: bool) -> Writer {
        Writer { no_source, ..self }
    }

    /// The media type of what it writes.
    pub(crate) fn media(&self) -> &'static str {
        match self.output {
            Output::Cdxj => "text/x-cdxj",
            Output::Json => "text/x-ndjson",
            Output::Text => "text/plain",
            Output::Link => "application/link-format",
        }
    }

    /// Appends a row and the end of its line. A row with invalid JSON is left out where its JSON matters.
    pub(crate) fn write(&self, row: &Row, into: &mut Vec<u8>) {
        match (self.output, &self.fields) {
            (Output::Cdxj, None) if !self.no_source => {
                into.extend_from_slice(row.line());
                into.push(b'\n');
            }
            (Output::Json, None) if !self.no_source && !names_itself(row.json()) => {
                into.extend_from_slice(b"{\"urlkey\": ");
                quote(row.urlkey(), into);
                into.extend_from_slice(b", \"timestamp\": ");
                quote(row.timestamp(), into);
                let body = row.json().get(1..).unwrap_or_default();
                if !body.trim_ascii_start().starts_with(b"}") {
                    into.extend_from_slice(b", ");
                }
                into.extend_from_slice(body);
                into.push(b'\n');
            }
            _ => {
                if let Some(text) = self.rewritten(row) {
                    into.extend_from_slice(text.as_bytes());
                    into.push(b'\n');
                }
            }
        }
    }

    fn rewritten(&self, row: &Row) -> Option<String> {
        let key = String::from_utf8_lossy(row.urlkey());
        let time = String::from_utf8_lossy(row.timestamp());
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut all = vec![
            ("urlkey".into(), quoted(&key)),
            ("timestamp".into(), quoted(&time)),
        ];
        let members = row::members(row.json())?;
        let own = |name: &str| name == "urlkey" || name == "timestamp";
        let is_left_out = |name: &str| self.no_source && SOURCE.contains(&name);
        let members = members
            .into_iter()
            .filter(|(name, _)| !own(name) && !is_left_out(name));
        all.extend(members.map(|(name, value)| (name, value.get().to_owned())));

        let chosen = self.fields.as_ref().map(|fields| {
            let chosen = fields.iter().map(|name| {
                let field = Field::named(name.as_bytes());
                // Of two members of one name, the last counts.
                let found = all
                    .iter()
                    .rev()
                    .find(|(one, _)| Field::named(one.as_bytes()) == field);
                (&name[..], found.map(|(_, value)| &value[..]))
            });
            chosen.collect::<Vec<_>>()
        });
        if self.output == Output::Text {
            let plain =
                |value: &str| match serde_json::from_str::<&serde_json::value::RawValue>(value) {
                    Ok(value) if value.get() != "null" => {
                        row::text(value).replace(['\r', '\n'], " ")
                    }
                    _ => "-".to_owned(),
                };
            let values: Vec<String> = match chosen {
                Some(chosen) => chosen
                    .iter()
                    .map(|(_, value)| value.map_or("-".to_owned(), plain))
                    .collect(),
                None => all.iter().map(|(_, value)| plain(value)).collect(),
            };
            return Some(values.join(" "));
        }
        let mut members = String::new();
        match chosen {
            Some(chosen) => {
                for (name, value) in chosen {
                    // In CDXJ these stand before the JSON.
                    let leads = self.output == Output::Cdxj && own(name);
                    if let (Some(value), false) = (value, leads) {
                        row::written(name, value, &mut members);
                    }
                }
            }
            None => {
                let skipped = if self.output == Output::Json { 0 } else { 2 };
                for (name, value) in all.iter().skip(skipped) {
                    row::written(name, value, &mut members);
                }
            }
        }
        Some(match self.output {
            Output::Json => format!("{{{members}}}"),
            _ => format!("{key} {time} {{{members}}}"),
        })
    }
}

/// Whether the JSON has members of the names that the columns before it have.
fn names_itself(json: &[u8]) -> bool {
    memchr::memmem::find(json, b"\"urlkey\"").is_some()
        || memchr::memmem::find(json, b"\"timestamp\"").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn written(output: Output, fields: &str, line: &str) -> String {
        let fields = (!fields.is_empty()).then(|| fields.split(',').map(str::to_owned).collect());
        let mut out = Vec::new();
        let row = Row::new(Bytes::copy_from_slice(line.as_bytes())).unwrap();
        Writer::new(output, fields).write(&row, &mut out);
        String::from_utf8(out).unwrap()
    }

    const LINE: &str = r#"com,a)/ 2016 {"url": "http://a.com/", "status": 200, "x": null}"#;

    #[test]
    fn each_format_has_its_own_way() {
        assert_eq!(written(Output::Cdxj, "", LINE), format!("{LINE}\n"));
        assert_eq!(
            written(Output::Json, "", LINE),
            "{\"urlkey\": \"com,a)/\", \"timestamp\": \"2016\", \"url\": \"http://a.com/\", \"status\": 200, \"x\": null}\n"
        );
        assert_eq!(
            written(Output::Text, "", LINE),
            "com,a)/ 2016 http://a.com/ 200 -\n"
        );
        assert_eq!(
            written(Output::Json, "", "k 2016 {}"),
            "{\"urlkey\": \"k\", \"timestamp\": \"2016\"}\n"
        );
    }

    #[test]
    fn only_the_fields_that_are_asked_for_in_their_order() {
        assert_eq!(
            written(Output::Cdxj, "timestamp,statuscode,url,nothing", LINE),
            "com,a)/ 2016 {\"statuscode\": 200, \"url\": \"http://a.com/\"}\n"
        );
        assert_eq!(
            written(Output::Json, "timestamp,urlkey", LINE),
            "{\"timestamp\": \"2016\", \"urlkey\": \"com,a)/\"}\n"
        );
        assert_eq!(
            written(Output::Text, "url,nothing,timestamp", LINE),
            "http://a.com/ - 2016\n"
        );
    }

    #[test]
    fn rows_need_not_say_where_they_come_from() {
        let line = r#"k 2016 {"a": "b", "source": "s", "source-coll": "s", "source_type": "file"}"#;
        let row = Row::new(Bytes::from_static(line.as_bytes())).unwrap();
        for (output, expected) in [
            (Output::Cdxj, "k 2016 {\"a\": \"b\"}\n"),
            (
                Output::Json,
                "{\"urlkey\": \"k\", \"timestamp\": \"2016\", \"a\": \"b\"}\n",
            ),
            (Output::Text, "k 2016 b\n"),
        ] {
            let mut out = Vec::new();
            let writer = Writer::new(output, None).without_source(true);
            writer.write(&row, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn nothing_stands_there_twice() {
        let line = r#"k 2016 {"urlkey": "other", "timestamp": "1999", "a": "b\nc"}"#;
        assert_eq!(
            written(Output::Json, "", line),
            "{\"urlkey\": \"k\", \"timestamp\": \"2016\", \"a\": \"b\\nc\"}\n"
        );
        assert_eq!(written(Output::Text, "", line), "k 2016 b c\n");
    }
}
