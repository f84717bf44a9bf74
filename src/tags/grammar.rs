//! Grammar of the `TAGS` commands: names, flags, descriptions and arguments.

// Without the feature `module`, only tests read the parsed values.
#![cfg_attr(
    not(feature = "module"),
    allow(dead_code, unused_imports, unused_macros)
)]

use crawlspace_compact::limits::tags::MAX_COUNT;
use std::sync::OnceLock;

use crawlspace_cdx::{Collapse, Dialect, Format};
use crawlspace_host::command;
use crawlspace_host::grammar;
use crawlspace_host::grammar::{
    Arg, Args, Bytes, BytesForm, Choice, Flag, Form, FormOf, Grammar, Integer, Many, OneOf,
    Optional, Rest, Shape, Text, block,
};
use crawlspace_host::text::Shown;
use smallvec::SmallVec;

use super::error::Error;
use super::filter::{Batch, Request, Returns};
use super::index::{ID_BYTES, Mode, TAG_BYTES, Tagged};
use super::view::Asked;
use super::{point, rule};

const KIND: Choice<Tagged> = Choice(
    "kind",
    &[
        ("RECORD", Tagged::Record),
        ("FILE", Tagged::File),
        ("TAG", Tagged::Tag),
    ],
);
const ID: Bytes = Bytes::new("id", ID_BYTES);
const TAG: BytesForm = Form::text("tag", "t", tag);
const PREFIX: Text = Text("prefix");
const CURSOR: FormOf<u64> = Form::number("cursor", "0", cursor);
const COUNT: Integer = Integer::new("count", 1, MAX_COUNT);

fn tag(tag: &[u8]) -> Result<&[u8], String> {
    match tag.len() {
        0 => Err("ERR tag is empty".to_owned()),
        n if n > TAG_BYTES => Err(format!("ERR tag has {n} bytes, the maximum is {TAG_BYTES}")),
        _ if tag.contains(&b' ') => Err(format!(
            "ERR tag '{}' contains a space, which separates tags",
            Shown(tag)
        )),
        _ => Ok(tag),
    }
}

/// Parses a cursor that an earlier call returned.
fn cursor(text: &[u8]) -> Result<u64, String> {
    let digits = std::str::from_utf8(text).ok();
    let digits = digits.filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    digits.and_then(|text| text.parse().ok()).ok_or_else(|| {
        format!(
            "ERR invalid cursor '{}': use 0, or the cursor that the previous call returned",
            Shown(text)
        )
    })
}

grammar! {
    /// A record, file or tag whose tags the command reads or changes.
    pub struct Subject<'a> {
        kind: Tagged = KIND,
        id: &'a [u8] = ID,
    }
    where Subject::check
}

impl Subject<'_> {
    fn check(&self) -> Result<(), String> {
        if self.kind == Tagged::Tag {
            tag(self.id)?;
        }
        Ok(())
    }
}

type Tags<'a> = SmallVec<[&'a [u8]; 4]>;

command! {
    key "tags.add", "write fast deny-oom";
    /// Adds tags to a record, a file or another tag.
    ///
    /// O(N) where N is the number of tags given, plus, for TAG, the number of tags that carry the id
    pub struct Add<'a> {
        to: Subject<'a> = block(""),
        tags: Tags<'a> = Many(TAG),
    }
}

command! {
    key "tags.rem", "write fast";
    /// Removes tags from a record, a file or another tag.
    ///
    /// O(N) where N is the number of tags given, plus, for TAG, the number of tags that carry the id
    pub struct Rem<'a> {
        from: Subject<'a> = block(""),
        tags: Tags<'a> = Many(TAG),
    }
}

command! {
    key "tags.get", "readonly fast";
    /// Returns the tags of a record, a file or another tag.
    ///
    /// O(N) where N is the number of tags in the reply
    pub struct Get<'a> {
        of: Subject<'a> = block(""),
        { all: bool = Flag("ALL"), }
    }
}

grammar! {
    /// An id and its tags, separated by spaces.
    pub struct Entry<'a> {
        id: &'a [u8] = ID,
        tags: &'a [u8] = Text("tags"),
    }
}

command! {
    key "tags.load", "write deny-oom";
    /// Loads the tags of many records, files or tags: adds tags, sets them, replaces all ids, or fills a staged copy.
    ///
    /// O(N) where N is the number of ids and tags given
    pub struct Load<'a> {
        kind: Tagged = KIND,
        mode: Mode = Choice("mode", &[
            ("MERGE", Mode::Merge),
            ("SET", Mode::Set),
            ("REPLACE", Mode::Replace),
            ("STAGE", Mode::Stage),
        ]),
        entries: Option<SmallVec<[(&'a [u8], &'a [u8]); 1]>> =
            Optional(Many(block("entry").map(|entry: Entry<'a>| (entry.id, entry.tags)))),
    }
}

/// An option of `TAGS.SWAP`: a check of the staged copy, or its deletion.
#[derive(Clone, Copy)]
pub enum Condition {
    /// The staged copy must have this number of ids.
    Expect(u64),
    /// The staged copy is deleted.
    Discard,
}

command! {
    key "tags.swap", "write";
    /// Replaces all records, files or tags by the staged copy, or deletes the staged copy.
    ///
    /// O(1); the replaced ids are freed in the background
    pub struct Swap {
        kind: Tagged = KIND,
        {
            condition: Option<Condition> = OneOf("condition", (
                Integer::from("ids", 0).after("EXPECT").map(Condition::Expect),
                Flag("DISCARD").map(|()| Condition::Discard),
            )),
        }
    }
}

command! {
    key "tags.ruleset", "write deny-oom";
    /// Sets a rule that derives tags from a field of captures.
    ///
    /// O(N) where N is the length of the regular expression
    pub struct RuleSet<'a> {
        name: &'a [u8] = Bytes::new("name", rule::NAME_BYTES),
        field: &'a [u8] = Text("field"),
        regex: &'a [u8] = Text("regex"),
        templates: &'a [&'a [u8]] = Rest("template"),
    }
}

command! {
    key "tags.ruledel", "write fast";
    /// Deletes a rule.
    ///
    /// O(N) where N is the number of rules
    pub struct RuleDel<'a> {
        name: &'a [u8] = Bytes::new("name", rule::NAME_BYTES),
    }
}

command! {
    key "tags.rules", "readonly";
    /// Lists the rules.
    ///
    /// O(N) where N is the number of rules
    pub struct Rules {}
}

command! {
    key "tags.pointset", "write deny-oom";
    /// Sets an access point: an expression under a name, or under a pattern of names.
    ///
    /// O(N) where N is the length of the expression
    pub struct PointSet<'a> {
        name: &'a [u8] = Bytes::new("name", point::NAME_BYTES),
        expression: &'a [u8] = Text("expression"),
    }
}

command! {
    key "tags.pointdel", "write fast";
    /// Deletes an access point.
    ///
    /// O(log N) where N is the number of access points
    pub struct PointDel<'a> {
        name: &'a [u8] = Bytes::new("name", point::NAME_BYTES),
    }
}

command! {
    key "tags.points", "readonly";
    /// Lists the access points, or resolves a name to its access point.
    ///
    /// O(N) where N is the number of access points; with a name, N is the number of access points that are patterns
    pub struct Points<'a> {
        name: Option<&'a [u8]> = Optional(Text("name")),
    }
}

/// Filters, up to the next option word. A filter that equals an option word must come directly
/// after `FILTER`.
#[derive(Clone, Copy)]
struct Specs;

impl<'a> Shape<'a> for Specs {
    type Value = Vec<Vec<u8>>;

    fn arg(&self) -> Arg {
        Text("spec").arg().multiple()
    }

    fn read(&self, args: &mut Args<'a>) -> Result<Self::Value, String> {
        let mut specs = vec![args.next("filter")?.to_vec()];
        while args.peek().is_some_and(|next| !is_word(next)) {
            specs.push(args.next("filter")?.to_vec());
        }
        Ok(specs)
    }
}

/// Returns true if an argument is a word that begins an option or a batch.
fn is_word(argument: &[u8]) -> bool {
    static WORDS: OnceLock<Vec<&'static str>> = OnceLock::new();
    let all = || Filter::args().iter().flat_map(Arg::openers).collect();
    let mut words = WORDS.get_or_init(all).iter();
    words.any(|word| argument.eq_ignore_ascii_case(word.as_bytes()))
}

fn collapse_spec(spec: &[u8]) -> Result<Collapse, String> {
    Collapse::parse(spec).map_err(|error| Error::of_spec("COLLAPSE", spec, error).to_string())
}

grammar! {
    /// All options that may come before the batch.
    struct Options<'a> {
        {
            point: Option<&'a [u8]> = Text("point").after("POINT"),
            expression: Option<&'a [u8]> = Text("expression").after("WHERE"),
            filters: Vec<Vec<u8>> = Specs.after("FILTER"),
            dialect: Option<Dialect> = Choice("dialect", &[
                ("OUTBACK", Dialect::Outback),
                ("IA", Dialect::Ia),
                ("PYWB", Dialect::Pywb),
            ]).after("DIALECT"),
            collapse: Option<Collapse> =
                Form::text("field[:n]", "urlkey", collapse_spec).after("COLLAPSE"),
            skip: Option<u64> = Integer::from("skip", 0).after("SKIP"),
            limit: Option<u64> = Integer::from("limit", 0).after("LIMIT"),
            format: Option<Format> = Choice("format", &[
                ("AUTO", Format::Auto),
                ("CDX", Format::Cdx),
                ("CDXJ", Format::Cdxj),
                ("FILE", Format::File),
                ("RECORD", Format::Record),
            ]).after("FORMAT"),
            drop_bad_lines: Option<bool> =
                Choice("badlines", &[("ERROR", false), ("DROP", true)]).after("BADLINES"),
            returns: Option<Returns> = Choice("returns", &[
                ("LINES", Returns::Lines),
                ("INDEX", Returns::Index),
                ("BITS", Returns::Bits),
                ("COUNT", Returns::Count),
                ("TAGS", Returns::Tags),
            ]).after("RETURN"),
        }
    }
}

impl Options<'_> {
    fn request(self) -> Request {
        Request {
            asked: Asked {
                point: self.point.map(<[u8]>::to_vec),
                expression: self.expression.map(<[u8]>::to_vec),
                filters: self.filters,
                dialect: self.dialect.unwrap_or(Dialect::Outback),
            },
            collapse: self.collapse,
            skip: self.skip.unwrap_or(0),
            limit: self.limit,
            format: self.format.unwrap_or(Format::Auto),
            drop_bad_lines: self.drop_bad_lines.unwrap_or(false),
            returns: self.returns.unwrap_or(Returns::Lines),
        }
    }
}

command! {
    key "tags.filter", "readonly";
    /// Returns the captures of a batch that pass an access point, an expression and filters.
    ///
    /// O(N) where N is the total length of the captures in bytes
    pub struct Filter<'a> {
        request: Request = block("").map(Options::<'a>::request),
        batch: Batch<'a> = OneOf("batch", (
            Rest("line").after("LINES").map(Batch::Lines),
            Text("text").after("BLOB").map(Batch::Blob),
        )),
    }
}

command! {
    key "tags.explain", "readonly";
    /// Explains why a capture passes or not: the source of each tag, and the result of each clause.
    ///
    /// O(N) where N is the size of the condition, including its access points
    pub struct Explain<'a> {
        request: Request = block("").map(Options::<'a>::request),
        line: &'a [u8] = Text("line").after("LINES"),
    }
}

command! {
    key "tags.list", "readonly";
    /// Lists the tags that satisfy an expression.
    ///
    /// O(N) where N is COUNT
    pub struct List<'a> {
        expression: &'a [u8] = Text("expression"),
        {
            prefix: Option<&'a [u8]> = PREFIX.after("PREFIX"),
            cursor: Option<u64> = CURSOR.after("CURSOR"),
            count: Option<u64> = COUNT.after("COUNT"),
        }
    }
}

command! {
    key "tags.scan", "readonly";
    /// Iterates over the records, files or tags that have tags.
    ///
    /// O(N) where N is COUNT
    pub struct Scan<'a> {
        kind: Tagged = KIND,
        cursor: u64 = CURSOR,
        {
            prefix: Option<&'a [u8]> = PREFIX.after("PREFIX"),
            count: Option<u64> = COUNT.after("COUNT"),
        }
    }
}

command! {
    key "tags.info", "readonly fast";
    /// Returns the figures of a tag space: its numbers of ids, tags, rules and access points, and its memory.
    ///
    /// O(1)
    pub struct Info {}
}

/// Calls a macro with the names of all commands.
macro_rules! all {
    ($with:ident) => {
        $with! {
            Add Rem Get Load Swap RuleSet RuleDel Rules PointSet PointDel Points Filter Explain
            List Scan Info
        }
    };
}
pub(crate) use all;
