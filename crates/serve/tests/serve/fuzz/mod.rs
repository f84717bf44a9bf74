//! Fuzz tests: no input causes a panic, a hang or unbounded memory. `make fuzz` runs them for longer.

mod samples;
mod sources;
mod whole;

use std::path::Path;

use redis_tests::fuzz::Fuzz;

/// Runs in its own process, since panics, memory and CPU time are measured for the whole process.
#[test]
fn no_input_does_harm() {
    redis_tests::alone("fuzz::no_input_does_harm", || {
        let mut fuzz = Fuzz::new(Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("fuzz"));
        let samples = samples::Samples::new();
        sources::lines(&mut fuzz, &samples);
        sources::indexes(&mut fuzz, &samples);
        sources::clusters(&mut fuzz, &samples);
        sources::time_maps(&mut fuzz);
        sources::http_answers(&mut fuzz, &samples);
        sources::configurations(&mut fuzz);
        sources::queries(&mut fuzz);
        whole::records(&mut fuzz, &samples);
        whole::requests(&mut fuzz);
        whole::live(&mut fuzz);
        fuzz.finish();
    });
}
