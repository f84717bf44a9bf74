//! Bad input of every kind, at every position of every sample, must cause an error that names the
//! problem, leave the data set unchanged, and do no harm to the server.

use std::collections::BTreeSet;

use redis_tests::matrix::{
    Family, Grammar, Kind, Slot, State, is_integer, malformed, split, with_limits,
};
use redis_tests::{Reply, Server, Wire, is_packed, ok, plainly, rows, simple};

for_every_family!(
    refused_lines_change_nothing,
    invalid_values_are_named_and_change_nothing,
    values_are_taken_up_to_their_limits,
    calls_that_break_the_grammar_are_refused,
    any_word_at_any_position_does_no_harm,
    keys_of_another_type_are_named_and_nothing_is_half_written,
    garbage_in_fields_does_no_harm,
    prefixes_with_format_specifiers_do_no_harm,
);

/// Words that are not integers.
const NO_NUMBERS: [&str; 11] = rows![
    ""; "x"; "1.5"; "1e3"; " 1"; "18446744073709551616"; "0x10"; "+1"; "5\0"; "soon"; "--1";
];

/// Words that are invalid for every argument.
const ODD: [&[u8]; 11] = rows![
    b""; b"\0"; b"%1000000d"; b"\x00\xff"; b"\xf0\x28\x8c\x28"; b"\xff\xfe"; b"%s%n"; b"{";
    b"http://e.com/ \x00\xff"; b"9223372036854775807"; b"18446744073709551616";
];

/// A server with the family's state, and the failures so far.
struct Trial<'a> {
    family: &'a Family,
    server: Server,
    c: Wire,
    state: State,
    before: String,
    /// The server's change counter after the last call.
    changes: i64,
    calls: usize,
    /// The commands that restore the data set.
    restore: Vec<Vec<Vec<u8>>>,
    faults: Vec<String>,
}

impl Trial<'_> {
    fn new(family: &Family) -> Trial<'_> {
        let server = family.options().start();
        let mut c = server.wire();
        let state = family.refill(&mut c);
        let mut trial = Trial {
            family,
            server,
            c,
            state,
            before: String::new(),
            changes: 0,
            calls: 0,
            restore: Vec::new(),
            faults: Vec::new(),
        };
        trial.keep();
        trial
    }

    /// Makes every call start with the current data set.
    fn keep(&mut self) {
        let keys = ok!(self.c, "KEYS", "*").items().to_vec();
        let about = keys.iter().flat_map(|key| {
            [&b"DUMP"[..], b"PEXPIRETIME"].map(|command| vec![command, key.bytes()])
        });
        let about = self.c.pipeline(about);
        let restores = keys.iter().zip(about.chunks(2)).map(|(key, about)| {
            let until = about[1].int().max(0).to_string();
            let words = [b"RESTORE", key.bytes(), until.as_bytes(), about[0].bytes()];
            [&words[..], &[b"ABSTTL"]]
                .concat()
                .into_iter()
                .map(<[u8]>::to_vec)
                .collect()
        });
        // Use a transaction, because a timer of the module might otherwise see only a part of the
        // keys.
        let [begin, flush, end] =
            [b"MULTI".as_slice(), b"FLUSHALL", b"EXEC"].map(|word| vec![word.to_vec()]);
        self.restore = [begin, flush]
            .into_iter()
            .chain(restores)
            .chain([end])
            .collect();
        // Restore the data set once before taking the digest: a restored index does not know when
        // it was written.
        self.put_back();
        self.before = digest(&mut self.c);
    }

    /// Adds a key of another type to the data set with this command.
    fn spoil(&mut self, command: &[&str]) {
        self.state = self.family.refill(&mut self.c);
        // Use a transaction, because the module creates some keys again immediately after they were
        // deleted.
        ok!(self.c, "MULTI");
        ok!(self.c, "DEL", command[1]);
        self.c.expect_ok(command);
        let done = ok!(self.c, "EXEC");
        assert!(!done.items()[1].is_error(), "{command:?}: {done:?}");
        self.before = digest(&mut self.c);
    }

    /// Restores the data set.
    fn put_back(&mut self) {
        let replies = self.c.pipeline(self.restore.clone());
        let done = replies.last().expect("EXEC replies").items();
        assert!(
            done.len() == self.restore.len() - 2 && done.iter().all(|reply| *reply == simple("OK")),
            "{replies:?}"
        );
    }

    /// Runs a call. If it returns an error, the error must be well-formed, and the call must not
    /// have changed any data. Restores the state.
    fn call(&mut self, words: &[Vec<u8>]) -> Reply {
        self.call_then(words, &mut Trial::put_back)
    }

    /// Computing the digest of all data takes a hundred times as long as most calls. Therefore the
    /// digest is compared only if the server counted a change, and at intervals, to detect changes
    /// that the server does not count.
    fn call_then(&mut self, words: &[Vec<u8>], put_back: &mut dyn FnMut(&mut Self)) -> Reply {
        let counted = COUNTED.map(|word| word.as_bytes().to_vec());
        let mut replies = self.c.pipeline([words.to_vec(), counted.to_vec()]);
        let changes = changes(&replies.remove(1));
        let reply = replies.remove(0);
        self.calls += 1;
        let is_due = changes != self.changes || self.calls.is_multiple_of(DIGESTED);
        let changed = is_due && digest(&mut self.c) != self.before;
        if let Reply::Error(line) = &reply {
            if let Some(why) = malformed(line) {
                self.fault(words, &reply, why);
            }
            let line = String::from_utf8_lossy(line).into_owned();
            if changed && !self.is_resumed(words, &line) {
                self.fault(words, &reply, "an error that changed the data set");
            }
        }
        if changed {
            put_back(self);
        }
        if is_due {
            self.changes = self::changes(&self.c.call(&COUNTED));
        }
        reply
    }

    /// Runs a call. A blocking call runs in a transaction, in which it cannot block.
    fn call_at_once(&mut self, words: &[Vec<u8>]) -> Reply {
        if !waits(words) {
            return self.call(words);
        }
        ok!(self.c, "MULTI");
        let queued = self.c.call(words);
        let reply = self.c.call(&["EXEC"]);
        let reply = if queued.is_error() {
            queued
        } else {
            reply.items()[0].clone()
        };
        let changed = digest(&mut self.c) != self.before;
        if changed && reply.is_error() {
            self.fault(words, &reply, "an error that changed the data set");
        }
        if changed {
            self.put_back();
        }
        reply
    }

    /// Returns true if a key of another type interrupted a call, and the call completes when it is
    /// sent again without that key.
    fn is_resumed(&mut self, words: &[Vec<u8>], error: &str) -> bool {
        let mut resumed = self
            .family
            .resumed
            .iter()
            .map(|line| self.state.words(line));
        let key = error
            .strip_prefix("WRONGTYPE key '")
            .and_then(|rest| rest.split_once('\''));
        let (true, Some((key, _))) = (resumed.any(|line| line == words), key) else {
            return false;
        };
        ok!(self.c, "DEL", key);
        self.c.expect_ok(words);
        true
    }

    fn fault(&mut self, words: &[Vec<u8>], reply: &Reply, why: &str) {
        self.faults
            .push(format!("{}: {why}: {reply:?}", shown(words)));
    }

    /// Returns each sample as arguments, with its grammar and the argument of each word.
    fn samples(&mut self) -> Vec<(Grammar, Vec<Vec<u8>>, Vec<Slot>)> {
        let grammars = self.family.grammars(&mut self.c);
        let samples = self.family.samples.iter().map(|line| {
            let grammar = &grammars[&self.family.command(line)];
            let words = self.state.words(line);
            let slots = grammar.read(&words).expect("a sample follows its grammar");
            (grammar.clone(), words, slots)
        });
        samples.collect()
    }

    fn end(mut self) {
        assert!(self.server.is_alive());
        assert_eq!(self.server.info_number("panics"), 0);
        if self.calls > 0 {
            assert_eq!(digest(&mut self.c), self.before, "after the last call");
        }
        let faults = &self.faults;
        assert!(
            faults.is_empty(),
            "{} faults\n{}",
            faults.len(),
            faults.join("\n")
        );
    }
}

/// Command whose reply has the server's change counter.
const COUNTED: [&str; 2] = ["INFO", "persistence"];

/// Number of calls without a counted change after which the data set is compared anyway.
const DIGESTED: usize = 64;

fn changes(info: &Reply) -> i64 {
    let info = info.text();
    let counted = info.split_once("rdb_changes_since_last_save:");
    let counted = counted.and_then(|(_, rest)| rest.lines().next());
    counted
        .expect("the server reports the number")
        .parse()
        .expect("a number")
}

fn digest(c: &mut Wire) -> String {
    ok!(c, "DEBUG", "DIGEST").text()
}

fn shown(words: &[Vec<u8>]) -> String {
    let words = words.iter().map(|word| {
        let start = word[..word.len().min(60)].escape_ascii();
        format!("'{start}'")
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns invalid values of an argument. For each value, the error must contain one of the words.
fn mutations(family: &Family, grammar: &Grammar, slot: &Slot) -> Vec<(Vec<u8>, Vec<String>)> {
    let texts = |words: &[&str]| {
        words
            .iter()
            .map(|w| (*w).to_owned())
            .collect::<Vec<String>>()
    };
    let of_family = family.invalid(&grammar.name, slot);
    let mut all: Vec<(Vec<u8>, Vec<String>)> = of_family
        .into_iter()
        .map(|(value, says)| (value, texts(&says)))
        .collect();
    let mut names = family.names(slot);
    names.extend(all.iter().flat_map(|(_, says)| says.clone()));
    match slot.kind {
        Kind::Integer => {
            // A wait that a host requests is clamped, regardless of the number of its digits.
            let is_cut = ["crawl-delay", "retry-after"].contains(&&*slot.name);
            let is_valid = |text: &str| is_cut && text.bytes().all(|b| b.is_ascii_digit());
            let bad = NO_NUMBERS
                .into_iter()
                .filter(|bad| bad.is_empty() || !is_valid(bad));
            all.extend(bad.map(|bad| (bad.as_bytes().to_vec(), names.clone())));
            // A cursor may use all 64 bits.
            if slot.name != "cursor" && !is_cut {
                all.push((b"9223372036854775808".to_vec(), names.clone()));
            }
        }
        Kind::Word => {
            names.extend(texts(&["NONSENSE", "BADHASH", "unexpected", "syntax"]));
            all.push((b"NONSENSE".to_vec(), names.clone()));
            names.push(String::new());
            let bad: [&[u8]; 2] = [b"", b"\0\r\n\xff"];
            all.extend(bad.map(|bad| (bad.to_vec(), names.clone())));
        }
        _ => {}
    }
    let unbounded = family.unbounded.split(' ').any(|name| name == slot.name);
    if !unbounded || slot.kind == Kind::Word {
        all.push((vec![b'x'; 10 << 20], names));
    }
    all
}

/// Returns true if a word has the kind of the slot, so that only its value can be invalid.
fn slot_takes(slot: &Slot, word: &[u8]) -> bool {
    match slot.kind {
        Kind::Word => false,
        Kind::Integer => is_integer(word),
        _ => true,
    }
}

fn refused_lines_change_nothing(family: &Family) {
    let mut trial = Trial::new(family);
    for (line, code) in family.refused {
        let words = trial.state.words(line);
        match trial.call(&words) {
            Reply::Error(line) if line.starts_with(format!("{code} ").as_bytes()) => {}
            reply => trial.fault(&words, &reply, &format!("not {code}")),
        }
    }
    trial.end();
}

fn invalid_values_are_named_and_change_nothing(family: &Family) {
    let mut trial = Trial::new(family);
    let mut seen = BTreeSet::new();
    for (grammar, good, slots) in trial.samples() {
        for (at, slot) in slots.iter().enumerate() {
            let is_new = seen.insert((grammar.name.clone(), slot.id, slot.kind == Kind::Word));
            for (bad, says) in mutations(family, &grammar, slot) {
                // Try a slow value only once per argument.
                if bad.len() > 1 << 20 && !is_new {
                    continue;
                }
                let mut words = good.clone();
                words[at + 1] = bad;
                match trial.call(&words) {
                    Reply::Error(line) => {
                        let lower = String::from_utf8_lossy(&line).to_lowercase();
                        let said = says.iter().any(|s| lower.contains(&s.to_lowercase()));
                        if !says.is_empty() && !said {
                            let why = format!("the error does not name {}: {says:?}", slot.name);
                            trial.fault(&words, &Reply::Error(line), &why);
                        }
                    }
                    reply => {
                        let misread = !slot_takes(slot, &words[at + 1]) && grammar.allows(&words);
                        if !misread {
                            let why = format!("no error for {}", slot.name);
                            trial.fault(&words, &reply, &why);
                        }
                    }
                }
            }
        }
    }
    trial.end();
}

fn values_are_taken_up_to_their_limits(family: &Family) {
    let mut trial = Trial::new(family);
    let mut accepted = BTreeSet::new();
    for (line, (_, good, slots)) in family.samples.iter().zip(trial.samples()) {
        for (at, slot) in slots.iter().enumerate() {
            let names = family.names(slot);
            for limit in family.limits(line, slot) {
                let [_, _, last, beyond, says] = limit;
                let says = with_limits(family.name, says);
                let (says, mut words) = (split(&says), good.clone());
                let says_all = |error: &str| says.iter().all(|word| error.contains(word));
                for value in split(last) {
                    words[at + 1] = trial.state.word(value);
                    match trial.call_at_once(&words) {
                        Reply::Error(error) if says_all(&String::from_utf8_lossy(&error)) => {
                            trial.fault(&words, &Reply::Error(error), "at the limit");
                        }
                        Reply::Error(_) => {}
                        _ => drop(accepted.insert((limit, value))),
                    }
                }
                for value in split(beyond) {
                    words[at + 1] = trial.state.word(value);
                    let reply = trial.call_at_once(&words);
                    let error = match &reply {
                        Reply::Error(line) => String::from_utf8_lossy(line).to_lowercase(),
                        _ => String::new(),
                    };
                    let named = names
                        .iter()
                        .any(|name| error.contains(&name.to_lowercase()));
                    if !named || !says.iter().all(|word| error.contains(&word.to_lowercase())) {
                        trial.fault(&words, &reply, &format!("{names:?}, {says:?}"));
                    }
                }
            }
        }
    }
    for limit in family.limits {
        for value in split(limit[2]) {
            if !accepted.contains(&(limit, value)) {
                let fault = format!("no call succeeds at the limit {value} of {limit:?}");
                trial.faults.push(fault);
            }
        }
    }
    trial.end();
}

fn calls_that_break_the_grammar_are_refused(family: &Family) {
    let mut trial = Trial::new(family);
    for (grammar, good, slots) in trial.samples() {
        let mut calls = vec![[&good[..], &[b"and more".to_vec()]].concat()];
        for at in 1..good.len() {
            let (before, after) = (&good[..at], &good[at + 1..]);
            calls.push(before.to_vec());
            calls.push([before, after].concat());
            calls.push([before, &good[at..=at], &good[at..]].concat());
            if slots[at - 1].kind == Kind::Word {
                let misspelt = [&good[at][..], b"S"].concat();
                calls.push([before, &[misspelt], after].concat());
                calls.push([before, &[good[at][1..].to_vec()], after].concat());
            }
        }
        for words in calls {
            let reply = trial.call(&words);
            if !reply.is_error() && !grammar.allows(&words) {
                trial.fault(
                    &words,
                    &reply,
                    "no error, although it violates COMMAND DOCS",
                );
            }
        }
    }
    trial.end();
}

fn any_word_at_any_position_does_no_harm(family: &Family) {
    let mut trial = Trial::new(family);
    let mut odd: BTreeSet<Vec<u8>> = ODD.iter().map(|word| word.to_vec()).collect();
    odd.extend(
        split(family.words)
            .iter()
            .map(|word| trial.state.word(word)),
    );
    odd.extend([(0..=255).collect(), vec![b'x'; 70_000]]);
    let mut seen = BTreeSet::new();
    for (grammar, good, slots) in trial.samples() {
        for at in 1..=good.len() {
            // Every sample contains the time, so try it only once per command.
            let is_time = slots.get(at - 1).is_some_and(|slot| slot.name == "now");
            if is_time && !seen.insert((grammar.name.clone(), slots[at - 1].kind == Kind::Word)) {
                continue;
            }
            for word in &odd {
                let is_token = grammar
                    .tokens()
                    .iter()
                    .any(|token| token.as_bytes() == word);
                let between = is_token || ODD.contains(&&word[..]);
                // Replace a word. If the value may change how other words are parsed, also insert
                // it between words.
                let ends = [Some(at + 1), between.then_some(at)];
                for end in ends.into_iter().flatten().filter(|end| *end <= good.len()) {
                    let words = [&good[..at], std::slice::from_ref(word), &good[end..]].concat();
                    if !waits(&words) {
                        trial.call(&words);
                    }
                }
            }
        }
    }
    trial.end();
}

/// Returns true if a call may wait longer than the one millisecond of a sample.
fn waits(words: &[Vec<u8>]) -> bool {
    let blocks = words
        .windows(2)
        .filter(|pair| pair[0].eq_ignore_ascii_case(b"BLOCK"));
    let now = words.get(2).is_some_and(|word| word == b"NOW");
    let is_long = |word: &[u8]| word != b"1" && word.iter().all(u8::is_ascii_digit);
    !now && blocks.into_iter().any(|pair| is_long(&pair[1]))
}

fn keys_of_another_type_are_named_and_nothing_is_half_written(family: &Family) {
    let mut trial = Trial::new(family);
    let mut named = BTreeSet::new();
    for key in split(family.keys) {
        let key = format!("{}{key}", trial.state.prefix);
        for wrong in rows![
            &["SET", &key, "x"][..]; &["RPUSH", &key, "x"]; &["HSET", &key, "f", "v"]; &["SADD", &key, "x"];
        ] {
            trial.spoil(wrong);
            for line in family.samples {
                let words = trial.state.words(line);
                let reply = trial.call_then(&words, &mut |trial| trial.spoil(wrong));
                let Reply::Error(line) = &reply else { continue };
                let line = String::from_utf8_lossy(line);
                // A plain key in the position of a marker causes the error `MIXED`.
                if line.starts_with("WRONGTYPE ") || line.starts_with("MIXED ") {
                    if line.contains(&key) {
                        named.insert(key.clone());
                    } else {
                        trial.fault(&words, &reply, &format!("{wrong:?}: not named"));
                    }
                }
            }
        }
        if !named.contains(&key) {
            trial
                .faults
                .push(format!("no command names {key} when it has a wrong type"));
        }
    }
    trial.end();
}

fn garbage_in_fields_does_no_harm(family: &Family) {
    let garbage: [&[u8]; 9] = rows![
        b""; b"x"; b"-1"; b"-1 -2 -3"; b"-9223372036854775808"; b"99999999999999999999"; b"\xff\0 \r\n";
        b"1 2 3 4 5 6 7 8"; b"1e308";
    ];
    let mut trial = Trial::new(family);
    let prefix = trial.state.prefix.clone();
    let mut fields: BTreeSet<(String, Vec<u8>)> = BTreeSet::new();
    for key in ok!(trial.c, "KEYS", "*").texts() {
        if ok!(trial.c, "TYPE", key).text() == "hash" {
            let names = ok!(trial.c, "HKEYS", key);
            let names = names.items().iter();
            fields.extend(names.map(|name| (key.clone(), name.bytes().to_vec())));
        }
    }
    let more = family.fields.iter();
    fields.extend(more.map(|(key, field)| (format!("{prefix}{key}"), trial.state.word(field))));
    for (key, field) in fields {
        for value in garbage {
            trial.put_back();
            let kind = ok!(trial.c, "TYPE", key).text();
            let spoil = |c: &mut Wire| drop(ok!(c, "HSET", key, field, value));
            if kind == "hash" || kind == "none" && !is_packed_part(family, &mut trial.c, &key) {
                spoil(&mut trial.c);
            } else {
                plainly(&mut trial.c, &prefix, spoil);
            }
            for line in family.samples {
                let words = trial.state.words(line);
                let reply = trial.c.call(&words);
                if let Reply::Error(line) = &reply {
                    let why = malformed(line).into_iter();
                    why.for_each(|why| trial.fault(&words, &reply, why));
                }
            }
            let panics = trial.server.info_number("panics");
            let what = format!("{key} {} = {}", field.escape_ascii(), value.escape_ascii());
            assert_eq!(panics, 0, "a panic: {what}");
        }
    }
    let state = family.refill(&mut trial.c);
    (family.assert_consistent)(&mut trial.c, &state);
    trial.end();
}

/// Returns true if a documented key is a part of a packed index.
fn is_packed_part(family: &Family, c: &mut Wire, key: &str) -> bool {
    let merged = ["allhashes", "holders"]
        .iter()
        .any(|name| key.ends_with(name));
    family.name == "DEDUPE" && merged && is_packed(c, redis_tests::matrix::PREFIX)
}

fn prefixes_with_format_specifiers_do_no_harm(family: &Family) {
    let mut trial = Trial::new(family);
    for prefix in ["%s%s%s%n%n", "%1000000d", "\u{0}%n", "\r\n{*} [a]?\\"] {
        for line in family.samples {
            ok!(trial.c, "FLUSHALL");
            let state = family.fill(&mut trial.c, prefix);
            let reply = trial.c.call(&state.words(line));
            assert!(
                !reply.is_error(),
                "{} {line}: {reply:?}",
                prefix.escape_debug()
            );
        }
    }
    trial.end();
}
