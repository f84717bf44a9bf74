//! D10: the longest slice of each job.

use std::time::Instant;

use redis_tests::{Server, ok};

use crate::report::{Findings, table};
use crate::series::{Series, time};
use crate::targets;
use crate::told::slice_longest;

/// Restarts the server with its data, which resets the metric of the longest slice.
pub fn start_anew(server: &mut Server) {
    ok!(server.wire(), "SAVE");
    server.restart();
}

/// Measurements of jobs, in the order of the first runs of the jobs.
#[derive(Default)]
pub struct Slices(Vec<Job>);

struct Job {
    what: String,
    /// Seconds from the request to the reply.
    seconds: Series,
    /// Milliseconds of the longest slice.
    longest: Series,
}

impl Slices {
    /// Restarts the server, so that its longest slice belongs to this job, and runs the job.
    pub fn run(&mut self, server: &mut Server, what: &str, command: &str) {
        start_anew(server);
        let mut wire = server.wire();
        let start = Instant::now();
        wire.ok_line(command);
        let seconds = start.elapsed().as_secs_f64();
        let number = self.0.iter().position(|job| job.what == what);
        let number = number.unwrap_or_else(|| {
            self.0.push(Job {
                what: what.to_owned(),
                seconds: Series::default(),
                longest: Series::default(),
            });
            self.0.len() - 1
        });
        let job = &mut self.0[number];
        job.seconds.push(seconds);
        job.longest.push(slice_longest(server));
    }

    /// Adds a row for each job.
    pub fn rows(self, found: &mut Findings) {
        for job in self.0 {
            let ours = format!(
                "{:.2} ms, {} in total",
                job.longest.high(),
                job.seconds.shown(time)
            );
            table! { found;
                "D10", format!("longest slice of {}", job.what), "–", ours, "", job.longest, targets::SLICE;
            }
        }
    }
}
