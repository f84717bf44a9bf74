//! `PACK` and `UNPACK` of an index under the load of other clients.

use std::time::Instant;

use redis_tests::{Server, ok};

use super::commit::requests;
use super::corpus::{Corpus, Crawl};
use super::scene::{Footprint, add, reset, start_plain_storage};
use crate::Plan;
use crate::others::{Long, MEANWHILE, RATE};
use crate::report::{Findings, Goal, note, say, table};
use crate::series::{grouped, time};
use crate::slices::start_anew;
use crate::targets;

/// Measures both directions on the corpus.
pub fn measure(plan: &Plan, corpus: &Corpus) -> Findings {
    say("PACK: filling");
    let size = plan.scaled(1_000_000);
    let crawls = corpus.crawls(size, 10, 5);
    let mut server = start_plain_storage();
    add(&server, corpus, &crawls, crawls.len());
    ok!(server.wire(), "SAVE");
    let before = digests(&server, &crawls);
    let mut both = [("PACK", Long::default()), ("UNPACK", Long::default())];
    let mut used = [0.0; 3];
    for rep in plan.repeat("PACK and UNPACK") {
        reset(&mut server);
        used[0] = Footprint::of(&server).used;
        for (n, (command, figures)) in both.iter_mut().enumerate() {
            figures.alone(&server, |server| change(server, command, size));
            used[n + 1] = Footprint::of(&server).used;
            if n == 0 {
                start_anew(&mut server);
            }
        }
        let after = digests(&server, &crawls);
        assert_eq!(
            before, after,
            "UNPACK gives the plain keys back as they were"
        );
        say(&format!("PACK and UNPACK under load ({rep}/{})", plan.reps));
        for (command, figures) in &mut both {
            start_anew(&mut server);
            let asking = requests(corpus, size, &server);
            figures.loaded(&server, asking, |server| change(server, command, size));
        }
        ok!(server.wire(), "SAVE");
    }
    findings(size, &both, used)
}

/// Runs the command and returns its duration in seconds.
fn change(server: &Server, command: &str, hashes: u64) -> f64 {
    let (mut wire, name) = (server.wire(), format!("DEDUPE.{command}"));
    let start = Instant::now();
    let reply = ok!(wire, name, "");
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(
        reply.field("hashes").int(),
        hashes as i64,
        "all hashes were moved"
    );
    seconds
}

/// Returns digests of the merged index, of its further holders, and of every crawl's records.
fn digests(server: &Server, crawls: &[Crawl]) -> Vec<String> {
    let mut keys = vec!["allhashes".to_owned(), "holders".into()];
    keys.extend(crawls.iter().map(|crawl| format!("h:{}", crawl.id)));
    let mut wire = server.wire();
    let digest = |key| ok!(wire, "DEBUG", "DIGEST-VALUE", key).items()[0].text();
    keys.into_iter().map(digest).collect()
}

fn findings(size: u64, both: &[(&str, Long); 2], used: [f64; 3]) -> Findings {
    let mut found = Findings::default();
    let hashes = grouped(size);
    for (command, figures) in both {
        let (alone, loaded) = (&figures.alone, &figures.loaded);
        table! { found;
            "", format!("`{command}` of {hashes} hashes, no other clients"), "–", alone.shown(time), "",
                alone, Goal::Told("s");
            "", format!("`{command}`, other clients send {RATE} requests per second"), "–", loaded.seconds.shown(time), "",
                &loaded.seconds, Goal::Told("s");
            "", format!("longest slice of `{command}`"), "–", figures.slice(), "",
                &figures.slices, targets::PACKING_SLICE;
            "", MEANWHILE.replace(':', &format!(", `{command}`:")), "–", loaded.during(), "",
                loaded.above_idle(), targets::PACKING_OTHERS;
        }
    }
    let [pack, unpack] = [0, 1].map(|n| &both[n].1);
    let each = |figures: &Long| 1e6 * figures.alone.median() / size as f64;
    let [before, packed, after] = used.map(|bytes| bytes / 1e6);
    note!(found, "packing.md";
        size = hashes, pack = each(pack), unpack = each(unpack), before = before, packed = packed, after = after,
        idle = pack.loaded.idle(), during_pack = pack.loaded.during(), during_unpack = unpack.loaded.during());
    found
}
