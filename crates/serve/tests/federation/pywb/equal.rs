//! Tests that equal queries give equal answers.

use serde_json::{Map, Value};

use crate::pywb::answer::{Line, lines};
use crate::pywb::data::{Data, pywb};
use crate::pywb::table::{Accepted, Case, cases};
use crate::serving::Stage;
use redis_tests::Rng;
use redis_tests::http::{Answer, ask, get};
use redis_tests::pywb::App;

/// The field that only our rows have; it is the last field in text output.
const OWN: &str = "source_type";

#[test]
fn same_queries_get_the_same_answers() {
    let Some(pywb) = pywb() else { return };
    let data = Data::new("same_queries_get_the_same_answers");
    let theirs = pywb.start(App::WarcServer, &data.config(), 1);
    let ours = Stage::start(&data.config());
    let cases = cases();
    assert!(cases.len() >= 212, "{}", cases.len());
    let mut wrong = Vec::new();
    let mut rows = 0;
    for case in &cases {
        let path = format!("/{}/index?{}", case.collection, case.query);
        let [ours, theirs] = [ours.address(), theirs.address()].map(|address| get(address, &path));
        rows += lines(&ours).len();
        if let Err(why) = compare(case, &ours, &theirs) {
            wrong.push(format!("{path}\n    {why}"));
        }
    }
    assert!(rows > 10_000, "{rows}");
    let (count, wrong) = (wrong.len(), wrong.join("\n"));
    assert!(count == 0, "{count} of {} queries:\n{wrong}", cases.len());
}

fn compare(case: &Case, ours: &Answer, theirs: &Answer) -> Result<(), String> {
    match case.accepted {
        None | Some(Accepted::TimeMap) => alike(case, ours, theirs),
        Some(Accepted::BadParameter | Accepted::UnknownSort | Accepted::UnknownSource) => {
            is_refused(ours, 400)
        }
        Some(Accepted::BothRefuse) => is_refused(ours, 400).and(is_refused(theirs, 400)),
        Some(Accepted::UnknownCollection) => is_refused(ours, 404),
        Some(Accepted::Fuzzy) => {
            let nothing = ours.status == 200 && ours.body.is_empty();
            nothing
                .then_some(())
                .ok_or(format!("{ours:?} is not nothing"))
        }
        Some(Accepted::FieldNamedTwice) => {
            let right = |line: &Line| matches!(line, Line::Row(_, _, o) if o["status"] == "404");
            let lines = lines(ours);
            let all = !lines.is_empty() && lines.iter().all(right);
            all.then_some(())
                .ok_or(format!("not all have the status 404: {lines:?}"))
        }
        Some(Accepted::HalfNumber) => {
            let within = |line: &Line| matches!(line, Line::Row(_, time, _) if ("2018021".."2018023").contains(&&time[..7]));
            let (all, more) = (lines(ours), lines(theirs).len());
            let right = all.iter().all(within) && all.len() >= more;
            right
                .then_some(())
                .ok_or(format!("not the days 10 to 29: {all:?}"))
        }
        Some(Accepted::PagesAreJson) => {
            let json = |answer: &Answer| serde_json::from_slice::<Value>(&answer.body).ok();
            let same = ours.media_type() == "application/json" && json(ours) == json(theirs);
            let both = || format!("ours: {}\n    theirs: {}", ours.text(), theirs.text());
            same.then_some(()).ok_or_else(both)
        }
    }
}

fn is_refused(ours: &Answer, status: u16) -> Result<(), String> {
    let json: Option<Map<String, Value>> = serde_json::from_slice(&ours.body).ok();
    let message = json.as_ref().and_then(|json| json.get("message")?.as_str());
    match (ours.status == status, ours.media_type(), message) {
        (true, "application/json", Some(text)) if !text.is_empty() => Ok(()),
        _ => Err(format!(
            "is not refused with {status} and a message: {ours:?}"
        )),
    }
}

fn alike(case: &Case, ours: &Answer, theirs: &Answer) -> Result<(), String> {
    if (ours.status, ours.media_type()) != (theirs.status, theirs.media_type()) {
        return Err(format!("ours: {ours:?}\n    theirs: {theirs:?}")
            .chars()
            .take(1_000)
            .collect());
    }
    let [ours, theirs] = [(ours, true), (theirs, false)].map(|(answer, is_ours)| {
        let mut lines = lines(answer);
        lines
            .iter_mut()
            .for_each(|line| reduce(case, line, is_ours));
        in_one_order(&mut lines);
        lines
    });
    if ours == theirs {
        return Ok(());
    }
    let at = ours.iter().zip(&theirs).position(|(a, b)| a != b);
    let at = at.unwrap_or(ours.len().min(theirs.len()));
    let show = |lines: &[Line]| {
        lines
            .get(at)
            .map_or("nothing".to_owned(), |line| format!("{line:?}"))
    };
    Err(format!(
        "{} and {} lines; at {at}\n    ours:   {}\n    theirs: {}",
        ours.len(),
        theirs.len(),
        show(&ours),
        show(&theirs)
    ))
}

/// Removes the parts of a line that may differ.
fn reduce(case: &Case, line: &mut Line, is_ours: bool) {
    let query = case.query;
    let is_chosen = ["fl=", "fields=", "nosource="]
        .iter()
        .any(|one| query.contains(one));
    match line {
        Line::Row(_, _, object) => {
            object.remove(OWN);
            // pywb appends the name of the file or key to the name of the source.
            if matches!(case.collection, "folder" | "sorted") && object.contains_key("source") {
                object["source"] = Value::from(case.collection);
            }
        }
        Line::Text(text) if is_ours && !is_chosen => {
            if let Some((before, _)) = text.rsplit_once(' ') {
                *text = before.to_owned();
            }
        }
        _ => {}
    }
}

/// Sorts rows with the same URL and second from two sources, whose order is undefined.
fn in_one_order(lines: &mut [Line]) {
    let text = |line: &Line| format!("{line:?}");
    let same = |a: &Line, b: &Line| match (a, b) {
        (Line::Row(key, time, a), Line::Row(other, at, b)) => {
            let [k, t] = ["urlkey", "timestamp"].map(|name| a.get(name) == b.get(name));
            key == other && time == at && k && t && (!key.is_empty() || a.contains_key("urlkey"))
        }
        _ => false,
    };
    for some in lines.chunk_by_mut(same) {
        some.sort_by_key(text);
    }
}

/// Generates a query that both servers interpret in the same way.
fn made_up(rng: &mut Rng, data: &Data) -> (&'static str, String) {
    let collection = *rng.pick(&[
        "north", "south", "columns", "cluster", "folder", "sorted", "both",
    ]);
    let captures = match collection {
        "south" => &data.south.captures,
        _ => &data.north.captures,
    };
    let (one, other) = (rng.pick(captures), rng.pick(captures));
    // pywb reads only ten blocks of a cluster, unless the query is for pages.
    let matches = match collection {
        "cluster" => "exact",
        _ => *rng.pick(&["exact", "exact", "prefix", "host", "domain"]),
    };
    let mut parameters = Vec::new();
    for (name, capture) in [("from", one), ("to", other), ("closest", other)] {
        let digits = *rng.pick(&[4, 6, 8, 14]);
        parameters.push((name, capture.timestamp[..digits].to_owned()));
    }
    let is_cut = rng.chance(25);
    // pywb ends a limited search for the closest of many URLs too early.
    if is_cut && matches != "exact" {
        parameters.pop();
    }
    parameters.push(("sort", (*rng.pick(&["reverse", "closest"])).to_owned()));
    parameters.push(("collapseTime", (4 + rng.below(11)).to_string()));
    parameters.push(("resolveRevisits", "true".to_owned()));
    parameters.push(("nosource", "true".to_owned()));
    let fields = [
        "timestamp,url",
        "urlkey,timestamp,status,mime",
        "digest,timestamp,offset,filename",
    ];
    parameters.push(("fl", (*rng.pick(&fields)).to_owned()));
    parameters.push(("output", (*rng.pick(&["json", "cdxj"])).to_owned()));
    // In pywb a media type overrides filters.
    if rng.chance(25) {
        parameters.push(("content_type", one.mime.to_owned()));
    } else {
        let status = format!("=status:{}", one.status);
        for _ in 0..2 {
            let filters = [
                "!=status:200",
                "mime:html",
                "!mime:revisit",
                "~timestamp:201[5-9].*",
                &status,
            ];
            parameters.push(("filter", (*rng.pick(&filters)).to_owned()));
        }
    }
    parameters.retain(|_| rng.chance(30));
    // The order of equal rows from two sources differs.
    if is_cut && !matches!(collection, "both" | "folder") {
        parameters.push(("limit", (1 + rng.below(30)).to_string()));
    }
    let fixed = [
        ("matchType", matches),
        ("url", &one.url[..]),
        ("allowFuzzy", "0"),
    ];
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(parameters).extend_pairs(fixed);
    (collection, query.finish())
}

#[test]
fn random_queries_get_the_same_answers() {
    let Some(pywb) = pywb() else { return };
    let data = Data::new("random_queries_get_the_same_answers");
    let theirs = pywb.start(App::WarcServer, &data.config(), 1);
    let ours = Stage::start(&data.config());
    let mut rng = Rng::new("random_queries_get_the_same_answers");
    let (mut wrong, mut rows) = (Vec::new(), 0);
    for _ in 0..300 {
        let (collection, query) = made_up(&mut rng, &data);
        let case = Case {
            collection,
            query: query.leak(),
            accepted: None,
        };
        let path = format!("/{collection}/index?{}", case.query);
        let [ours, theirs] = [ours.address(), theirs.address()].map(|address| get(address, &path));
        rows += lines(&ours).len();
        if let Err(why) = compare(&case, &ours, &theirs) {
            wrong.push(format!("{path}\n    {why}"));
        }
    }
    assert!(rows > 1_000, "{rows}");
    assert!(
        wrong.is_empty(),
        "{} queries:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Tests similar URLs. pywb has more rules and no configuration for them, and does not order them by distance.
#[test]
fn fuzzy_matches_equal_those_of_pywb() {
    let Some(pywb) = pywb() else { return };
    let data = Data::new("fuzzy_matches_equal_those_of_pywb");
    let config = data
        .config()
        .replace("  north:\n", "  north:\n    fuzzy: true\n");
    let theirs = pywb.start(App::WarcServer, &config, 1);
    let ours = Stage::start(&config);
    // pywb ignores all parameters of a file, and the root has too many URLs below it.
    let urls = data.north.captures.iter().map(|capture| &capture.url[..]);
    let is_page = |url: &&str| {
        let last = url.rsplit('/').next().unwrap_or_default();
        !last.is_empty() && !last.contains(['?', '.'])
    };
    let pages: std::collections::BTreeSet<&str> = urls.filter(is_page).collect();
    assert!(pages.len() > 5);
    for page in pages.into_iter().step_by(3).take(5) {
        for more in ["_=1397", "utm_source=mail", "cb=12"] {
            let url = format!("{page}?{more}");
            let url = url::form_urlencoded::byte_serialize(url.as_bytes()).collect::<String>();
            for path in [
                format!("/north/resource?url={url}"),
                format!("/north/index?url={url}&allowFuzzy=1"),
            ] {
                let [ours, theirs] = [ours.address(), theirs.address()].map(|at| get(at, &path));
                assert_eq!(ours.status, 200, "{path}: {}", ours.text());
                assert_eq!(theirs.status, 200, "{path}: {}", ours.text());
                for name in ["memento-datetime", "warc-target-uri"] {
                    assert_eq!(ours.field(name), theirs.field(name), "{path}: {name}");
                }
                let row = |answer: &Answer| match lines(answer).first() {
                    Some(Line::Row(key, time, row)) if path.contains("/index?") => {
                        Some((key.clone(), time.clone(), row["is_fuzzy"].clone()))
                    }
                    _ => None,
                };
                assert_eq!(row(&ours), row(&theirs), "{path}");
            }
        }
    }
}

#[test]
fn listings_equal_those_of_pywb() {
    let Some(pywb) = pywb() else { return };
    let data = Data::new("listings_equal_those_of_pywb");
    let theirs = pywb.start(App::WarcServer, &data.config(), 1);
    let ours = Stage::start(&data.config());
    let json = |answer: Answer| -> Value { serde_json::from_slice(&answer.body).unwrap() };
    for target in [
        "/north/list_sources",
        "/cluster/list_sources",
        "/both/list_sources",
        "/both/list_sources?sources=!north",
    ] {
        let [ours, theirs] = [ours.address(), theirs.address()].map(|at| json(get(at, target)));
        assert_eq!(ours, theirs, "{target}");
    }
    let fields = [("Accept", "application/json")];
    let ours = ask(ours.address(), "GET", "/", &fields, b"").unwrap();
    let (ours, theirs) = (json(ours), json(get(theirs.address(), "/")));
    assert_eq!(ours.as_object().unwrap().len(), 7);
    for (collection, modes) in ours.as_object().unwrap() {
        assert_eq!(theirs.get(collection), Some(modes), "{collection}");
    }
}

#[test]
fn pages_of_a_cluster_cover_everything() {
    let Some(pywb) = pywb() else { return };
    let data = Data::new("pages_of_a_cluster_cover_everything");
    let theirs = pywb.start(App::WarcServer, &data.config(), 1);
    let ours = Stage::start(&data.config());
    let query = "url=*.example.com&fl=urlkey,timestamp,url&output=text";
    let path = format!("/cluster/index?{query}");
    let whole = ours.get(&path).text();
    assert!(whole.lines().count() > 500);
    for address in [ours.address(), theirs.address()] {
        let ask = |more: String| get(address, &format!("{path}&pageSize=2{more}")).text();
        let pages = ask("&showNumPages=true".into());
        let pages: Map<String, Value> = serde_json::from_str(&pages).unwrap();
        let count = pages["pages"].as_u64().unwrap();
        assert!(count > 3, "{pages:?}");
        let all = (0..count).map(|page| ask(format!("&page={page}")));
        let all: String = all.collect();
        assert_eq!(all, whole, "{address}");
    }
}
