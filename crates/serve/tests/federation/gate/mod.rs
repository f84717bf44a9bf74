//! Tests that hidden captures stay hidden: with every kind of source, through every API, with archives that answer with
//! wrong captures, and with revisits of hidden originals.
//!
//! An independent oracle computes the expected decision from the URL and timestamp that were sent.

mod archive;
mod oracle;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use redis_tests::Rng;
use redis_tests::http::{Answer, Connection};

use self::oracle::{
    Capture, Case, PATHS, RULES, SOURCES, Verdict, captures, collection, told, verdict,
};
use self::world::World;

/// Number of requests, unless `CRAWLSPACE_GATE_CASES` is larger.
const CASES: usize = 10_000;
const THREADS: usize = 4;

const DOORS: [&str; 14] = [
    "index",
    "reverse",
    "prefix",
    "resolved",
    "common",
    "cdx",
    "outback",
    "openwayback",
    "timemap",
    "json",
    "timegate",
    "resource",
    "postreq",
    "raw",
];

fn cases() -> usize {
    let cases = std::env::var("CRAWLSPACE_GATE_CASES").ok();
    let cases = cases.map(|cases| cases.parse().expect("a number of cases"));
    CASES.max(cases.unwrap_or(CASES))
}

/// Generates a random request; cycles through sources and rules.
fn draw(rng: &mut Rng, number: usize) -> Case {
    let source = SOURCES[number % SOURCES.len()];
    let rules = RULES[number / SOURCES.len() % RULES.len()];
    let mut door = *rng.pick(&DOORS);
    if door == "prefix" && matches!(source, "memento" | "live") {
        // Memento archives and the live web support queries for single URLs only.
        door = "index";
    }
    if door == "common" && rules == "point" {
        // The path of this API has no access point.
        door = "index";
    }
    let moments: Vec<Capture> = oracle::stored().collect();
    Case {
        source,
        rules,
        lends: rng.chance(30),
        door,
        path: rng.below(PATHS.len() as u64) as usize,
        moment: *rng.pick(&moments),
    }
}

/// Sends requests over a persistent connection.
struct Client {
    address: SocketAddr,
    base: String,
    connection: Option<Connection>,
}

impl Client {
    fn new(world: &World) -> Client {
        Client {
            address: world.stage.address(),
            base: world.archive.url(""),
            connection: None,
        }
    }

    /// Returns the response of a collection to a request.
    fn ask(&mut self, case: &Case, collection: &str) -> Answer {
        let path = PATHS[case.path];
        let (url, moment) = (format!("{}{path}", self.base), case.moment.moment());
        let point = if case.rules == "point" {
            "/ap/public"
        } else {
            ""
        };
        let at = format!("/{collection}{point}");
        let target = match case.door {
            "index" => format!("{at}/index?url={url}"),
            "reverse" => format!("{at}/index?url={url}&sort=reverse&output=json"),
            "resolved" => format!("{at}/index?url={url}&resolveRevisits=true"),
            "prefix" => format!("{at}/index?url={}/*", self.base),
            "common" => format!("/{collection}-index?url={url}"),
            "cdx" => format!("{at}/cdx?url={url}"),
            "outback" => format!("{at}?url={url}"),
            "openwayback" => format!("{at}?q=type:urlquery+url:{url}"),
            "timemap" => format!("{at}/timemap/link/{url}"),
            "json" => format!("{at}/timemap/json/{url}"),
            "timegate" => format!("{at}/timegate/{url}"),
            "resource" => format!("{at}/resource?url={url}&closest={moment}"),
            "postreq" => format!("{at}/resource/postreq?url={url}&closest={moment}"),
            _ => format!("{at}/{moment}id_/{url}"),
        };
        let host = self.base.trim_start_matches("http://");
        let (method, body) = match case.door {
            "postreq" => (
                "POST",
                format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"),
            ),
            _ => ("GET", String::new()),
        };
        let kept = self.connection.take();
        let answered = kept.and_then(|mut connection| {
            let answer = connection.ask(method, &target, &[], body.as_bytes()).ok()?;
            Some((connection, answer))
        });
        // The server may have closed the connection in the meantime.
        let (connection, answer) = answered.unwrap_or_else(|| {
            let mut connection = Connection::open(self.address).unwrap();
            let answer = connection.ask(method, &target, &[], body.as_bytes());
            (
                connection,
                answer.unwrap_or_else(|why| panic!("{target}: {why}")),
            )
        });
        self.connection = Some(connection);
        answer
    }
}

/// Returns all parts of a response as a single string.
fn whole(answer: &Answer) -> String {
    let mut text = String::new();
    for (name, value) in answer.fields.iter().chain(&answer.trailers) {
        if name != "date" {
            text += &format!("{name}: {value}\n");
        }
    }
    text + &answer.text()
}

/// Checks a response, and returns the reason if it is wrong.
fn check(case: &Case, answer: &Answer) -> Result<(), String> {
    let text = whole(answer);
    let told = |text: &str| -> BTreeSet<Capture> {
        let mut told = told(text, case.path);
        // Records contain their creation date.
        told.retain(|one| case.source == "live" || *one != Capture::live(case.path));
        told
    };
    let status = answer.status;
    let rows: BTreeSet<Capture> = case
        .rows()
        .into_iter()
        .filter(|row| case.verdict(*row) != Verdict::Hidden)
        .collect();
    match case.door {
        "resource" | "postreq" | "raw" => {
            let (expected, sent) = case.expected();
            let all = told(&text);
            let is_there = sent.is_none_or(|sent| {
                all.contains(&sent.record) && text.contains(&sent.payload.text())
            });
            if status != expected || !is_there {
                return Err(format!(
                    "status {status} with {all:?}, not {expected} with {sent:?}"
                ));
            }
            let lent = sent.filter(|sent| sent.is_hidden);
            let rest = lent.map(|lent| text.replacen(&lent.payload.text(), "", 1));
            let hidden = |one: &Capture| case.verdict(*one) != Verdict::Shown;
            match told(&rest.unwrap_or(text)).into_iter().find(hidden) {
                Some(one) => Err(format!("it leaks {one:?}")),
                None => Ok(()),
            }
        }
        "timegate" => {
            let all = told(&text);
            let is_found = matches!(status, 302 | 307);
            if is_found == rows.is_empty() || !all.is_subset(&rows) {
                return Err(format!("status {status} with {all:?} of {rows:?}"));
            }
            Ok(())
        }
        _ => {
            let all = told(&text);
            // Rows may name visible originals.
            let originals = rows.iter().filter_map(|row| row.original());
            let originals = originals.map(|(original, _)| original);
            let may_be_named = |one: &Capture| case.verdict(*one) == Verdict::Shown;
            let allowed: BTreeSet<Capture> = originals
                .filter(may_be_named)
                .chain(rows.iter().copied())
                .collect();
            if !rows.is_subset(&all) || !all.is_subset(&allowed) {
                return Err(format!("rows {all:?}, not {rows:?}: {status} {text}"));
            }
            Ok(())
        }
    }
}

#[test]
fn hidden_captures_leave_through_no_api() {
    let (world, cases) = (World::start(), cases());
    let mut rng = Rng::new("hidden_captures_leave_through_no_api");
    let seeds: Vec<u64> = (0..THREADS).map(|_| rng.bits()).collect();
    let play = |thread: usize| {
        let (mut rng, mut client) = (Rng::seeded(seeds[thread]), Client::new(&world));
        let (mut drawn, mut hidden, mut wrong) = (BTreeMap::new(), 0, Vec::new());
        for number in (thread..cases).step_by(THREADS) {
            let case = draw(&mut rng, number);
            let answer = client.ask(&case, &case.collection());
            if let Err(why) = check(&case, &answer) {
                wrong.push(format!("{case:?}: {why}"));
            }
            *drawn.entry((case.source, case.rules)).or_insert(0) += 1;
            hidden += usize::from(case.hides());
            if number % 1000 == 0 {
                world.archive.forget();
            }
        }
        (drawn, hidden, wrong)
    };
    let played: Vec<_> = std::thread::scope(|scope| {
        let play = &play;
        let threads = (0..THREADS).map(|thread| scope.spawn(move || play(thread)));
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let (mut drawn, mut hidden, mut wrong) = (BTreeMap::new(), 0, Vec::new());
    for (some_drawn, some_hidden, some_wrong) in played {
        for (kind, count) in some_drawn {
            *drawn.entry(kind).or_insert(0) += count;
        }
        hidden += some_hidden;
        wrong.extend(some_wrong);
    }
    assert!(
        wrong.is_empty(),
        "{} of {cases}:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
    assert_eq!(drawn.len(), SOURCES.len() * RULES.len());
    assert!(drawn.values().all(|count| *count >= 100), "{drawn:?}");
    assert!(
        hidden * 20 >= cases,
        "something is hidden in {hidden} cases"
    );
}

/// Simulates a missing gate: queries the collection without rules instead of the one with rules.
#[test]
fn missing_gate_is_noticed() {
    let world = World::start();
    let mut rng = Rng::new("missing_gate_is_noticed");
    let mut client = Client::new(&world);
    let mut found = BTreeSet::new();
    for number in 0..CASES {
        let case = draw(&mut rng, number);
        if found.contains(&(case.source, case.door)) {
            continue;
        }
        let open = collection(case.source, "none", case.lends);
        // Access points exist only in collections with tags, so the case cannot be sent to a collection without rules.
        let answer = match case.rules {
            "point" => continue,
            _ => client.ask(&case, &open),
        };
        if check(&case, &answer).is_err() {
            found.insert((case.source, case.door));
        }
    }
    for source in SOURCES {
        for door in DOORS {
            let is_asked = door != "prefix" || !matches!(source, "memento" | "live");
            let is_found = found.contains(&(source, door));
            assert_eq!(is_found, is_asked, "{source} by {door}");
        }
    }
}

/// Checks a correct response, and then the same response with traces of a hidden capture, in every
/// notation of its timestamp.
#[test]
fn trace_of_a_hidden_capture_is_noticed() {
    let secret = captures("file", 2).next().unwrap();
    assert_eq!(verdict("staff", secret), Verdict::Hidden);
    let moment = secret.moment();
    let case = Case {
        source: "file",
        rules: "staff",
        lends: false,
        door: "resource",
        path: 0,
        moment: captures("file", 0).next().unwrap(),
    };
    let (status, sent) = case.expected();
    let sent = sent.unwrap();
    let answer = Answer {
        status,
        body: format!("{}\n{}", sent.record.moment(), sent.payload.text()).into(),
        ..Answer::default()
    };
    check(&case, &answer).unwrap();
    for trace in [
        moment.clone(),
        crate::shelf::iso(&moment),
        secret.http_date(),
        secret.text(),
    ] {
        let mut in_field = answer.clone();
        in_field.fields.push(("x".to_owned(), trace.clone()));
        let mut in_body = answer.clone();
        in_body.body.extend_from_slice(trace.as_bytes());
        for leak in [in_field, in_body] {
            check(&case, &leak).unwrap_err();
        }
    }
    // A response that withholds a visible capture is also wrong.
    let nothing = Answer {
        status: 404,
        ..Answer::default()
    };
    check(&case, &nothing).unwrap_err();
}
