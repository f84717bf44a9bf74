//! Runs random changes and requests on a space, and compares the replies with those of a simple
//! evaluator.

use std::collections::{BTreeMap, BTreeSet};

use crawlspace_cdx::{Collapse, Dialect, Format};
use proptest::prelude::*;

use super::expression::Bounds;
use super::filter::{Batch, Request, Returns};
use super::index::{Mode, Tagged};
use super::point::Point;
use super::rule::Rule;
use super::space::Space;
use super::task::Task;
use super::view::Asked;
use crawlspace_host::defrag::Mover;
use crawlspace_host::reply::Reply;
use crawlspace_host::turns::{Next, Turn};

/// An expression as a tree, which can be evaluated without a parser.
#[derive(Clone, Debug)]
enum Asks {
    Everything,
    Tag(String),
    Prefix(String),
    OneOf(Vec<u8>),
    Point(u8),
    Status(u16),
    FileHas(u8),
    Mime(String),
    Not(Box<Asks>),
    All(Vec<Asks>),
    Any(Vec<Asks>),
}

impl Asks {
    fn text(&self) -> String {
        let list = |parts: &[Asks], sign: &str| {
            let parts: Vec<_> = parts.iter().map(|p| format!("({})", p.text())).collect();
            parts.join(sign)
        };
        match self {
            Asks::Everything => "*".to_string(),
            Asks::Tag(tag) => tag.clone(),
            Asks::Prefix(prefix) => format!("{prefix}*"),
            Asks::OneOf(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(u8::to_string).collect();
                format!("coll:{{{}}}", numbers.join("|"))
            }
            Asks::Point(n) => format!("@p{n}"),
            Asks::Status(status) => format!("status={status}"),
            Asks::FileHas(n) => format!("filename~\"-{n}[-_]\""),
            Asks::Mime(part) => format!("mime*={part}"),
            Asks::Not(inner) => format!("!({})", inner.text()),
            Asks::All(parts) => list(parts, " & "),
            Asks::Any(parts) => list(parts, "|"),
        }
    }

    fn holds(&self, capture: &Capture, tags: &BTreeSet<String>, points: &[Option<Asks>]) -> bool {
        match self {
            Asks::Everything => true,
            Asks::Tag(tag) => tags.contains(tag),
            Asks::Prefix(prefix) => tags.iter().any(|tag| tag.starts_with(prefix.as_str())),
            Asks::OneOf(numbers) => numbers.iter().any(|n| tags.contains(&format!("coll:{n}"))),
            Asks::Point(n) => points[usize::from(*n)]
                .as_ref()
                .is_some_and(|point| point.holds(capture, tags, points)),
            Asks::Status(status) => capture.status == *status,
            Asks::FileHas(n) => capture.collection == *n,
            Asks::Mime(part) => "text/html".contains(part.as_str()),
            Asks::Not(inner) => !inner.holds(capture, tags, points),
            Asks::All(parts) => parts.iter().all(|part| part.holds(capture, tags, points)),
            Asks::Any(parts) => parts.iter().any(|part| part.holds(capture, tags, points)),
        }
    }

    /// Returns the access points to which the expression refers.
    fn refers(&self) -> BTreeSet<u8> {
        match self {
            Asks::Point(n) => BTreeSet::from([*n]),
            Asks::Not(inner) => inner.refers(),
            Asks::All(parts) | Asks::Any(parts) => parts.iter().flat_map(Asks::refers).collect(),
            _ => BTreeSet::new(),
        }
    }
}

#[derive(Clone, Debug)]
struct Capture {
    host: u8,
    status: u16,
    collection: u8,
    offset: u8,
    recognised: bool,
}

impl Capture {
    fn file(&self) -> String {
        let sign = if self.recognised { '-' } else { '_' };
        format!("w/ARCHIVEIT-{}{sign}2019.warc.gz", self.collection)
    }

    fn record(&self) -> String {
        format!("org,h{})/ 2019 {} {}", self.host, self.file(), self.offset)
    }

    fn line(&self) -> String {
        format!(
            "org,h{0})/ 2019 http://h{0}.org/ text/html {1} AAAA - - 99 {2} {3}",
            self.host,
            self.status,
            self.offset,
            self.file()
        )
    }
}

#[derive(Clone, Debug)]
enum SpaceChange {
    Add(Tagged, u8, Vec<String>),
    Remove(Tagged, u8, Vec<String>),
    Load(Tagged, Mode, Vec<(u8, Vec<String>)>),
    Swap(Tagged),
    SetRule(bool),
    RemoveRule,
    SetPoint(u8, Asks),
    RemovePoint(u8),
    Ask(Asks),
}

/// The simplest possible model of a space.
#[derive(Default)]
struct Naive {
    edges: BTreeMap<Tagged, BTreeMap<String, BTreeSet<String>>>,
    staged: BTreeMap<Tagged, BTreeMap<String, BTreeSet<String>>>,
    rule: Option<bool>,
    points: Vec<Option<Asks>>,
}

impl Naive {
    fn tags(&self, capture: &Capture) -> BTreeSet<String> {
        let of = |kind: Tagged, id: &str| {
            let ids = self.edges.get(&kind);
            ids.and_then(|ids| ids.get(id)).cloned().unwrap_or_default()
        };
        let file = capture.file();
        let mut tags = of(Tagged::Record, &capture.record());
        tags.extend(of(Tagged::File, &file));
        tags.extend(of(Tagged::File, &file[2..]));
        match self.rule {
            Some(true) if capture.recognised => {
                tags.insert(format!("coll:{}", capture.collection));
            }
            Some(false) => {
                tags.insert(format!("host:{}", capture.host));
                tags.insert("any".to_string());
            }
            _ => {}
        }
        loop {
            let more: BTreeSet<String> = tags.iter().flat_map(|tag| of(Tagged::Tag, tag)).collect();
            let before = tags.len();
            tags.extend(more);
            if tags.len() == before {
                return tags;
            }
        }
    }
}

fn id_of(kind: Tagged, n: u8) -> String {
    let capture = Capture {
        host: n % 3,
        status: 200,
        collection: n % 4,
        offset: n % 2,
        recognised: !n.is_multiple_of(5),
    };
    match kind {
        Tagged::Record => capture.record(),
        Tagged::File if n.is_multiple_of(2) => capture.file(),
        Tagged::File => capture.file()[2..].to_string(),
        Tagged::Tag => {
            let names = [
                "coll:0", "coll:1", "coll:2", "coll:3", "org:1", "host:1", "any",
            ];
            names[usize::from(n) % names.len()].to_string()
        }
    }
}

fn tag() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "coll:1", "coll:2", "org:1", "org:2", "private", "any", "host:1", "x",
    ])
    .prop_map(String::from)
}

fn tags() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(tag(), 1..4)
}

fn kind() -> impl Strategy<Value = Tagged> {
    prop::sample::select(Tagged::ALL.to_vec())
}

fn asks() -> impl Strategy<Value = Asks> {
    let leaf = prop_oneof![
        1 => Just(Asks::Everything),
        4 => tag().prop_map(Asks::Tag),
        2 => prop::sample::select(vec!["coll:", "org", "p"]).prop_map(|p| Asks::Prefix(p.to_string())),
        2 => prop::collection::vec(0..5u8, 1..4).prop_map(Asks::OneOf),
        2 => (0..3u8).prop_map(Asks::Point),
        1 => prop::sample::select(vec![200, 404]).prop_map(Asks::Status),
        1 => (0..4u8).prop_map(Asks::FileHas),
        1 => prop::sample::select(vec!["html", "pdf"]).prop_map(|m| Asks::Mime(m.to_string())),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|a| Asks::Not(Box::new(a))),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Asks::All),
            prop::collection::vec(inner, 1..4).prop_map(Asks::Any),
        ]
    })
}

fn change() -> impl Strategy<Value = SpaceChange> {
    let mode = prop::sample::select(vec![Mode::Merge, Mode::Set, Mode::Replace, Mode::Stage]);
    let entries = prop::collection::vec((0..20u8, prop::collection::vec(tag(), 0..3)), 0..4);
    prop_oneof![
        4 => (kind(), 0..20u8, tags()).prop_map(|(k, n, t)| SpaceChange::Add(k, n, t)),
        3 => (kind(), 0..20u8, tags()).prop_map(|(k, n, t)| SpaceChange::Remove(k, n, t)),
        2 => (kind(), mode, entries).prop_map(|(k, m, e)| SpaceChange::Load(k, m, e)),
        1 => kind().prop_map(SpaceChange::Swap),
        1 => any::<bool>().prop_map(SpaceChange::SetRule),
        1 => Just(SpaceChange::RemoveRule),
        1 => (0..3u8, asks()).prop_map(|(n, a)| SpaceChange::SetPoint(n, a)),
        1 => (0..3u8).prop_map(SpaceChange::RemovePoint),
        6 => asks().prop_map(SpaceChange::Ask),
    ]
}

fn captures() -> Vec<Capture> {
    let mut captures = Vec::new();
    for n in 0..60u8 {
        captures.push(Capture {
            host: n % 3,
            status: if n % 7 < 4 { 200 } else { 404 },
            collection: n % 4,
            offset: n % 2,
            recognised: !n.is_multiple_of(5),
        });
    }
    captures
}

fn request(expression: &str, returns: Returns) -> Request {
    Request {
        asked: Asked {
            point: None,
            expression: Some(expression.as_bytes().to_vec()),
            filters: Vec::new(),
            dialect: Dialect::Outback,
        },
        collapse: None,
        skip: 0,
        limit: None,
        format: Format::Cdx,
        drop_bad_lines: false,
        returns,
    }
}

fn pairs<'a>(entries: &'a [(String, String)]) -> Vec<(&'a [u8], &'a [u8])> {
    let bytes = |(id, tags): &'a (String, String)| (id.as_bytes(), tags.as_bytes());
    entries.iter().map(bytes).collect()
}

/// Applies a change to both spaces, or compares the replies of both to a request.
fn make(change: &SpaceChange, space: &mut Space, naive: &mut Naive) -> Result<(), TestCaseError> {
    let bytes = |tags: &[String]| -> Vec<Vec<u8>> {
        tags.iter().map(|tag| tag.as_bytes().to_vec()).collect()
    };
    match change {
        SpaceChange::Add(kind, n, tags) => {
            let (id, given) = (id_of(*kind, *n), bytes(tags));
            let given: Vec<&[u8]> = given.iter().map(Vec::as_slice).collect();
            if let Ok(added) = space.add(*kind, id.as_bytes(), &given) {
                let own = naive.edges.entry(*kind).or_default().entry(id).or_default();
                let before = own.len();
                own.extend(tags.iter().cloned());
                prop_assert_eq!(added as usize, own.len() - before);
            }
        }
        SpaceChange::Remove(kind, n, tags) => {
            let (id, given) = (id_of(*kind, *n), bytes(tags));
            let given: Vec<&[u8]> = given.iter().map(Vec::as_slice).collect();
            space.remove(*kind, id.as_bytes(), &given);
            if let Some(own) = naive.edges.entry(*kind).or_default().get_mut(&id) {
                own.retain(|tag| !tags.contains(tag));
            }
        }
        SpaceChange::Load(kind, mode, entries) => {
            let given: Vec<(String, String)> = entries
                .iter()
                .map(|(n, tags)| (id_of(*kind, *n), tags.join(" ")))
                .collect();
            if space.load(*kind, *mode, &pairs(&given)).is_ok() {
                let place = match mode {
                    Mode::Stage => naive.staged.entry(*kind).or_default(),
                    _ => naive.edges.entry(*kind).or_default(),
                };
                if *mode == Mode::Replace {
                    place.clear();
                }
                if *mode == Mode::Set {
                    place.retain(|id, _| !given.iter().any(|(given, _)| given == id));
                }
                for ((id, _), (_, tags)) in given.into_iter().zip(entries) {
                    place.entry(id).or_default().extend(tags.iter().cloned());
                }
            }
        }
        SpaceChange::Swap(kind) => {
            let staged = naive.staged.remove(kind);
            prop_assert_eq!(space.swap(*kind, None).is_ok(), staged.is_some());
            if let Some(staged) = staged {
                naive.edges.insert(*kind, staged);
            }
        }
        SpaceChange::SetRule(collections) => {
            let rule = if *collections {
                Rule::new(
                    b"r",
                    b"filename",
                    b"(?:^|/)ARCHIVEIT-(\\d+)-",
                    &[b"coll:$1"],
                )
            } else {
                Rule::new(b"r", b"urlkey", b"^org,h(\\d)()", &[b"host:$1", b"any$2"])
            };
            space.set_rule(rule.unwrap()).unwrap();
            naive.rule = Some(*collections);
        }
        SpaceChange::RemoveRule => {
            prop_assert_eq!(space.remove_rule(b"r"), naive.rule.take().is_some());
        }
        SpaceChange::SetPoint(n, asks) => {
            // Other tests cover cycles; this test creates none.
            if asks.refers().iter().all(|other| other < n) {
                let point = Point::new(format!("p{n}").as_bytes(), asks.text().as_bytes());
                space.set_point(point.unwrap()).unwrap();
                naive.points[usize::from(*n)] = Some(asks.clone());
            }
        }
        SpaceChange::RemovePoint(n) => {
            let removed = space.remove_point(format!("p{n}").as_bytes());
            prop_assert_eq!(removed, naive.points[usize::from(*n)].take().is_some());
        }
        SpaceChange::Ask(asks) => ask(asks, space, naive)?,
    }
    Ok(())
}

/// A turn that pauses at every check.
struct Pauses;

impl Turn for Pauses {
    fn next(&mut self) -> Next {
        Next::Pause
    }
}

/// A turn that returns `with` after it was called more than `after` times.
struct Ends {
    asked: usize,
    after: usize,
    with: Next,
}

impl Turn for Ends {
    fn next(&mut self) -> Next {
        self.asked += 1;
        if self.asked > self.after {
            self.with
        } else {
            Next::GoOn
        }
    }
}

#[test]
fn batch_result_does_not_depend_on_slices_and_slices_end_in_time() {
    let mut space = Space::default();
    space
        .set_rule(Rule::new(b"r", b"filename", br"-(\d+)-", &[b"coll:$1"]).unwrap())
        .unwrap();
    let lines: Vec<String> = (0..50)
        .map(|n| {
            let status = 200 + n % 3;
            format!(
                "k{} 2020 http://a/{n} text/html {status} D a-{}-b",
                n / 4,
                n % 5
            )
        })
        .collect();
    let blob = lines.join("\n");
    let slices: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    for returns in [
        Returns::Lines,
        Returns::Index,
        Returns::Bits,
        Returns::Count,
        Returns::Tags,
    ] {
        for (skip, limit, collapse) in [
            (0, None, None),
            (3, Some(10), None),
            (2, Some(7), Some("urlkey")),
        ] {
            let request = Request {
                skip,
                limit,
                collapse: collapse.map(|field| Collapse::parse(field.as_bytes()).unwrap()),
                ..request("status=200 | url~[3-9]$", returns)
            };
            for batch in [Batch::Lines(&slices), Batch::Blob(blob.as_bytes())] {
                let task = || {
                    let (conditions, lent) = (space.conditions(), space.lend_cache());
                    Task::new(request.clone(), space.view(), conditions, lent, None, batch)
                };
                let whole = task().at_once(batch).unwrap();
                for after in 0..8 {
                    let (mut cut, mut turns) = (task(), 0);
                    let found = loop {
                        turns += 1;
                        let (asked, with) = (0, Next::Pause);
                        let mut turn = Ends { asked, after, with };
                        if let Some(found) = cut.go_on(batch, &mut turn) {
                            break found.unwrap();
                        }
                    };
                    assert_eq!(found, whole, "{returns:?} {skip} {limit:?} {collapse:?}");
                    assert!(turns > 1 || after > 2, "{turns}");
                    let with = Next::Enough;
                    let outcome = task().go_on(
                        batch,
                        &mut Ends {
                            asked: 0,
                            after,
                            with,
                        },
                    );
                    match outcome.expect("no pause was asked for") {
                        Err(error) => assert!(error.to_string().starts_with("TOOBIG ")),
                        Ok(found) => assert!(after > 2 && found == whole),
                    }
                }
            }
        }
    }
}

fn ask(asks: &Asks, space: &Space, naive: &Naive) -> Result<(), TestCaseError> {
    let text = asks.text();
    let captures = captures();
    let lines: Vec<String> = captures.iter().map(Capture::line).collect();
    let blob = lines.join("\n");
    let view = space.view();
    let request = request(&text, Returns::Index);
    let batch = Batch::Blob(blob.as_bytes());
    let (conditions, lent) = (space.conditions(), space.lend_cache());
    let mut task = Task::new(request, view.clone(), conditions, lent, None, batch);
    let mut found = task.go_on(batch, &mut Pauses);
    while found.is_none() {
        found = task.go_on(batch, &mut Pauses);
    }
    let found = found.unwrap();
    let known = |asks: &Asks| {
        let mut to_see = asks.refers();
        while let Some(n) = to_see.pop_first() {
            match &naive.points[usize::from(n)] {
                None => return false,
                Some(point) => to_see.extend(point.refers()),
            }
        }
        true
    };
    prop_assert_eq!(found.is_ok(), known(asks), "{}", text);
    let Ok(found) = found else {
        return Ok(());
    };
    let expected: Vec<Reply> = captures
        .iter()
        .enumerate()
        .filter(|(_, capture)| asks.holds(capture, &naive.tags(capture), &naive.points))
        .map(|(n, _)| Reply::count(n as u64))
        .collect();
    prop_assert_eq!(found, Reply::Array(expected), "{}", text);
    // The tags in the reply must be the tags that were tested.
    for (capture, line) in captures.iter().zip(&lines).take(8) {
        let Ok(crawlspace_cdx::Read::Capture(line)) =
            crawlspace_cdx::Line::read(line.as_bytes(), Format::Auto)
        else {
            panic!("{line} is a capture");
        };
        let shown: Vec<String> = view
            .tags(&line)
            .into_iter()
            .map(|tag| String::from_utf8(tag).unwrap())
            .collect();
        let naive: Vec<String> = naive.tags(capture).into_iter().collect();
        prop_assert_eq!(shown, naive);
    }
    Ok(())
}

fn copy_of(space: &Space) -> Space {
    let mut chunks = Vec::new();
    space.save(&mut |chunk| chunks.push(chunk.to_vec()));
    let mut copy = Space::default();
    for chunk in &chunks {
        copy.load_chunk(chunk).unwrap();
    }
    copy
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_query_equals_the_naive_evaluator(
        changes in prop::collection::vec(change(), 1..60),
        copied_at in 0..60usize,
    ) {
        let mut space = Space::default();
        let mut naive = Naive { points: vec![None; 3], ..Naive::default() };
        for (n, change) in changes.iter().enumerate() {
            make(change, &mut space, &mut naive)?;
            if n == copied_at {
                let copy = copy_of(&space);
                prop_assert!(copy == space);
                space = copy;
            }
        }
        let mut elements = Vec::new();
        space.elements(&mut |parts| elements.push(parts.concat()));
        let mut again = Vec::new();
        copy_of(&space).elements(&mut |parts| again.push(parts.concat()));
        elements.sort();
        again.sort();
        prop_assert_eq!(elements, again);
    }

    #[test]
    fn defragmentation_moves_everything(
        ids in prop::collection::btree_set("[a-z]{1,12}", 1..400),
        shares in any::<bool>(),
    ) {
        let mut space = Space::default();
        for id in &ids {
            space.add(Tagged::File, id.as_bytes(), &[b"x", id.as_bytes()]).unwrap();
        }
        let copy = copy_of(&space);
        let view = shares.then(|| space.view());
        let mut pieces = 0;
        let mut stay = |_: *mut u8| {
            pieces += 1;
            std::ptr::null_mut()
        };
        // SAFETY: the mover moves nothing.
        let mut mover = unsafe { Mover::new(&mut stay) };
        let mut cursor = 0;
        loop {
            cursor = space.defrag(cursor, &mut mover, &mut || false);
            if cursor == 0 {
                break;
            }
        }
        // Memory shared with a view must not move.
        prop_assert_eq!(pieces > 0, view.is_none());
        prop_assert!(space == copy);
    }

    #[test]
    fn damaged_chunks_are_refused(
        changes in prop::collection::vec(change(), 1..30),
        at in any::<prop::sample::Index>(),
        bit in 0..8u8,
    ) {
        let mut space = Space::default();
        let mut naive = Naive { points: vec![None; 3], ..Naive::default() };
        for change in &changes {
            make(change, &mut space, &mut naive)?;
        }
        let mut chunks = Vec::new();
        space.save(&mut |chunk| chunks.push(chunk.to_vec()));
        for mut chunk in chunks {
            let at = at.index(chunk.len());
            chunk[at] ^= 1 << bit;
            prop_assert!(Space::default().load_chunk(&chunk).is_err());
            prop_assert!(Space::default().load_chunk(&chunk[..at]).is_err());
        }
    }

    #[test]
    fn clause_is_written_as_an_equivalent_expression(asks in asks()) {
        use super::expression::Expression;
        use super::resolve::Resolver;
        let mut points = super::point::Points::default();
        for n in 0..3 {
            let point = Point::new(format!("p{n}").as_bytes(), b"coll:\"a b\"* | 'q\"\\\\'").unwrap();
            points.set(point).unwrap();
        }
        let resolver = Resolver::new(&points, Bounds::WIDE);
        let read = |text: &[u8]| {
            let clause = resolver.expression(&Expression::parse(text).unwrap()).unwrap();
            clause.written()
        };
        let once = read(asks.text().as_bytes());
        prop_assert_eq!(read(&once), once);
    }

    #[test]
    fn no_text_causes_a_panic(text in "[a-c:*&|!(){}@=~\"'$1 \\\\]{0,40}") {
        use super::expression::Expression;
        let _ = Expression::parse(text.as_bytes());
        let _ = Point::new(b"p(.)(.)", text.as_bytes());
        let _ = Rule::new(b"r", b"url", text.as_bytes(), &[text.as_bytes()]);
    }
}
