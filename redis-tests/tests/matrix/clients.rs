//! Clients of the `redis` crate, which supports both protocols, get typed replies, and errors with
//! a code word.

use std::collections::HashMap;

use redis::Value;
use redis_tests::matrix::{Family, State, family};
use redis_tests::{error_line, run, sha256_of};

/// Runs a line with each protocol on a new state, and returns the replies converted to the caller's
/// type.
fn replies<T: redis::FromRedisValue>(family: &Family, line: &str) -> Vec<Result<T, String>> {
    let server = family.options().start();
    let conns = [server.conn(), server.conn3()];
    let replies = conns.into_iter().map(|mut conn| {
        let state = family.refill(&mut server.wire());
        reply(&mut conn, &state, line)
    });
    replies.collect()
}

fn reply<T: redis::FromRedisValue>(
    conn: &mut redis::Connection,
    state: &State,
    line: &str,
) -> Result<T, String> {
    let value = run(conn, &state.words(line)).map_err(|error| error_line(&error))?;
    redis::from_redis_value(value).map_err(|error| error.to_string())
}

fn assert_replies<T>(family: &Family, line: &str, expected: T)
where
    T: redis::FromRedisValue + PartialEq + std::fmt::Debug,
{
    for reply in replies::<T>(family, line) {
        assert_eq!(reply.as_ref(), Ok(&expected), "{line}");
    }
}

fn assert_field(family: &Family, line: &str, field: &str, expected: Value) {
    for map in replies::<HashMap<String, Value>>(family, line) {
        assert_eq!(map.expect("a map")[field], expected, "{line}");
    }
}

fn assert_error(family: &Family, line: &str, code: &str) {
    for reply in replies::<Value>(family, line) {
        let error = reply.expect_err("an error");
        assert!(error.starts_with(code), "{line}: {error}");
    }
}

#[test]
fn records_figures_and_errors_of_an_index() {
    for storage in ["plain", "packed"] {
        let dedupe = family("DEDUPE", storage);
        let found = replies::<Vec<(String, i64, String, String, i64)>>(&dedupe, "LOOKUP <h1>");
        for found in found {
            let found = &found.expect("records")[0];
            assert_eq!((found.0.as_str(), found.4), ("a", 1001), "{}", sha256_of(1));
        }
        assert_field(&dedupe, "STATS b", "hashes", Value::Int(6));
        assert_error(&dedupe, "COMMIT nobody", "NOCRAWL ");
    }
}

#[test]
fn counts_states_and_errors_of_a_frontier() {
    let chg = family("CHG", "");
    assert_field(&chg, "WHY waiting", "count", Value::Int(1));
    assert_replies(&chg, "ADD crawl SEQ writer 9 another 0", vec![1]);
    assert_error(&chg, "WHY nobody", "NOCHG ");
}

#[test]
fn tags_pages_figures_and_errors_of_a_tag_space() {
    let tags = family("TAGS", "");
    for info in replies::<HashMap<String, i64>>(&tags, "INFO") {
        assert_eq!(info.expect("a map of integers")["file-edges"], 1);
    }
    let of_file = |names: &[&str]| {
        (
            0i64,
            names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>(),
        )
    };
    let line = "FILTER FORMAT FILE RETURN TAGS LINES f";
    assert_replies(&tags, line, vec![of_file(&["of-file", "org:1", "x:f"])]);
    assert_replies(&tags, "SCAN FILE 0", of_file(&["f", "of-file"]));
    assert_error(&tags, "FILTER POINT nobody LINES f", "NOPOINT ");
}
