//! Checks that samples contain every command, token and argument, so that the tests of the matrix
//! cover all of them.

use std::collections::BTreeSet;

use redis_tests::matrix::{Kind, STAND_INS, families};
use redis_tests::{Server, ok};

#[test]
fn every_sample_succeeds_on_its_state_and_every_read_too() {
    for family in families() {
        let server = family.options().start();
        let mut c = server.wire();
        for line in family.samples.iter().chain(family.reads) {
            let state = family.refill(&mut c);
            let reply = c.call(&state.words(line));
            assert!(!reply.is_error(), "{} {line}: {reply:?}", family.title());
        }
    }
}

#[test]
fn every_command_token_and_argument_is_in_a_sample() {
    let mut faults = Vec::new();
    for family in families() {
        let server = family.options().start();
        let mut c = server.wire();
        let state = family.refill(&mut c);
        let grammars = family.grammars(&mut c);
        let mut seen: BTreeSet<(String, usize)> = BTreeSet::new();
        for line in family.samples {
            let command = family.command(line);
            let Some(grammar) = grammars.get(&command) else {
                faults.push(format!("there is no command {command}: {line}"));
                continue;
            };
            match grammar.read(&state.words(line)) {
                None => faults.push(format!("not as COMMAND DOCS has it: {command} {line}")),
                Some(slots) => {
                    seen.extend(slots.into_iter().map(|slot| (command.clone(), slot.id)))
                }
            }
        }
        for (line, _) in family.refused {
            let command = family.command(line);
            let slots = grammars[&command].read(&state.words(line));
            seen.extend(
                slots
                    .into_iter()
                    .flatten()
                    .map(|slot| (command.clone(), slot.id)),
            );
        }
        for grammar in grammars.values() {
            let words = grammar.flat().into_iter();
            for argument in words.filter(|a| !matches!(a.kind, Kind::OneOf | Kind::Block)) {
                if !seen.contains(&(grammar.name.clone(), argument.id)) {
                    let (name, token) = (&argument.name, &argument.token);
                    faults.push(format!("no sample has {} {name} {token:?}", grammar.name));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_command_of_the_module_is_of_a_family_or_its_own() {
    let server = Server::start();
    let mut c = server.wire();
    let listed = ok!(c, "COMMAND", "LIST", "FILTERBY", "MODULE", "crawlspace").texts();
    let internal =
        ["slice", "uris", "tags", "packed", "frontier"].map(|name| format!("crawlspace.{name}"));
    let mut known: Vec<String> = internal.to_vec();
    known.extend(STAND_INS.map(str::to_owned));
    for family in families()
        .iter()
        .filter(|family| family.storage != "packed")
    {
        let refused = family.refused.iter().map(|(line, _)| line);
        let lines = family.samples.iter().chain(refused);
        let lines = lines.map(|line| family.command(line));
        known.extend(lines.collect::<BTreeSet<_>>());
    }
    known.sort();
    let mut listed = listed;
    listed.sort();
    assert_eq!(listed, known);
}
