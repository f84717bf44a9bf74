//! Explains why a capture passes or is hidden.

use std::collections::BTreeSet;

use crawlspace_cdx::{Format, Line, Read};

use super::error::Error;
use super::expression::{Bounds, Clause};
use super::filter::Request;
use super::view::{Asked, Source, View};
use crawlspace_host::reply::Reply;
use crawlspace_host::text::Shown;

/// A clause, its result, and the verdicts on its parts.
struct Verdict {
    text: Vec<u8>,
    holds: bool,
    parts: Vec<Verdict>,
}

/// Maximum length in bytes of a clause as shown in the reply. The limit is necessary because the
/// shown clause includes all of its parts.
const TEXT_BYTES: usize = 1000;

/// A tag of the capture and the source of that tag.
type Tag = (Vec<u8>, Vec<u8>);

/// Explains whether one line passes, and why. `most` limits the size of the condition, and `work`
/// limits the work of testing the line.
///
/// # Errors
/// Fails if the line is malformed or takes too much work, or if the condition has errors.
pub fn explain(
    request: &Request,
    view: &View,
    raw: &[u8],
    most: Bounds,
    work: usize,
) -> Result<Reply, Error> {
    let condition = request.condition(view, most)?;
    let needed = view.work(raw.len(), Some(&condition));
    if needed > work {
        return Err(Error::TooBig(format!(
            "the line takes {needed} bytes of work, the maximum is {work}; use simpler regexes"
        )));
    }
    if raw.len() > view.longest_line(&condition) {
        return Err(Error::Unexplained(format!(
            "it has {} bytes, the maximum is {} for regexes of this size",
            raw.len(),
            view.longest_line(&condition)
        )));
    }
    let line = capture(raw, request.format)?;
    if let Some(error) = condition.lacks_of(&line) {
        return Err(error);
    }
    let tags = tags(view, &line);
    let names: BTreeSet<&[u8]> = tags.iter().map(|(tag, _)| &tag[..]).collect();
    let clauses = view.clauses(&request.asked, most)?;
    let verdicts = verdicts(&request.asked, &clauses, &line, &names);
    let keep = view.exists && verdicts.iter().all(|verdict| verdict.holds);
    let why = why(view, &verdicts, &tags);
    let mut record = Vec::new();
    line.record_id(&mut record);
    let format = match line.format() {
        Format::Cdxj => "CDXJ",
        Format::File => "FILE",
        Format::Record => "RECORD",
        Format::Cdx | Format::Auto => "CDX",
    };
    Ok(Reply::named([
        ("keep", Reply::Int(i64::from(keep))),
        ("why", Reply::bulk(why)),
        ("format", Reply::bulk(format)),
        ("record", Reply::Bulk(record)),
        (
            "tags",
            Reply::Array(
                tags.into_iter()
                    .map(|(tag, source)| Reply::Array(vec![Reply::Bulk(tag), Reply::Bulk(source)]))
                    .collect(),
            ),
        ),
        (
            "clauses",
            Reply::Array(verdicts.into_iter().map(Verdict::reply).collect()),
        ),
    ]))
}

fn capture(raw: &[u8], format: Format) -> Result<Line<'_>, Error> {
    match Line::read(raw, format) {
        Ok(Read::Capture(line)) => Ok(line),
        Ok(Read::Skipped) => Err(Error::Unexplained(
            "it is blank or a header, which is never kept".to_string(),
        )),
        Err(bad) => Err(Error::Unexplained(bad.to_string())),
    }
}

/// Returns the verdict on each clause. A clause that comes from an option is labelled with the name
/// of the option (`POINT`, `WHERE`).
fn verdicts(
    asked: &Asked,
    clauses: &[Clause],
    line: &Line<'_>,
    tags: &BTreeSet<&[u8]>,
) -> Vec<Verdict> {
    let mut labels = Vec::new();
    labels.extend(asked.point.as_ref().map(|_| "POINT "));
    labels.extend(asked.expression.as_ref().map(|_| "WHERE "));
    let mut verdicts: Vec<Verdict> = clauses.iter().map(|c| judge(c, line, tags)).collect();
    for ((verdict, clause), label) in verdicts.iter_mut().zip(clauses).zip(labels) {
        let text = match (clause, &verdict.text[..]) {
            (Clause::Point(..), [b'@', name @ ..]) => name,
            (_, text) => text,
        };
        verdict.text = [label.as_bytes(), text].concat();
    }
    verdicts
}

impl Verdict {
    fn reply(self) -> Reply {
        Reply::Array(vec![
            Reply::bulk(self.text),
            Reply::Int(i64::from(self.holds)),
            Reply::Array(self.parts.into_iter().map(Verdict::reply).collect()),
        ])
    }
}

/// Returns the tags of a capture with their sources, direct tags first.
fn tags(view: &View, line: &Line<'_>) -> Vec<Tag> {
    let mut tags: Vec<Tag> = Vec::new();
    view.direct_tags(line, &mut |tag, source| {
        let entry = (tag.to_vec(), said(source));
        if !tags.contains(&entry) {
            tags.push(entry);
        }
    });
    let mut seen: BTreeSet<Vec<u8>> = tags.iter().map(|(tag, _)| tag.clone()).collect();
    let mut at = 0;
    while at < tags.len() {
        let carrier = tags[at].0.clone();
        at += 1;
        let Some(id) = view.index.tag(&carrier) else {
            continue;
        };
        for &carried in view.index.carried(id) {
            let name = view.index.name(carried);
            if seen.insert(name.to_vec()) {
                tags.push((name.to_vec(), said(Source::Tag(&carrier))));
            }
        }
    }
    tags
}

fn said(source: Source<'_>) -> Vec<u8> {
    match source {
        Source::Record => b"record".to_vec(),
        Source::File => b"file".to_vec(),
        Source::Rule(name) => [b"rule ", name].concat(),
        Source::Tag(name) => [b"tag ", name].concat(),
    }
}

fn judge(clause: &Clause, line: &Line<'_>, tags: &BTreeSet<&[u8]>) -> Verdict {
    let mut parts = Vec::new();
    let begins = |prefix: &[u8]| tags.iter().any(|tag| tag.starts_with(prefix));
    let holds = match clause {
        Clause::Everything => true,
        Clause::Tag(tag) => tags.contains(&**tag),
        Clause::Prefix(prefix) => begins(prefix),
        Clause::OneOf(prefix, choices) => choices
            .iter()
            .any(|choice| tags.contains(&[&**prefix, &**choice].concat()[..])),
        Clause::Field(test) => test.passes(line),
        Clause::Filter(_, filter) => filter
            .passes(line, &mut |tag| tags.contains(tag))
            .unwrap_or(false),
        Clause::Point(_, inner) | Clause::Not(inner) => {
            let inner = judge(inner, line, tags);
            let holds = inner.holds != matches!(clause, Clause::Not(_));
            parts.push(inner);
            holds
        }
        Clause::All(all) | Clause::Any(all) => {
            parts = all.iter().map(|part| judge(part, line, tags)).collect();
            match clause {
                Clause::All(_) => parts.iter().all(|part| part.holds),
                _ => parts.iter().any(|part| part.holds),
            }
        }
    };
    let mut text = clause.written();
    if text.len() > TEXT_BYTES {
        text.truncate(TEXT_BYTES);
        text.extend_from_slice(b"...");
    }
    Verdict { text, holds, parts }
}

/// Summarizes the verdict in one sentence for the reply.
fn why(view: &View, verdicts: &[Verdict], tags: &[Tag]) -> String {
    if !view.exists {
        return "hidden: the tag space does not exist, and without one every capture is hidden"
            .to_string();
    }
    let Some(failed) = verdicts.iter().find(|verdict| !verdict.holds) else {
        return match (verdicts, tags) {
            ([], _) => "kept: the expression is empty".to_string(),
            (_, []) => {
                "kept, though it has no tag: no rule, file or record gives it one".to_string()
            }
            _ => "kept: every clause holds".to_string(),
        };
    };
    let mut cause = failed;
    let mut below = false;
    // While a single part decides the result, continue with that part.
    while let Some(next) = deciding(cause) {
        cause = next;
        below = true;
    }
    let mut sentence = format!("hidden: {} does not hold", Shown(&failed.text));
    if below {
        let verb = if cause.holds {
            "holds"
        } else {
            "does not hold"
        };
        sentence = format!("{sentence}, because {} {verb}", Shown(&cause.text));
    }
    if cause.holds {
        let source = tags.iter().find(|(tag, _)| cause.text == *tag);
        if let Some((tag, source)) = source {
            sentence = format!("{sentence} ({} comes from {})", Shown(tag), Shown(source));
        }
    } else if tags.is_empty() {
        sentence.push_str("; the capture has no tag: no rule, file or record gives it one");
    }
    sentence
}

/// Returns the part that decides the result of a clause, if exactly one part decides it.
fn deciding(verdict: &Verdict) -> Option<&Verdict> {
    match &verdict.parts[..] {
        [] => None,
        [only] => Some(only),
        parts => {
            let mut like = parts.iter().filter(|part| part.holds == verdict.holds);
            let first = like.next()?;
            // If several parts of an `&` fail, the explanation names only the first. If an `|`
            // fails, all of its parts have failed.
            let alone = like.next().is_none() || !parts.iter().all(|p| p.holds == verdict.holds);
            alone.then_some(first)
        }
    }
}
