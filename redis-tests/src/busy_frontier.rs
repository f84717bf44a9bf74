//! A frontier with one group in every possible state, and random commands for such a frontier.

use crate::frontier::{Frontier, Lease, release};
use crate::rng::Rng;

/// The leases of a frontier with a group in every state.
pub struct BusyFrontier {
    /// The lease of `held`, for five minutes.
    pub held: Lease,
    /// The lease of `kept`, with the URI that the frontier stores.
    pub kept: Lease,
    /// The released lease of `idle`, and the earliest time at which the group is due again.
    pub released: (Lease, i64),
    /// One of the two leases of `parallel`.
    pub parallel: Lease,
}

impl BusyFrontier {
    /// The groups of the frontier.
    pub const GROUPS: [&str; 13] = rows![
        "waiting"; "later"; "ready"; "held"; "idle"; "kept"; "blocked"; "paused"; "of-a-paused-crawl";
        "member1"; "member2"; "parallel"; "numbered";
    ];

    /// Builds the groups in an empty frontier at a simulated time, and advances the time by a few
    /// milliseconds.
    pub fn build(f: &mut Frontier) -> BusyFrontier {
        let t = f.time();
        let minute = 60_000;
        f.add("crawl", "held", t);
        f.add("crawl", "held", t);
        let held = Lease::only(&f.ok("NEXT LEASE 300000"));

        f.add("crawl", "idle", t);
        let idle = f.take("idle");
        let gate = f.release(&idle, format!("AT {} DONE crawl", t + 2 * minute));

        f.ok(format!("ADDURI crawl kept {t} 0 http://kept/1"));
        f.ok(format!("ADDURI other WEIGHT 3 kept {t} 1 http://kept/2"));
        f.ok(format!(
            "ADDURI crawl later {} 2 http://later/1",
            t + minute
        ));
        let kept = f.take("kept");

        f.ok("GROUP shared member1 member2");
        f.add("crawl", "member1", t);
        f.take("member1");
        f.add("crawl", "member2", t);
        f.take_none();

        f.ok("LIMIT parallel PARALLEL 2 GAP 500 BUDGET 9");
        f.ok(format!("ADD crawl parallel {t} parallel {t} parallel {t}"));
        let parallel = f.take("parallel");

        f.add("crawl", "blocked", t);
        f.ok(format!("BLOCK blocked UNTIL {}", t + 3 * minute));
        f.add("crawl", "paused", t);
        f.ok("PAUSE paused");
        f.add("held-back", "of-a-paused-crawl", t);
        f.ok("PAUSE EXECUTION held-back");

        f.ok(format!("ADD crawl SEQ writer 3 numbered {}", t + minute));
        f.add("crawl", "waiting", t + minute);

        f.add("crawl", "ready", t);
        f.ok("NEXT LEASE 2");
        f.pass(2);
        f.ok("SWEEP");
        BusyFrontier {
            held,
            kept,
            released: (idle, gate),
            parallel,
        }
    }
}

/// Runs a random command on a small frontier. `held` contains the leases that are not released.
/// Returns the command and its outcome, for failure messages.
pub fn random_step(f: &mut Frontier, rng: &mut Rng, held: &mut Vec<Lease>) -> String {
    let now = f.time();
    let chg = format!("host-{}", rng.below(6));
    let other = format!("host-{}", rng.below(6));
    let execution = format!("crawl-{}", rng.below(3));
    let at = now + rng.below(400) as i64 - 100;
    let line = match rng.below(100) {
        0..=24 => format!("ADD {execution} {chg} {at} {other} {at}"),
        25..=34 => format!(
            "ADDURI {execution} WEIGHT {} {chg} {at} {} http://{chg}/{}",
            1 + rng.below(4),
            rng.below(3),
            rng.below(30)
        ),
        35..=54 => format!(
            "NEXT LEASE {} COUNT {}",
            1 + rng.below(300),
            1 + rng.below(3)
        ),
        55..=79 if !held.is_empty() => {
            let lease = held.swap_remove(rng.below(held.len() as u64) as usize);
            let of = lease.execution.clone().unwrap_or(execution);
            let what = match rng.below(4) {
                0 => format!("AT {at}"),
                1 => format!("DELAY {} RETRY {at}", rng.below(200)),
                2 => format!("DELAY {} DONE {of}", rng.below(200)),
                _ => format!("ELAPSED {} MAX 500 STATUS 200 DONE {of}", rng.below(200)),
            };
            release(&lease, what)
        }
        80..=81 => format!("DROP {execution}"),
        82 => format!("DROP GROUP {chg}"),
        83..=85 => format!("MOVE {chg} {other}"),
        86..=87 => format!("BLOCK {chg} UNTIL {at}"),
        88 => format!("{} {chg}", rng.pick(&["PAUSE", "RESUME"])),
        89 => format!("{} EXECUTION {execution}", rng.pick(&["PAUSE", "RESUME"])),
        90..=91 => format!("LIMIT {chg} PARALLEL {}", 1 + rng.below(3)),
        92 => format!("GROUP shared {chg} {other}"),
        93 => format!("SWEEP LIMIT {}", 1 + rng.below(9)),
        94 => "EXPIRED".to_owned(),
        95 => "REPAIR".to_owned(),
        _ => {
            // The server's own clock advances independently of the test.
            if f.now.is_some() {
                f.pass(rng.below(500) as i64);
            }
            return "time passes".to_owned();
        }
    };
    let reply = f.call(&line);
    if line.starts_with("NEXT") && !reply.is_error() {
        held.extend(Lease::all(&reply));
    }
    format!("{line} -> {reply:?}")
}
