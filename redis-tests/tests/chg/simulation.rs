//! Crawls with workers that crash, stall and repeat requests: no two leases of a group overlap, no
//! pause is too short, and no URI is lost. (`make simulate` runs a million fetches.)

use std::time::Duration;

use redis_tests::simulation::{Simulation, Size, race};
use redis_tests::{Rng, Server};

#[test]
fn a_crawl_with_crashing_stalling_and_duplicate_workers_keeps_every_promise() {
    let size = Size {
        uris: 50_000,
        ..Size::tenth()
    };
    crawl(size, Rng::new("chg_simulation"));
}

#[test]
fn a_crawl_that_remembers_its_urls_fetches_each_once_per_freshness() {
    let size = Size {
        uris: 30_000,
        ..Size::tenth().remembering()
    };
    crawl(size, Rng::new("chg_simulation_known"));
}

fn crawl(size: Size, rng: Rng) {
    let server = Simulation::server(&size);
    match Simulation::new(&server, size, rng).run() {
        Ok(report) => eprintln!("{report}"),
        Err(wrong) => panic!("{wrong}"),
    }
}

#[test]
fn threads_that_race_for_leases_never_hold_a_group_together() {
    let server = Server::start();
    let mut rng = Rng::new("chg_race");
    match race(&server, 8, 20, Duration::from_secs(2), &mut rng) {
        Ok(race) => assert!(race.leases > 500 && race.crashed > 0, "{race:?}"),
        Err(wrong) => panic!("{wrong}"),
    }
}
