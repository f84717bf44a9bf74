//! Compares access rules with pywb's own checker: both must return the same verdict for every
//! capture.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crawlspace_cdx::surt::urlkey;
use crawlspace_index::timestamp::Timestamp;
use crawlspace_serve::rules::{Access, Dates, Embargo, Period, Rules};
use redis_tests::Rng;
use redis_tests::packages::{run, sized};
use serde_json::{Value, json};

use crate::pywb::data::pywb;

const CHECKER: &str = include_str!("access.py");

/// Number of captures in a generated configuration ([`World`]).
const CAPTURES: usize = 1000;
/// Number of generated configurations per run of the checker.
const WORLDS: usize = 50;

/// Rule files and settings, and the captures to check.
struct World {
    files: Vec<PathBuf>,
    default: Access,
    embargo: Option<Embargo>,
    now: String,
    captures: Vec<(String, String)>,
}

/// Worlds exclude accidental behaviours of pywb:
/// - of several lines with the same key, pywb applies the first one, in byte order of the whole line; here the
///   strictest one applies;
/// - pywb ignores everything below the first key that sorts before the top-level domain, be it a rule for everything
///   (`*,`) or for part of the domain's name: worlds with such a rule use a single top-level domain;
/// - an empty period means no embargo, and an embargo with the access `allow_ignore_embargo` unblocks captures;
/// - a rule with an empty `user` is skipped in favour of another one with the same key.
impl World {
    fn new(rng: &mut Rng, folder: &Path, number: usize) -> World {
        let has_all = rng.chance(20);
        let most = *rng.pick(&[3, 12, 12, 60, 60, 60, 1500]);
        let mut keys = BTreeSet::new();
        for _ in 0..1 + rng.below(most) {
            keys.insert(key(rng, has_all));
        }
        if has_all {
            keys.insert("*,".to_owned());
        }
        let mut lines: Vec<String> = Vec::new();
        for key in &keys {
            lines.push(format!("{key} - {}", rule(rng)));
            if rng.chance(10) {
                lines.push(format!(
                    "{key} - {{\"access\": \"{}\", \"user\": \"staff\"}}",
                    access(rng).name()
                ));
            }
        }
        // The checker searches files in descending order.
        lines.sort_unstable();
        lines.reverse();
        let parts = 1 + rng.below(3);
        let mut texts = vec![String::new(); usize::try_from(parts).unwrap()];
        for line in lines {
            let part = usize::try_from(rng.below(parts)).unwrap();
            let _ = writeln!(texts[part], "{line}");
        }
        let files = texts.into_iter().enumerate().map(|(part, text)| {
            let file = folder.join(format!("{number}-{part}.aclj"));
            std::fs::write(&file, text).unwrap();
            file
        });
        let captures = (0..CAPTURES).map(|_| (url(rng, has_all), date(rng)));
        World {
            captures: captures.collect(),
            files: files.collect(),
            default: access(rng),
            embargo: rng.chance(50).then(|| embargo(rng)),
            now: date(rng),
        }
    }

    fn json(&self) -> Value {
        json!({
            "files": self.files, "default": self.default.name(), "now": self.now, "captures": self.captures,
            "embargo": self.embargo.map(written),
        })
    }
}

fn access(rng: &mut Rng) -> Access {
    *rng.pick(&[
        Access::Allow,
        Access::Block,
        Access::Exclude,
        Access::AllowIgnoreEmbargo,
    ])
}

/// Returns a URL from a few hosts and paths, so that many share a prefix.
fn url(rng: &mut Rng, is_com: bool) -> String {
    let tld = if is_com {
        "com"
    } else {
        rng.pick(&["com", "org", "co", "example"])
    };
    let host = rng.pick(&["a", "ab", "b", "a.b", "c.a", "ab.b", "a-b"]);
    let port = rng.pick(&["", "", "", ":8080"]);
    let path = rng.pick(&[
        "",
        "a",
        "ab",
        "a/b",
        "a/b/c",
        "b.html",
        "a?b=1",
        "a?b=12&c=3",
        "%20a",
    ]);
    format!("http://{host}.{tld}{port}/{path}")
}

/// Returns a key that includes the top-level domain: a urlkey, or a prefix of one.
fn key(rng: &mut Rng, is_com: bool) -> String {
    let key = urlkey(&url(rng, is_com)).unwrap();
    if rng.chance(25) {
        return format!("{key}###");
    }
    let whole = key.find([',']).unwrap() + 1;
    let end = whole + usize::try_from(rng.below((key.len() - whole + 1) as u64)).unwrap();
    key[..end].to_owned()
}

fn rule(rng: &mut Rng) -> Value {
    let mut rule = json!({"access": access(rng).name()});
    if rng.chance(20) {
        let (name, value) = dates_written(dates(rng));
        rule[name] = value;
    }
    rule
}

/// Returns dates close to each other, with a resolution of one second.
fn date(rng: &mut Rng) -> String {
    let begin = Timestamp::earliest(b"2018").unwrap().seconds();
    let days = i64::try_from(rng.below(1500)).unwrap();
    let second = *rng.pick(&[0, 1, 43_200, 86_399]);
    let moment = Timestamp::from_seconds(begin + days * 86_400 + second);
    moment.unwrap().to_string()
}

fn dates(rng: &mut Rng) -> Dates {
    let digits = date(rng);
    let digits = &digits[..*rng.pick(&[4, 6, 8, 10, 12, 14])];
    let number = |rng: &mut Rng, most| u32::try_from(rng.below(most)).unwrap();
    let period = Period {
        years: number(rng, 3),
        months: number(rng, 20),
        weeks: number(rng, 6),
        days: 1 + number(rng, 40),
    };
    match rng.below(4) {
        0 => Dates::Before(Dates::moment(digits).unwrap()),
        1 => Dates::After(Dates::moment(digits).unwrap()),
        2 => Dates::Older(period),
        _ => Dates::Newer(period),
    }
}

fn embargo(rng: &mut Rng) -> Embargo {
    Embargo {
        dates: dates(rng),
        access: *rng.pick(&[Access::Exclude, Access::Block, Access::Allow]),
    }
}

fn dates_written(dates: Dates) -> (&'static str, Value) {
    let parts = |period: Period| json!({"years": period.years, "months": period.months, "weeks": period.weeks, "days": period.days});
    match dates {
        Dates::Before(moment) => ("before", json!(moment.to_string())),
        Dates::After(moment) => ("after", json!(moment.to_string())),
        Dates::Older(period) => ("older", parts(period)),
        Dates::Newer(period) | Dates::Within(period) => ("newer", parts(period)),
    }
}

fn written(embargo: Embargo) -> Value {
    let (name, value) = dates_written(embargo.dates);
    json!({name: value, "access": embargo.access.name()})
}

#[test]
fn pywb_gives_the_same_verdicts() {
    let Some(pywb) = pywb() else { return };
    let mut rng = Rng::new("pywb_gives_the_same_verdicts");
    let dir = tempfile::tempdir().unwrap();
    let mut seen = BTreeSet::new();
    for first in (0..sized(5, 1000)).step_by(WORLDS) {
        let worlds: Vec<World> = (first..sized(5, 1000).min(first + WORLDS))
            .map(|number| World::new(&mut rng, dir.path(), number))
            .collect();
        let lines: String = worlds
            .iter()
            .map(|world| format!("{}\n", world.json()))
            .collect();
        let file = dir.path().join("worlds");
        std::fs::write(&file, lines).unwrap();
        let verdicts = run(Command::new(pywb.python()).args(["-c", CHECKER]).arg(&file)).unwrap();
        let mut verdicts = verdicts.lines();
        for world in &worlds {
            let rules =
                Rules::read(world.files.clone(), world.default, world.embargo, "public").unwrap();
            let now = Timestamp::earliest(world.now.as_bytes()).unwrap();
            for (url, timestamp) in &world.captures {
                let key = urlkey(url).unwrap();
                let (ours, _) = rules.verdict(key.as_bytes(), timestamp.as_bytes(), now);
                let theirs = verdicts.next().unwrap();
                let files = || {
                    world
                        .files
                        .iter()
                        .map(|file| std::fs::read_to_string(file).unwrap())
                };
                assert_eq!(
                    ours.name(),
                    theirs,
                    "{key} at {timestamp}, now {}, default {}, embargo {:?}, rules:\n{}",
                    world.now,
                    world.default.name(),
                    world.embargo,
                    files().collect::<String>()
                );
                seen.insert(theirs.to_owned());
            }
            for file in &world.files {
                std::fs::remove_file(file).unwrap();
            }
        }
        assert_eq!(verdicts.next(), None);
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
}
