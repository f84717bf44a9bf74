//! Tests that `COMMAND INFO`, `COMMAND DOCS`, `CONFIG` and `INFO` describe all commands and
//! settings, as the command pages do.

use std::collections::BTreeSet;
use std::path::Path;

use crawlspace_compact::limits::chg::TEN_YEARS;
use redis_tests::matrix::{Family, Grammar, PREFIX};
use redis_tests::{Options, Reply, Server, Wire, array, bulk, err, int, ok, rows};

for_every_family!(
    command_info_tells_arity_flags_and_keys,
    only_write_commands_change_data,
    command_docs_are_complete,
    pages_have_the_words_of_the_grammar,
    pages_have_the_limits_of_numbers,
    wrong_arity_is_refused_by_the_server,
    getkeys_gives_the_prefix_or_none,
    replies_are_the_same_in_both_protocols,
    info_counts_events,
);

/// Returns the samples of a command as arguments, without the `NOW` that all commands of a family
/// with simulated time accept.
fn samples(family: &Family, c: &mut Wire, command: &str) -> Vec<Vec<Vec<u8>>> {
    let mut state = family.refill(c);
    state.now = None;
    let refused = family.refused.iter().map(|(line, _)| line);
    let is_sampled = family
        .samples
        .iter()
        .any(|line| family.command(line) == command);
    // A command that is not possible in the state has no sample.
    let refused = refused.filter(|_| !is_sampled);
    let lines = family.samples.iter().chain(refused);
    let of_command = lines.filter(|line| family.command(line) == command);
    of_command.map(|line| state.words(line)).collect()
}

fn command_info_tells_arity_flags_and_keys(family: &Family) {
    let server = family.options().start();
    let mut c = server.wire();
    let without_memory: Vec<&str> = family.without_memory.split(' ').collect();
    for (name, grammar) in family.grammars(&mut c) {
        let info = ok!(c, "COMMAND", "INFO", name).items()[0].clone();
        let items = info.items();
        assert_eq!(items[0], bulk(&name));
        let samples = samples(family, &mut c, &name);
        let shortest = samples.iter().map(Vec::len).min().expect("a sample");
        assert_eq!(
            grammar.arity.unsigned_abs(),
            shortest as u64,
            "arity of {name}"
        );
        let varies = grammar.flat().iter().any(|a| a.optional || a.multiple);
        assert_eq!(grammar.arity < 0, varies, "arity of {name}");

        let flags = &grammar.flags;
        let writes = grammar.writes();
        assert_eq!(grammar.has("readonly"), !writes, "{name}: {flags:?}");
        assert!(!grammar.has("no-cluster"), "{name}");
        // Commands that free memory must work when the server is out of memory.
        let frees = without_memory.contains(&name.split('.').next_back().unwrap_or_default());
        assert!(writes || !frees, "{name} writes nothing");
        assert_eq!(
            grammar.has("denyoom"),
            writes && !frees,
            "{name}: {flags:?}"
        );

        assert_eq!(
            [&items[3], &items[4], &items[5]],
            [&int(1); 3],
            "keys of {name}"
        );
        let specs = &items[8];
        assert_eq!(specs.items().len(), 1, "{name}: {specs:?}");
        let spec = &specs.items()[0];
        let index = spec.field("begin_search").field("spec").field("index");
        assert_eq!(index, int(1), "{name}: {specs:?}");
        let flags = spec.field("flags").texts();
        let access = |flag: &str| flags.iter().any(|f| f == flag);
        if takes_prefix(&grammar) {
            assert!(access("not_key"), "{name}: {flags:?}");
        } else {
            let [ro, rw] = [access("RO"), access("RW")];
            assert_eq!([ro, rw], [!writes, writes], "{name}: {flags:?}");
        }
    }
}

fn takes_prefix(grammar: &Grammar) -> bool {
    grammar.arguments[0].name == "prefix"
}

fn only_write_commands_change_data(family: &Family) {
    let server = family.options().start();
    let mut c = server.wire();
    let mut changing = BTreeSet::new();
    let grammars = family.grammars(&mut c);
    for line in family.samples {
        let name = family.command(line);
        let state = family.refill(&mut c);
        let before = server.digest();
        c.expect_ok(&state.words(line));
        if server.digest() != before {
            assert!(grammars[&name].writes(), "{line} changed the data set");
            changing.insert(name);
        }
    }
    let writing = grammars.values().filter(|grammar| grammar.writes());
    let writing: BTreeSet<String> = writing.map(|grammar| grammar.name.clone()).collect();
    let idle: Vec<&str> = writing.difference(&changing).map(String::as_str).collect();
    // The index needs no repair, packing or unpacking, and its profile cannot change any more. The frontier knows no
    // URLs.
    let expected: &[&str] = match (family.name, family.storage) {
        ("DEDUPE", "plain") => &["dedupe.profile", "dedupe.repair", "dedupe.unpack"],
        ("DEDUPE", _) => &["dedupe.pack", "dedupe.profile", "dedupe.repair"],
        ("CHG", "packed") => &[
            "chg.discover",
            "chg.done",
            "chg.forget",
            "chg.pack",
            "chg.repair",
            "chg.settle",
            "chg.space",
        ],
        ("CHG", _) => &[
            "chg.discover",
            "chg.done",
            "chg.forget",
            "chg.repair",
            "chg.settle",
            "chg.space",
            "chg.unpack",
        ],
        _ => &[],
    };
    assert_eq!(
        idle, expected,
        "write commands without a sample that writes"
    );
}

fn command_docs_are_complete(family: &Family) {
    let server = family.options().start();
    let mut c = server.wire();
    for (name, grammar) in family.grammars(&mut c) {
        let docs = ok!(c, "COMMAND", "DOCS", name).field(&name);
        for field in ["summary", "since", "group", "complexity"] {
            assert!(!docs.field(field).text().is_empty(), "{field} of {name}");
        }
        let page = page(&name).split_whitespace().collect::<Vec<_>>().join(" ");
        let complexity = docs.field("complexity").text();
        let begins = format!("## Complexity and blocking {complexity}. ");
        assert!(
            page.contains(&begins),
            "{name}.md lacks the line: {complexity}"
        );
        let first = docs.field("arguments").items()[0].clone();
        let called = if family.name == "TAGS" {
            "key"
        } else {
            "prefix"
        };
        assert_eq!(first.field("name").text(), called, "{name}: {first:?}");
        assert_eq!(first.field("type").text(), "key", "{name}: {first:?}");
        assert_eq!(takes_prefix(&grammar), called == "prefix", "{name}");
    }
}

fn page(name: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/commands");
    let page = docs.join(format!("{name}.md"));
    std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()))
}

/// Returns the literal words of `text`: words in capitals, and tokens of the command.
fn tokens_in(text: &str, grammar: &Grammar) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let tokens = grammar.tokens();
    let is_token = |word: &str| {
        let capital = word.len() > 1 && word.bytes().all(|b| b.is_ascii_uppercase());
        capital || tokens.contains(&word)
    };
    words
        .filter(|word| is_token(word))
        .map(str::to_owned)
        .collect()
}

fn pages_have_the_words_of_the_grammar(family: &Family) {
    let server = family.options().start();
    for (name, grammar) in family.grammars(&mut server.wire()) {
        let mut text = page(&name);
        let tokens: BTreeSet<String> = grammar.tokens().iter().map(|t| (*t).to_owned()).collect();
        // The syntax comes first on the page.
        let syntax = text.split("\n**Since**").next().unwrap_or_default();
        let syntax = tokens_in(&syntax.replace(&name.to_uppercase(), ""), &grammar);
        let unknown: Vec<_> = syntax.difference(&tokens).collect();
        assert_eq!(unknown, [""; 0], "the syntax of {name}.md");

        for other in family.grammars(&mut server.wire()).keys() {
            if text.contains(&format!("({other}.md#arguments)")) {
                text.push_str(&page(other));
            }
        }
        let explained = tokens_in(&text.to_uppercase(), &grammar);
        let missing: Vec<_> = tokens
            .iter()
            .filter(|t| !explained.contains(&t.to_uppercase()))
            .collect();
        assert_eq!(missing, [""; 0], "arguments that {name}.md lacks");
    }
}

/// Formats a number with groups of three digits.
fn grouped(number: u64) -> String {
    match number / 1000 {
        0 => number.to_string(),
        thousands => format!("{} {:03}", grouped(thousands), number % 1000),
    }
}

fn pages_have_the_limits_of_numbers(family: &Family) {
    let server = family.options().start();
    let mut c = server.wire();
    for name in family.grammars(&mut c).into_keys() {
        let docs = ok!(c, "COMMAND", "DOCS", name).field(&name);
        let page = page(&name);
        let mut arguments = docs.field("arguments").items().to_vec();
        while let Some(argument) = arguments.pop() {
            if let Some(parts) = argument.find("arguments") {
                arguments.extend(parts.items().iter().cloned());
            }
            let limits = argument.find("summary").map(|limits| limits.text());
            let most = limits.as_ref().and_then(|limits| limits.split_once(" to "));
            let Some(Ok(most)) = most.map(|(_, most)| most.parse::<u64>()) else {
                continue;
            };
            let called = argument.field("name").text();
            // Simulated time is documented once for all commands. The maximum of other numbers is
            // the largest integer that JavaScript represents exactly.
            if called == "now" || most >= (1 << 53) - 1 {
                continue;
            }
            let ten_years = (most == TEN_YEARS).then(|| "ten years".to_owned());
            let spellings = [Some(grouped(most)), Some(most.to_string()), ten_years];
            let token = argument
                .find("token")
                .map(|token| format!("`{} ", token.text()));
            let named = [Some(format!("`{called}`")), token];
            let rows = page.lines().filter(|row| {
                let first = row
                    .split(" | ")
                    .next()
                    .filter(|first| first.starts_with("| `"));
                first.is_some_and(|first| named.iter().flatten().any(|name| first.contains(name)))
            });
            let mut rows: Vec<&str> = rows.collect();
            if rows.is_empty() {
                rows.push(&page);
            }
            let is_said = rows
                .iter()
                .any(|row| spellings.iter().flatten().any(|most| row.contains(most)));
            assert!(is_said, "{name}.md does not limit {called} to {most}");
        }
    }
}

fn wrong_arity_is_refused_by_the_server(family: &Family) {
    let server = family.options().start();
    let mut c = server.wire();
    for (name, grammar) in family.grammars(&mut c) {
        let refused = |c: &mut Wire, n: usize| {
            let mut words = vec![name.clone()];
            words.resize(n, "1".to_owned());
            let line = c.expect_error(&words);
            assert!(
                line.contains("wrong number of arguments"),
                "{words:?}: {line}"
            );
        };
        let shortest = grammar.arity.unsigned_abs() as usize;
        (1..shortest).for_each(|n| refused(&mut c, n));
        if grammar.arity > 0 {
            refused(&mut c, shortest + 1);
        }
    }
    assert_eq!(ok!(c, "DBSIZE"), int(0));
}

fn getkeys_gives_the_prefix_or_none(family: &Family) {
    let server = family.options().start();
    let mut c = server.wire();
    for (name, grammar) in family.grammars(&mut c) {
        for words in samples(family, &mut c, &name) {
            let get = [b"COMMAND".to_vec(), b"GETKEYS".to_vec()];
            match c.call(&[&get[..], &words].concat()) {
                // A prefix is not a key, so the reply is an error. Some servers return the prefix.
                Reply::Error(line) if takes_prefix(&grammar) => {
                    assert!(line.starts_with(b"ERR "), "{name}");
                }
                keys if takes_prefix(&grammar) && keys == array([]) => {}
                keys => assert_eq!(keys, array([bulk(PREFIX)]), "{name}"),
            }
        }
    }
}

/// Returns true if a reply contains a map.
fn has_map(reply: &Reply) -> bool {
    match reply {
        Reply::Map(_) => true,
        Reply::Array(items) => items.iter().any(has_map),
        _ => false,
    }
}

fn replies_are_the_same_in_both_protocols(family: &Family) {
    let server = family.options().start();
    let (mut old, mut new) = (server.wire(), server.wire3());
    let mut maps = BTreeSet::new();
    for line in family.samples.iter().chain(family.reads) {
        let mut words_of = || {
            let state = family.refill(&mut old);
            if line.starts_with("STATS") {
                // The levels of a skip list are random, and so is the memory of a sorted set.
                old.call(&state.words("URLS OFF"));
            }
            state.words(line)
        };
        let words = words_of();
        let reply3 = new.call(&words);
        let words = words_of();
        let reply = old.call(&words);
        // Commands that depend on the server's clock return other replies later.
        if !line.starts_with("CLAIM") && !line.contains("BLOCK 1") {
            assert_eq!(reply3.as_resp2(), reply, "{line}");
        }
        assert!(!has_map(&reply), "{line}: {reply:?}");
        if has_map(&reply3) {
            maps.insert(family.command(line));
        }
    }
    let maps: Vec<&str> = maps
        .iter()
        .filter_map(|name| name.split('.').next_back())
        .collect();
    let expected = match family.name {
        "DEDUPE" => "check crawls pack repair requires stats unpack urls waczlist",
        "CHG" if family.storage == "packed" => "check count info repair why",
        "CHG" => "check info repair why",
        _ => "explain info",
    };
    assert_eq!(maps.join(" "), expected);
}

fn info_counts_events(family: &Family) {
    let server = family.options().start();
    let mut c = server.wire();
    let rising = match family.name {
        "DEDUPE" => "lookups hits adds revisits claims_granted jobs_done slices slice_longest_us",
        "CHG" => "chg_added chg_leases chg_releases",
        _ => "tags_batches",
    };
    let figures = |server: &Server| -> Vec<(String, i64)> {
        let names = rising.split(' ').map(str::to_owned);
        names
            .map(|name| (name.clone(), server.info_number(&name)))
            .collect()
    };
    let before = figures(&server);
    for line in family.samples {
        let state = family.refill(&mut c);
        c.call(&state.words(line));
    }
    for ((name, before), (_, after)) in before.iter().zip(figures(&server)) {
        assert!(after > *before, "{name}: {before} then {after}");
    }
    for none in rows![
        "panics"; "jobs_running"; "claims_pending"; "chg_waiters"; "tags_batches_waiting";
    ] {
        assert_eq!(server.info_number(none), 0, "{none}");
    }
    let text = page("README");
    let documented = text
        .split("## INFO crawlspace")
        .nth(1)
        .expect("a part on INFO");
    let rows = documented.lines().filter(|line| line.starts_with("| `"));
    for row in rows {
        let figures = row.split('|').nth(1).expect("a first column");
        for name in figures.split('`').skip(1).step_by(2) {
            assert!(server.info(name).is_some(), "INFO has no {name}");
        }
    }
    for line in ok!(c, "INFO", "crawlspace").text().lines().skip(1) {
        let (name, _) = line
            .split_once(':')
            .unwrap_or_else(|| panic!("a line of INFO: {line}"));
        let name = name.strip_prefix("crawlspace_").unwrap_or(name);
        let name = match name.rsplit_once('_') {
            Some((what, n)) if n.parse::<u8>().is_ok() => format!("{what}_<n>"),
            _ => name.to_owned(),
        };
        assert!(
            documented.contains(&format!("`{name}`")),
            "{name} is not documented"
        );
    }
}

#[test]
fn internal_command_is_refused_to_clients() {
    let server = Server::start();
    let mut c = server.wire();
    for words in [
        &["crawlspace.slice"][..],
        &["crawlspace.slice", "1"],
        &["crawlspace.slice", "a", "b"],
        &["EVAL", "return redis.call('crawlspace.slice')", "0"],
    ] {
        c.expect_error(words);
    }
    ok!(c, "PING");
}

/// A row of the table of settings in docs/commands/README.md.
struct Documented {
    name: String,
    default: String,
    /// Valid values, such as `1 to 1000`, or each value in backticks.
    values: String,
}

impl Documented {
    fn all() -> Vec<Documented> {
        let page = page("README");
        let (_, table) = page
            .split_once("| name | default | values |")
            .expect("a table");
        let rows = table.lines().skip(2).take_while(|row| row.starts_with('|'));
        let cells = rows.map(|row| row.split('|').map(|cell| cell.trim()).collect::<Vec<_>>());
        let documented = cells.map(|cells| Documented {
            name: cells[1].replace('`', ""),
            default: cells[2].replace('`', ""),
            values: cells[3].to_owned(),
        });
        documented.collect()
    }

    fn range(&self) -> Option<(i64, i64)> {
        let (least, most) = self.values.split_once(" to ")?;
        Some((least.parse().ok()?, most.parse().ok()?))
    }

    /// Returns a value that is not the default.
    fn other(&self) -> String {
        match self.range() {
            Some((_, most)) => most.to_string(),
            None => {
                let mut values = self.values.split(' ').map(|value| value.replace('`', ""));
                values
                    .find(|value| *value != self.default)
                    .expect("another value")
            }
        }
    }

    fn invalid(&self) -> Vec<String> {
        let (least, most) = self.range().unwrap_or((0, 0));
        vec![
            (least - 1).to_string(),
            (most + 1).to_string(),
            "x".to_owned(),
            String::new(),
        ]
    }
}

fn setting(c: &mut Wire, name: &str) -> String {
    ok!(c, "CONFIG", "GET", format!("crawlspace.{name}")).pairs()[0]
        .1
        .text()
}

#[test]
fn settings_are_read_and_set_and_documented() {
    let server = Options::new().plain().start();
    let mut c = server.wire();
    let there = ok!(c, "CONFIG", "GET", "crawlspace.*").pairs();
    let there: BTreeSet<String> = there.iter().map(|(name, _)| name.text()).collect();
    let documented = Documented::all();
    let known = documented
        .iter()
        .map(|row| format!("crawlspace.{}", row.name));
    assert_eq!(there, known.collect());
    for row in &documented {
        let (name, values, other) = (&row.name, &row.values, row.other());
        assert_eq!(setting(&mut c, name), row.default, "{name}");
        let full = format!("crawlspace.{name}");
        ok!(c, "CONFIG", "SET", full, other);
        assert_eq!(setting(&mut c, name), other);
        for value in row.invalid() {
            err!(c, "CONFIG", "SET", full, value);
        }
        // The error of the server must list the valid values.
        let refused = c.expect_error(&["CONFIG", "SET", &full, "-1"]);
        let said = match values.split_once(" to ") {
            Some((least, most)) => format!("must be between {least} and {most} inclusive"),
            None if *values == "`no` `yes`" => "must be 'yes' or 'no'".to_owned(),
            None => values.replace("` `", ", ").replace('`', ""),
        };
        assert!(
            refused.contains(&said),
            "{name}: {values} in the docs; {refused}"
        );
        assert_eq!(setting(&mut c, name), other);
    }
    assert_eq!(ok!(c, "DEDUPE.PROFILE", PREFIX).text(), "browsertrix");
}

#[test]
fn module_arguments_and_configuration_lines_are_settings() {
    let documented = Documented::all();
    let words: Vec<String> = documented
        .iter()
        .flat_map(|row| [row.name.clone(), row.other()])
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let lines: Vec<String> = documented
        .iter()
        .flat_map(|row| [format!("--crawlspace.{}", row.name), row.other()])
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    for options in [
        Options::new().packed().module_args(&words),
        Options::new().packed().args(&lines),
    ] {
        let server = options.start();
        let mut c = server.wire();
        for row in &documented {
            assert_eq!(setting(&mut c, &row.name), row.other(), "{}", row.name);
        }
    }
}
