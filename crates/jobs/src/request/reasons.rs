//! The reasons why jobs are missing, as JSON: `{"7": "no-job", "8": {"no-record": ["8-metadata-1.warc"]}, "9":
//! {"unreadable": "…"}}`.

use serde_json::{Map, Value, json};

use super::super::{JobSet, Missing, MissingJob};

/// Maximum number of other jobs with records that are accepted from a server.
const MAX_OTHERS: usize = 100;

/// Returns the reasons of all jobs as a JSON object.
pub(super) fn object(missing: &[MissingJob]) -> Value {
    let all = missing
        .iter()
        .map(|one| (one.job.to_string(), reason(&one.why)));
    Value::Object(all.collect())
}

/// Returns the reasons of as many jobs as fit into `most` bytes of ASCII.
pub fn header(missing: &[MissingJob], most: usize) -> String {
    let mut text = String::from("{");
    for one in missing {
        let begin = text.len();
        if begin > 1 {
            text.push(',');
        }
        text.push_str(&format!("\"{}\":", one.job));
        for c in reason(&one.why).to_string().chars() {
            match c {
                ' '..='~' => text.push(c),
                c => {
                    let mut units = [0; 2];
                    for unit in c.encode_utf16(&mut units) {
                        text.push_str(&format!("\\u{unit:04x}"));
                    }
                }
            }
        }
        if text.len() >= most {
            text.truncate(begin);
            break;
        }
    }
    text.push('}');
    text
}

fn reason(why: &Missing) -> Value {
    match why {
        Missing::NoJob => json!("no-job"),
        Missing::NoRecord { files, others } => {
            if others.is_empty() {
                json!({ "no-record": files })
            } else {
                json!({ "no-record": files, "jobs": others.to_string() })
            }
        }
        Missing::Unreadable { why } => json!({ "unreadable": why }),
    }
}

/// Returns each of the jobs with its reason; unknown reasons get a default.
pub(super) fn of(jobs: &JobSet, reasons: &Value) -> Vec<MissingJob> {
    let none = Map::new();
    let reasons = reasons.as_object().unwrap_or(&none);
    let missing = jobs.iter().map(|job| {
        let why = reasons.get(&job.to_string()).and_then(parse);
        let unknown = || Missing::Unreadable {
            why: "the server gave no reason".to_owned(),
        };
        MissingJob {
            job,
            why: why.unwrap_or_else(unknown),
        }
    });
    missing.collect()
}

fn parse(reason: &Value) -> Option<Missing> {
    if reason == "no-job" {
        return Some(Missing::NoJob);
    }
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(files) = reason.get("no-record") {
        let files = files.as_array()?.iter().filter_map(text).collect();
        let others = reason.get("jobs").and_then(Value::as_str);
        let others = others.and_then(|others| JobSet::parse(others, MAX_OTHERS).ok());
        return Some(Missing::NoRecord {
            files,
            others: others.unwrap_or_default(),
        });
    }
    let why = text(reason.get("unreadable")?)?;
    Some(Missing::Unreadable { why })
}

#[cfg(test)]
mod tests {
    use super::super::super::JobId;
    use super::*;

    fn missing() -> Vec<MissingJob> {
        let all = [
            (7, Missing::NoJob),
            (
                8,
                Missing::NoRecord {
                    files: vec!["ä\u{1f600}\n\"\u{7f}.warc".to_owned(), "b".to_owned()],
                    others: JobSet::default(),
                },
            ),
            (
                9,
                Missing::Unreadable {
                    why: "at 12: \u{2028}".to_owned(),
                },
            ),
            (
                10,
                Missing::NoRecord {
                    files: vec!["c".to_owned()],
                    others: [JobId(5), JobId(6), JobId(7)].into_iter().collect(),
                },
            ),
        ];
        let all = all.map(|(job, why)| MissingJob {
            job: JobId(job),
            why,
        });
        all.into()
    }

    #[test]
    fn reasons_read_back() {
        let jobs: JobSet = "7-10".parse().unwrap();
        assert_eq!(of(&jobs, &object(&missing())), missing());
        let header = header(&missing(), 1000);
        assert!(
            header.bytes().all(|b| (b' '..=b'~').contains(&b)),
            "{header}"
        );
        assert_eq!(
            of(&jobs, &serde_json::from_str(&header).unwrap()),
            missing()
        );
    }

    #[test]
    fn header_is_short_json_for_any_number_of_reasons() {
        for most in 0..200 {
            let header = header(&missing(), most);
            assert!(header.len() <= most.max(2), "{most}: {header}");
            let value: Value = serde_json::from_str(&header).unwrap();
            assert!(value.is_object());
        }
        assert_eq!(header(&missing(), 20), r#"{"7":"no-job"}"#);
    }

    #[test]
    fn invalid_reasons_are_ignored() {
        let jobs: JobSet = "1-6".parse().unwrap();
        let reasons = json!({ "1": "x", "2": 2, "3": { "no-record": 1 }, "4": { "unreadable": [] }, "5": null });
        for one in of(&jobs, &reasons) {
            assert!(one.why.to_string().contains("gave no reason"), "{one:?}");
        }
        assert_eq!(of(&jobs, &Value::Null).len(), 6);
    }
}
