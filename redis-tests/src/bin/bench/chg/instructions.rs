//! C0: number of instructions that the server executes for each step of a frontier, in both
//! storages.

use redis_tests::Options;

use super::commands::Lease;
use super::hosts::Hosts;
use super::{packed_options, queued};
use crate::Plan;
use crate::callgrind::{Callgrind, requests, shown};
use crate::load::{Client, Feeder};
use crate::report::{Findings, Goal, note, say, table};
use crate::series::grouped;
use crate::targets;

/// Number of groups in the frontier before the first measured step.
const GROUPS: u64 = 3_000;
/// Number of stored URIs of each of these groups.
const URIS: u64 = 4;

/// Measured steps, in the order in which they run, with the targets on a packed frontier.
const STEPS: [(&str, Goal); 5] = [
    ("`ADDURI`, new group", Goal::Told("instructions")),
    ("`ADDURI`, new URI", targets::NEW_INSTRUCTIONS),
    ("`ADDURI`, known URI", targets::KNOWN_INSTRUCTIONS),
    ("`NEXT`", targets::NEXT_INSTRUCTIONS),
    ("`RELEASE … DONE … NEXT`", targets::PAGE_INSTRUCTIONS),
];

/// Measures all steps in both storages.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    let count = |storage: &str, options: Options| {
        say(&format!("C0: instructions, {storage}"));
        count(&Callgrind::start(plan, options), hosts)
    };
    let (_, plain) = count("plain keys", redis_tests::simulated());
    let (ping, packed) = count("packed", packed_options());
    let logged = packed_options().aof_unsynced(true);
    let (_, logged) = count("packed, with an append-only file", logged);
    let mut found = Findings::default();
    for (((what, goal), packed), plain) in STEPS.into_iter().zip(packed).zip(plain) {
        table! { found;
            "C0", format!("instructions of {what}, packed"), "plain keys",
                shown(packed), shown(plain), packed.round(), goal;
        }
    }
    let [.., bare] = packed;
    let [.., logged] = logged;
    table! { found;
        "C0", "instructions of `RELEASE … DONE … NEXT` with an append-only file, packed", "without the file",
            shown(logged), shown(bare), 100.0 * (logged / bare - 1.0), Goal::Told("%");
    }
    note!(found, "instructions.md";
        requests = grouped(requests(plan)), groups = grouped(GROUPS), uris = URIS, ping = shown(ping));
    found
}

/// Returns the instructions of `PING` and of each step.
fn count(callgrind: &Callgrind, hosts: &Hosts) -> (f64, [f64; STEPS.len()]) {
    let mut client = Client::unix(&callgrind.server);
    let (execution, _) = hosts.execution(0);
    let add = |client: &mut Client, chg: u64, i: u64| {
        let tuple = hosts.tuple(chg, i).join(" ");
        let reply = client.line(&format!("CHG.ADDURI '' {execution} {tuple}"));
        reply.ints[0]
    };
    let mut feeder = Feeder::new(&callgrind.server);
    for chg in 0..GROUPS {
        let tuples: Vec<[String; 4]> = (0..URIS).map(|i| hosts.tuple(chg, i)).collect();
        feeder.request_with(&format!("CHG.ADDURI '' {execution}"), tuples.as_flattened());
    }
    feeder.finish();
    assert_eq!(queued(&callgrind.server), GROUPS * URIS, "every URI is new");
    let ping = callgrind.ping();
    let requests = callgrind.requests;
    let mut add_all = |first: u64, i: u64, counts: i64| {
        callgrind.each(requests, |n| {
            assert_eq!(add(&mut client, first + n, i), counts);
        })
    };
    let group = add_all(GROUPS, 0, 1);
    let new = add_all(0, URIS, URIS as i64 + 1);
    // In both cases, the reply is the number of URIs of the group.
    let known = add_all(0, URIS, URIS as i64 + 1);
    let mut lease = Lease::default();
    let next = callgrind.each(requests / 2, |_| {
        lease = Lease::of(client.line("CHG.NEXT ''"), 0).expect("a group is due");
    });
    let page = callgrind.each(requests, |_| {
        let Lease { chg, token, .. } = &lease;
        let reply = client.line(&format!(
            "CHG.RELEASE '' {chg} {token} ELAPSED 200 FACTOR 5 MIN 60000 MAX 90000 DONE {execution} NEXT"
        ));
        lease = Lease::of(reply, 1).expect("a group is due");
    });
    (ping, [group, new, known, next, page])
}
