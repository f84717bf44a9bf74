//! `make simulate`: a million fetches from a hundred thousand host groups in simulated time, with
//! workers that crash, stall and repeat requests. After the simulation, threads compete in real
//! time.
//!
//! ```text
//! SEED=7 cargo run --release -p redis-tests --bin simulate -- [--tenth]
//! ```

use std::process::ExitCode;
use std::time::{Duration, Instant};

use redis_tests::simulation::{Simulation, Size, race};
use redis_tests::{Rng, Server};

fn main() -> ExitCode {
    let size = if std::env::args().any(|arg| arg == "--tenth") {
        Size::tenth()
    } else {
        Size::full()
    };
    let mut rng = Rng::new("simulate");
    let (groups, uris) = (size.groups, size.uris);
    println!("{uris} URIs, {groups} groups, {} workers", size.workers);
    for size in [size, size.remembering()] {
        if size.remembers {
            println!("the same with a packed frontier that remembers its URLs");
        }
        let started = Instant::now();
        let server = Simulation::server(&size);
        let simulated = Simulation::new(&server, size, Rng::seeded(rng.bits())).run();
        match simulated {
            Ok(report) => println!("{report}"),
            Err(wrong) => return failed(&wrong),
        }
        println!("simulated in {:.0} s", started.elapsed().as_secs_f64());
    }
    let server = Server::start();
    match race(&server, 8, 20, Duration::from_secs(5), &mut rng) {
        Ok(race) => println!(
            "race of 8 threads: {} leases, {} of them expired, none overlapped",
            race.leases, race.crashed
        ),
        Err(wrong) => return failed(&wrong),
    }
    ExitCode::SUCCESS
}

fn failed(wrong: &str) -> ExitCode {
    eprintln!("a property was violated:\n{wrong}");
    ExitCode::FAILURE
}
