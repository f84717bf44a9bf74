//! A user with exactly the permissions that a command needs can run it. If any one of them is
//! missing, the command is refused and changes no data.

use std::collections::BTreeMap;

use redis_tests::matrix::{Family, PREFIX};
use redis_tests::{Reply, Wire, array, bulk, ok, rows};

use crate::stage::{Outcome, Stage, changed, steady};

for_every_family!(
    each_sample_runs_with_exactly_the_keys_that_it_needs,
    each_sample_needs_its_prefix_and_its_command,
    users_of_a_prefix_cannot_access_another_one,
    commands_without_permission_fill_no_cache,
    getkeysandflags_returns_the_key_and_its_access,
);

/// Permitted keys, with true for write access.
type Grants = BTreeMap<String, bool>;

/// A user whose permissions change.
struct User {
    admin: Wire,
    wire: Wire,
}

impl User {
    fn of(stage: &Stage) -> User {
        let mut admin = stage.server.wire();
        ok!(admin, "ACL", "SETUSER", "user", "on", "nopass", "+@all");
        let mut wire = stage.server.wire();
        ok!(wire, "AUTH", "user", "any");
        User { admin, wire }
    }

    /// Replaces the user's key permissions with these rules.
    fn with(&mut self, rules: &[&str]) -> &mut Wire {
        let words = [&["ACL", "SETUSER", "user", "resetkeys"], rules].concat();
        self.admin.expect_ok(&words);
        &mut self.wire
    }

    fn granted(&mut self, grants: &Grants) -> &mut Wire {
        let rules = grants.iter().map(|(key, writes)| {
            assert!(
                !key.contains(['*', '?', '[', '\\', ' ']),
                "{key} is a pattern"
            );
            format!("{}~{key}", if *writes { "" } else { "%R" })
        });
        let rules: Vec<String> = rules.collect();
        self.with(&rules.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// Returns the error line of a `NOPERM` error.
fn denial(reply: &Reply) -> Option<String> {
    let Reply::Error(line) = reply else {
        return None;
    };
    let line = String::from_utf8_lossy(line).into_owned();
    line.starts_with("NOPERM ").then_some(line)
}

#[track_caller]
fn assert_denied(reply: &Reply, what: &str) {
    assert!(denial(reply).is_some(), "{what}: {reply:?}");
}

/// Parses a denial: the key, and true if write access was required.
fn named(denial: &str) -> Option<(&str, bool)> {
    let (before, rest) = denial.split_once(" key '")?;
    Some((rest.split_once('\'')?.0, before.ends_with("write")))
}

/// Returns true if a key may be written, false if it may only be read, and `None` if neither. For
/// unknown groups, the shortest possible name is checked.
fn granted(grants: &Grants, key: &str) -> Option<bool> {
    let any_group = format!("{PREFIX}CHG:");
    let found = grants.get(key);
    let found = found.or_else(|| {
        grants
            .get(&any_group)
            .filter(|_| key.starts_with(&any_group))
    });
    found.copied()
}

/// Returns true if changing the key needs permission, because plain clients use the key.
fn is_shared(family: &Family, name: &str) -> bool {
    let ends = |suffixes: &[&str]| suffixes.iter().any(|suffix| name.ends_with(suffix));
    match family.name {
        "DEDUPE" => {
            ["allhashes", "allcounts", "allcrawls", "uncommittedcrawls", "src:d"].contains(&name)
                || ends(&[":counts", ":wacz", ":reqCrawls", ":duperefs"])
                // A commit of a packed index moves records out of this key, which a user may only
                // be permitted to read.
                || family.storage == "plain" && name.starts_with("h:") && name.matches(':').count() == 1
        }
        "CHG" => {
            ["chg_wait", "chg_busy", "chg_ready", "EIDC", "QCT"].contains(&name)
                || name.starts_with("CHG:")
        }
        _ => name.is_empty(),
    }
}

/// The module's own keys for which permission is required, as listed in docs/commands/README.md.
const CHECKED_OWN: [(&str, &str); 7] = [
    ("CLAIM", "claims"),
    ("UNCLAIM", "claims"),
    ("PROFILE", "crawlspace"),
    ("PACK", "holders"),
    ("PACK", "moving"),
    ("UNPACK", "holders"),
    ("UNPACK", "moving"),
];

/// Returns true if other programs use the key, too.
fn is_documented(family: &Family, name: &str) -> bool {
    let of_records = name.starts_with("h:") && name.matches(':').count() == 1;
    is_shared(family, name)
        || family.name == "DEDUPE"
            && (of_records || ["to-remove-crawls", "canceledcrawls"].contains(&name))
}

fn each_sample_runs_with_exactly_the_keys_that_it_needs(family: &Family) {
    let mut stage = Stage::of(family);
    stage.cold = true;
    let mut user = User::of(&stage);
    for line in stage.family.samples {
        runs_with_exactly_what_it_needs(&mut stage, &mut user, line);
    }
}

/// Starts with a user without keys and grants the permission that each denial names until the line
/// runs. A denial must change no data, and at the end every permission must be necessary.
fn runs_with_exactly_what_it_needs(stage: &mut Stage, user: &mut User, line: &str) {
    let alone = stage.alone(line);
    stage.reset();
    let (words, digest) = (stage.words(line), stage.server.digest());
    let mut grants = Grants::new();
    let reply = loop {
        stage.empty_caches();
        let reply = user.granted(&grants).call(&words);
        let Some(denial) = denial(&reply) else {
            break reply;
        };
        assert_eq!(stage.server.digest(), digest, "{line}: {denial}");
        // A denial by the server itself does not name the key.
        let (key, writes) = named(&denial).unwrap_or((PREFIX, grants.contains_key(PREFIX)));
        assert!(key.starts_with(PREFIX), "{line}: {denial}");
        let had = grants.insert(key.to_owned(), writes);
        assert!(had.is_none_or(|wrote| writes && !wrote), "{line}: {denial}");
    };
    Outcome::of(&reply, &mut stage.wire).assert_same(&alone, line);
    assert!(!grants.is_empty(), "{line} needs no key");
    for key in grants.keys() {
        let name = &key[PREFIX.len()..];
        let command = line.split(' ').next().unwrap_or(line);
        assert!(
            is_documented(&stage.family, name) || CHECKED_OWN.contains(&(command, name)),
            "{line} needs {key}, which is neither documented nor among the checked keys in docs/commands/README.md"
        );
    }
    let shared = |stage: &Stage, key: &str| is_shared(&stage.family, &key[PREFIX.len()..]);
    // A read-only user needs no permission for the module's own keys.
    let own = rows![
        "crawlspace"; "committing"; "removing"; "commits"; "holders"; "claims";
    ];
    let own = |key: &String| own.iter().any(|name| key == &format!("{PREFIX}{name}"));
    assert!(
        stage.writes(line) || !grants.keys().any(own),
        "{line} needs {grants:?}"
    );
    for key in changed(&stage.before, &alone.data) {
        let allowed = granted(&grants, &key) == Some(true) || !shared(stage, &key);
        assert!(allowed, "{line} changes {key}, but needs {grants:?}");
    }

    stage.reset();
    let digest = stage.server.digest();
    for (key, writes) in &grants {
        let mut fewer = grants.clone();
        fewer.remove(key);
        stage.empty_caches();
        let reply = user.granted(&fewer).call(&words);
        assert_denied(&reply, &format!("{line} without {key}"));
        if !stage.writes(line) {
            // Data that the module has cached in the meantime must make no difference.
            stage.wire.call(&words);
            let reply = user.granted(&fewer).call(&words);
            assert_denied(&reply, &format!("{line} without {key}, cached"));
        }
        if *writes {
            fewer.insert(key.clone(), false);
            let reply = user.granted(&fewer).call(&words);
            assert_denied(&reply, &format!("{line} may only read {key}"));
        }
    }
    assert_eq!(stage.server.digest(), digest, "{line} was denied");
    if alone.data != stage.before || stage.writes(line) && !line.starts_with("CLAIM") {
        return;
    }
    // Keys that can be read without permission reveal only the state of a crawl. In a packed index,
    // permission for `h:<crawl>` is also required.
    let told = |key: &str| {
        let packed = stage.family.storage == "packed";
        let tells_state = line.starts_with("STATS");
        key.ends_with("crawls") && !tells_state || packed && key.ends_with("allhashes")
    };
    let keys = stage.before.names().into_iter();
    let keys =
        keys.filter(|key| shared(stage, key) && granted(&grants, key).is_none() && !told(key));
    for key in keys.collect::<Vec<_>>() {
        stage.reset();
        ok!(stage.wire, "DEL", key);
        let reply = stage.wire.call(&words);
        assert_eq!(steady(&reply), alone.reply, "{line} without {key}");
    }
}

fn each_sample_needs_its_prefix_and_its_command(family: &Family) {
    let mut stage = Stage::of(family);
    let mut user = User::of(&stage);
    let everything = format!("~{PREFIX}*");
    let to_read = format!("%R{everything}");
    let to_write = format!("%W{everything}");
    for line in stage.family.samples {
        let alone = stage.alone(line);
        stage.reset();
        let words = stage.words(line);
        let reply = user.with(&[&everything]).call(&words);
        Outcome::of(&reply, &mut stage.wire).assert_same(&alone, line);

        stage.reset();
        let words = stage.words(line);
        let writes = stage.writes(line);
        let digest = stage.server.digest();
        let reply = user.with(&[&to_read]).call(&words);
        if !writes {
            Outcome::of(&reply, &mut stage.wire).assert_same(&alone, line);
            stage.empty_caches();
            let reply = user.with(&[&to_write, "~other{m}:*"]).call(&words);
            assert_denied(&reply, &format!("{line} may only write"));
        } else if alone.data != stage.before {
            assert_denied(&reply, &format!("{line} may only read"));
        }
        let reply = user.with(&["~other{m}:*", "~{m}", "~m:*"]).call(&words);
        assert_denied(&reply, &format!("{line} elsewhere"));
        // Servers before 7.2 assign no categories to commands of modules.
        let reply = user.with(&["~*", "-@all", "+@read"]).call(&words);
        assert!(!writes || denial(&reply).is_some(), "{line}: {reply:?}");
        assert!(
            denial(&reply).is_some() || !reply.is_error(),
            "{line}: {reply:?}"
        );
        let command = format!("-{}", stage.family.command(line));
        let reply = user.with(&["~*", "+@all", &command]).call(&words);
        assert_denied(&reply, &format!("{line} without its command"));
        user.with(&["+@all"]);
        assert_eq!(stage.server.digest(), digest, "{line} was denied");
    }
}

fn users_of_a_prefix_cannot_access_another_one(family: &Family) {
    let mut stage = Stage::of(family);
    let mut user = User::of(&stage);
    // The prefix is empty, or it is a prefix of the user's own prefix.
    let states = ["", "{m}"].map(|prefix| family.fill(&mut stage.wire, prefix));
    let digest = stage.server.digest();
    let wire = user.with(&[&format!("~{PREFIX}*")]);
    for line in family.samples {
        for state in &states {
            let reply = wire.call(&state.words(line));
            assert_denied(&reply, &format!("{line} under '{}'", state.prefix));
        }
    }
    assert_eq!(stage.server.digest(), digest);
}

fn commands_without_permission_fill_no_cache(family: &Family) {
    let stage = Stage::of(family);
    let mut user = User::of(&stage);
    let figure = match family.name {
        "DEDUPE" => "indexes",
        "CHG" => "frontiers",
        _ => "tags_spaces",
    };
    let cached = stage.server.info_number(figure);
    for line in family.samples {
        let mut words = stage.words(line);
        words[1] = b"nowhere{m}:".to_vec();
        let reply = user.with(&["~other{m}:*"]).call(&words);
        assert_denied(&reply, line);
        assert_eq!(stage.server.info_number(figure), cached, "{line}");
    }
}

fn getkeysandflags_returns_the_key_and_its_access(family: &Family) {
    let mut stage = Stage::of(family);
    let prefix_is_a_key = stage.family.name == "TAGS";
    for line in stage.family.samples {
        let writes = stage.writes(line);
        let mut words = vec![b"COMMAND".to_vec(), b"GETKEYSANDFLAGS".to_vec()];
        words.extend(stage.words(line));
        let told = stage.wire.call(&words);
        if !prefix_is_a_key {
            assert!(told.is_error() || told == array([]), "{line}: {told:?}");
            continue;
        }
        let [key] = told.items() else {
            panic!("{line}: {told:?}");
        };
        assert_eq!(key.items()[0], bulk(PREFIX), "{line}");
        let flags = key.items()[1].texts();
        let may_write = flags.iter().any(|f| f == "RW" || f == "OW");
        assert_eq!(may_write, writes, "{line}: {flags:?}");
    }
}
