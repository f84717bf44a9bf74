//! The client libraries of crawlers: redis-py (with and without hiredis), ioredis, node-redis,
//! valkey-glide and coredis, with RESP2 and RESP3, on one server and on a cluster of three.
//!
//! Each client sends every example of docs/commands and must decode the reply as the page shows it;
//! maps must be decoded as maps. For redis-py and ioredis, the scenes in tests/server/clients test
//! features that examples cannot show: pipelines, transactions, waiting, and slots that move.

mod client;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use client::{Client, Language, OTHERS, PYTHONS, Place, RESP, client, node};
use redis_tests::examples::{Live, steps};
use redis_tests::packages::left_out;
use redis_tests::script;
use redis_tests::{Cluster, Reply, Server, int, ok, simulated, until};

fn one() -> Place {
    Place::One(simulated().start())
}

fn three() -> Place {
    Place::Three(Cluster::with(3, simulated()))
}

#[test]
fn redis_py_decodes_every_reply_as_documented() {
    let place = one();
    for language in PYTHONS {
        for protocol in RESP {
            examples(client(language, protocol), &place);
        }
    }
}

#[test]
fn redis_py_on_a_cluster_decodes_every_reply_as_documented() {
    let place = three();
    for language in PYTHONS {
        for protocol in RESP {
            examples(client(language, protocol), &place);
        }
    }
    assert_eq!(
        place.moved(),
        0,
        "the client sent a command to the wrong node"
    );
}

#[test]
fn ioredis_decodes_every_reply_as_documented() {
    let place = one();
    for protocol in RESP {
        examples(node(protocol, false), &place);
    }
}

#[test]
fn ioredis_on_a_cluster_decodes_every_reply_as_documented() {
    let place = three();
    for protocol in RESP {
        examples(node(protocol, true), &place);
    }
    assert_eq!(
        place.moved(),
        0,
        "the client sent a command to the wrong node"
    );
    // With default settings, a client sends a command to any node and follows the redirect.
    for protocol in RESP {
        examples(node(protocol, false), &place);
    }
}

#[test]
fn other_clients_decode_every_reply_as_documented() {
    let place = one();
    for (language, protocols) in OTHERS {
        for &protocol in protocols {
            examples(client(language, protocol), &place);
        }
    }
}

#[test]
fn other_clients_on_a_cluster_decode_every_reply_as_documented() {
    let place = three();
    for (language, protocols) in OTHERS {
        for &protocol in protocols {
            examples(client(language, protocol), &place);
        }
    }
    assert_eq!(
        place.moved(),
        0,
        "the client sent a command to the wrong node"
    );
    let untold = Client {
        routed: false,
        ..client(Language::Coredis, 3)
    };
    if let Ok(mut program) = untold.start("calls", &place) {
        let stats = ["DEDUPE.STATS", "{coll-42}:"];
        let reply = program.call(&stats.map(|word| word.as_bytes().to_vec()));
        assert!(reply.is_error(), "it did not know the key: {reply:?}");
    }
}

#[test]
fn clients_default_to_resp3_and_some_have_time_limits() {
    use Language::{Coredis, Glide, JavaScript, NodeRedis, Python, PythonWithHiredis};
    let place = one();
    let languages = [
        (Python, true),
        (PythonWithHiredis, true),
        (JavaScript, false),
        (NodeRedis, false),
        (Glide, true),
        (Coredis, false),
    ];
    std::thread::scope(|scope| {
        for (language, gives_up) in languages {
            let place = &place;
            scope.spawn(move || {
                let client = Client {
                    defaults: true,
                    ..client(language, 3)
                };
                let mut program = match client.start("calls", place) {
                    Ok(program) => program,
                    Err(reason) => return left_out(client.name(), &reason),
                };
                let mut call = |words: &[&str]| {
                    let words: Vec<_> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
                    program.call(&words)
                };
                let told = call(&["CLIENT", "INFO"]);
                assert!(
                    told.text().contains(" resp=3"),
                    "{}: {told:?}",
                    client.name()
                );
                let next = ["CHG.NEXT", "{web}:", "BLOCK", "6000"];
                let reply = call(&next);
                assert_eq!(reply.is_error(), gives_up, "{}: {reply:?}", client.name());
            });
        }
    });
}

/// Scenes that every client must pass.
const SCENES: [&str; 6] = [
    "any_bytes_go_in_and_come_out",
    "a_pipeline_has_errors_in_their_place",
    "a_transaction_waits_for_nothing",
    "who_waits_for_a_lease_gets_it",
    "who_waits_for_a_claim_learns_what_comes_of_it",
    "errors_begin_with_their_code_word",
];
/// More scenes that every cluster client must pass.
const CLUSTER_SCENES: [&str; 2] = [
    "a_prefix_without_hash_tag_is_refused",
    "a_slot_that_moves_is_found",
];

#[test]
fn redis_py_plays_every_scene() {
    for language in PYTHONS {
        for protocol in RESP {
            scenes(client(language, protocol), &one());
        }
    }
}

#[test]
fn redis_py_on_a_cluster_plays_every_scene() {
    let place = three();
    for language in PYTHONS {
        for protocol in RESP {
            scenes(client(language, protocol), &place);
        }
    }
}

#[test]
fn ioredis_plays_every_scene() {
    for protocol in RESP {
        scenes(node(protocol, false), &one());
    }
}

#[test]
fn ioredis_on_a_cluster_plays_every_scene() {
    let place = three();
    for routed in [true, false] {
        for protocol in RESP {
            scenes(node(protocol, routed), &place);
        }
    }
}

/// Makes a client run all scenes, and performs the actions that they request.
fn scenes(client: Client, place: &Place) {
    for node in place.nodes() {
        let mut c = node.wire();
        ok!(c, "FLUSHALL");
        ok!(
            c,
            "ACL",
            "SETUSER",
            "limited",
            "on",
            "nopass",
            "~elsewhere:*",
            "+@all"
        );
    }
    let mut program = match client.start("scenes", place) {
        Ok(program) => program,
        Err(reason) => return left_out(client.name(), &reason),
    };
    let mut played = Vec::new();
    while let Some(line) = program.next_line() {
        let words: Vec<&str> = line.split(' ').collect();
        match (&words[..], place) {
            (["ok", scene], _) => {
                played.push((*scene).to_owned());
                continue;
            }
            (["claims", count], _) => until(&line, || {
                let waiting = |node: &Server| node.info_number("claims_pending");
                let sum: i64 = place.nodes().iter().map(waiting).sum();
                sum.to_string() == *count
            }),
            (["waits", frontier], _) => {
                let frontier = script::bytes(frontier);
                let mut c = place.owner(&frontier).wire();
                until(&line, || {
                    ok!(c, "CHG.INFO", &frontier).find("waiters") == Some(int(1))
                });
            }
            (["config", name, value], _) => {
                for node in place.nodes() {
                    ok!(node.wire(), "CONFIG", "SET", name, value);
                }
            }
            ([step, prefix], Place::Three(cluster)) => {
                let prefix = script::bytes(prefix);
                // The target is always the same node. It does not own the slot, even while the slot
                // is moving.
                let owner = cluster.owner(&prefix).port();
                let others = cluster.nodes().iter().filter(|n| n.port() != owner);
                let to = others
                    .min_by_key(|n| n.port())
                    .expect("the cluster has three nodes");
                match *step {
                    "begin" => cluster.begin_move(&prefix, to),
                    "keys" => cluster.move_keys(&prefix, to),
                    "finish" => cluster.finish_move(&prefix, to),
                    _ => panic!("{}: {line}", program.name),
                }
            }
            _ => panic!("{}: {line}", program.name),
        }
        program.say("done");
    }
    let mut expected = SCENES.to_vec();
    if matches!(place, Place::Three(_)) {
        expected.extend(CLUSTER_SCENES);
    }
    assert_eq!(played, expected, "{}", program.name);
}

/// Makes a client send all examples of the command pages.
fn examples(client: Client, place: &Place) {
    let mut program = match client.start("calls", place) {
        Ok(program) => program,
        Err(reason) => return left_out(client.name(), &reason),
    };
    let mut differences = Vec::new();
    let mut commands = commands_of(&place.nodes()[0]);
    for page in pages() {
        for node in place.nodes() {
            ok!(node.wire(), "FLUSHALL");
        }
        let text = std::fs::read_to_string(&page).expect("the page can be read");
        let mut maps = false;
        let mut now = Live::default();
        for step in steps(&text) {
            let words = step.words(&now);
            let name = String::from_utf8_lossy(&words[0]).to_lowercase();
            let reply = if is_ours(&name) {
                commands.remove(&name);
                let reply = program.call(&words);
                // A page describes the reply of its own command. Its examples may also send other
                // commands.
                let is_own = page.file_stem().is_some_and(|stem| *stem == *name);
                maps |= is_own && has_map(&reply);
                status(flat(reply), &step.expected)
            } else {
                // This test does not cover replies of plain commands, so they are sent without the
                // client.
                place.owner(&words[1]).wire().call(&words)
            };
            let different = step.difference(&reply, &mut now);
            differences.extend(different.map(|d| format!("{}:{d}", page.display())));
        }
        let promised = client.protocol == 3 && promises_a_map(&text);
        if maps != promised {
            let found = if maps { "a map" } else { "no map" };
            differences.push(format!("{}: {found}", page.display()));
        }
    }
    assert!(
        differences.is_empty(),
        "{}: {} differences\n{}",
        program.name,
        differences.len(),
        differences.join("\n")
    );
    assert_eq!(commands, BTreeSet::new(), "{} missed these", program.name);
}

/// Returns the module's commands that are meant for clients.
fn commands_of(server: &Server) -> BTreeSet<String> {
    let listed = ok!(
        server.wire(),
        "COMMAND",
        "LIST",
        "FILTERBY",
        "MODULE",
        "crawlspace"
    );
    let names = listed.texts().into_iter().map(|name| name.to_lowercase());
    let names: BTreeSet<String> = names.filter(|name| is_ours(name)).collect();
    assert!(names.len() > 50, "{names:?}");
    names
}

fn is_ours(name: &str) -> bool {
    ["dedupe.", "chg.", "tags."]
        .iter()
        .any(|family| name.starts_with(family))
}

fn pages() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/commands");
    let entries = std::fs::read_dir(folder).expect("the pages are there");
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.expect("it is").path()).collect();
    // The overview uses the empty prefix, which a cluster refuses. Each command in it has its own
    // page.
    pages.retain(|page| page.file_name().is_some_and(|name| name != "README.md"));
    pages.sort();
    pages
}

/// Returns true if, according to the page, the reply is or contains a map.
fn promises_a_map(page: &str) -> bool {
    let (_, rest) = page
        .split_once("\n## Reply\n")
        .expect("the page has a section about the reply");
    let reply = rest.split("\n## ").next().unwrap_or_default();
    reply
        .split(|c: char| !c.is_alphanumeric())
        .any(|word| matches!(word, "map" | "maps"))
}

fn has_map(reply: &Reply) -> bool {
    match reply {
        Reply::Map(_) => true,
        Reply::Array(items) => items.iter().any(has_map),
        _ => false,
    }
}

/// Converts the maps of a reply to the RESP2 form that the pages show.
fn flat(reply: Reply) -> Reply {
    match reply {
        Reply::Map(pairs) => {
            let parts = pairs.into_iter().flat_map(|(name, value)| [name, value]);
            Reply::Array(parts.map(flat).collect())
        }
        Reply::Array(items) => Reply::Array(items.into_iter().map(flat).collect()),
        other => other,
    }
}

/// Converts `OK` strings to status replies, because these clients do not distinguish them.
fn status(reply: Reply, expected: &[String]) -> Reply {
    match reply {
        Reply::Bulk(text) if text == b"OK" && expected == ["OK"] => Reply::Simple(text),
        other => other,
    }
}
