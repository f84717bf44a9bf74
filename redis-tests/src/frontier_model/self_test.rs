//! Hand-written histories that the model must accept, and wrong replies that it must reject.

use super::FrontierModel;
use crate::frontier::T0;
use crate::wire::{Reply, array, bulk, int, nil, simple};

const NEXT: &str = "NEXT LEASE 1000";

fn words(now: i64, line: &str) -> Vec<Vec<u8>> {
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let line = format!("CHG.{name} f: NOW {now} {rest}");
    line.split_whitespace()
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

#[track_caller]
fn accepts(model: &mut FrontierModel, now: i64, line: &str, reply: Reply) {
    let verdict = model.follow(&words(now, line), &reply);
    verdict.unwrap_or_else(|what| panic!("{what}: {line} {reply:?}"));
}

#[track_caller]
fn rejects(model: &FrontierModel, now: i64, line: &str, reply: Reply) {
    let verdict = model.clone().follow(&words(now, line), &reply);
    assert!(verdict.is_err(), "{line} {reply:?} was accepted");
}

/// Returns a lease of one second. If `crawl` is given, the lease has a URI of this crawl.
fn lease(chg: &str, token: i64, now: i64, (n, c): (i64, i64), uri: Option<&str>) -> Reply {
    let execution = uri.map_or(nil(), |_| bulk("crawl"));
    let uri = uri.map_or(nil(), bulk);
    let numbers = [token, now + 1000, n, c].map(int);
    let [token, deadline, n, c] = numbers;
    array([array([bulk(chg), token, deadline, n, c, execution, uri])])
}

fn counted(chg: &str, now: i64, n: i64) -> Reply {
    lease(chg, now * 1000, now, (n, 1), None)
}

fn error(line: &str) -> Reply {
    Reply::Error(line.as_bytes().to_vec())
}

fn model() -> FrontierModel {
    FrontierModel::new("f:", 3)
}

/// Creates two groups. The first group was added first.
fn two_groups() -> FrontierModel {
    let mut model = model();
    let before = T0 - 5;
    accepts(
        &mut model,
        T0,
        &format!("ADD crawl a {before}"),
        array([int(1)]),
    );
    accepts(&mut model, T0 + 1, "ADD crawl b 0", array([int(1)]));
    model
}

#[test]
fn leases_are_in_order_with_growing_tokens() {
    let mut model = two_groups();
    let now = T0 + 1;
    let token = now * 1000;
    let of_a = |token, deadline, n, c| lease("a", token, deadline - 1000, (n, c), None);
    rejects(&model, now, NEXT, nil());
    rejects(&model, now, NEXT, counted("b", now, now));
    rejects(&model, now, NEXT, of_a(T0 * 1000, now + 1000, T0, 1));
    rejects(&model, now, NEXT, of_a(token + 1, now + 1000, T0, 1));
    rejects(&model, now, NEXT, of_a(token, now + 999, T0, 1));
    rejects(&model, now, NEXT, of_a(token, now + 1000, now, 1));
    rejects(&model, now, NEXT, of_a(token, now + 1000, T0, 2));
    accepts(&mut model, now, NEXT, of_a(token, now + 1000, T0, 1));
    rejects(&model, now, NEXT, of_a(token + 1, now + 1000, T0, 1));
    rejects(&model, now, NEXT, counted("b", now, now));
    accepts(
        &mut model,
        now,
        NEXT,
        lease("b", token + 1, now, (now, 1), None),
    );
    accepts(&mut model, now, NEXT, nil());
}

#[test]
fn the_pause_outlives_the_last_uri() {
    let mut model = model();
    let token = T0 * 1000;
    accepts(&mut model, T0, "ADD crawl a 0", array([int(1)]));
    accepts(&mut model, T0, NEXT, counted("a", T0, T0));
    let again = format!("RELEASE a {token} DELAY 2000 DONE crawl");
    rejects(&model, T0 + 5, &again, int(T0 + 2000));
    accepts(&mut model, T0 + 5, &again, int(T0 + 2005));
    accepts(&mut model, T0 + 9, &again, int(T0 + 2005));
    rejects(&model, T0 + 9, &again, int(T0 + 2009));
    let stale = format!("RELEASE a {} DELAY 2000", token + 1);
    rejects(&model, T0 + 9, &stale, int(T0 + 2005));
    accepts(&mut model, T0 + 9, &stale, error("STALE token"));
    accepts(&mut model, T0 + 10, "ADD crawl a 0", array([int(1)]));
    accepts(&mut model, T0 + 2004, NEXT, nil());
    rejects(&model, T0 + 2004, NEXT, counted("a", T0 + 2004, T0 + 2005));
    rejects(&model, T0 + 2005, NEXT, nil());
    accepts(
        &mut model,
        T0 + 2005,
        NEXT,
        counted("a", T0 + 2005, T0 + 2005),
    );
    accepts(&mut model, T0 + 2005, &again, error("STALE token"));
}

#[test]
fn leases_that_ran_out_are_reported_once() {
    let mut model = two_groups();
    let (now, later) = (T0 + 1, T0 + 2001);
    accepts(&mut model, now, NEXT, counted("a", now, T0));
    accepts(&mut model, later, NEXT, counted("b", later, now));
    let report = |chg: &str, times| array([array([bulk(chg), nil(), nil(), int(times)])]);
    rejects(&model, later, "EXPIRED", array([]));
    rejects(&model, later, "EXPIRED", report("a", 2));
    rejects(&model, later, "EXPIRED", report("b", 1));
    accepts(&mut model, later, "EXPIRED", report("a", 1));
    accepts(&mut model, later, "EXPIRED", array([]));
    rejects(&model, later, NEXT, nil());
    let ready = lease("a", later * 1000 + 1, later, (now + 1000, 1), None);
    accepts(&mut model, later, NEXT, ready);
}

#[test]
fn the_shallowest_uri_that_is_due_is_leased() {
    let mut model = model();
    let later = T0 + 9;
    for (line, n) in [
        ("ADDURI crawl a 0 2 deep".to_owned(), 1),
        (format!("ADDURI crawl a {later} 0 later"), 2),
        ("ADDURI crawl a 0 1 shallow".to_owned(), 3),
        ("ADDURI crawl a 0 0 shallow".to_owned(), 3),
    ] {
        rejects(&model, T0, &line, array([int(n + 1)]));
        accepts(&mut model, T0, &line, array([int(n)]));
    }
    let of = |uri, now: i64, c| lease("a", now * 1000, now, (T0, c), Some(uri));
    for wrong in ["deep", "later", "unknown"] {
        rejects(&model, T0, NEXT, of(wrong, T0, 3));
    }
    accepts(&mut model, T0, NEXT, of("shallow", T0, 3));
    let release = |execution| format!("RELEASE a {} AT 0 DONE {execution}", T0 * 1000);
    accepts(&mut model, T0, &release("other"), error("ERR no"));
    rejects(&model, T0, &release("crawl"), error("ERR no"));
    accepts(&mut model, T0, &release("crawl"), int(T0));
    accepts(&mut model, later, NEXT, of("later", later, 2));
}

#[test]
fn executions_take_turns_by_their_weights() {
    let mut model = model();
    for n in 0..4 {
        accepts(
            &mut model,
            T0,
            &format!("ADDURI crawl WEIGHT 3 a 0 0 u{n}"),
            array([int(n + 1)]),
        );
    }
    accepts(&mut model, T0, "ADDURI other a 0 0 v0", array([int(5)]));
    let token = |nth| T0 * 1000 + nth;
    let of = |nth, uri: &str| lease("a", token(nth), T0, (T0, 5 - nth), Some(uri));
    let release = |nth, execution| format!("RELEASE a {} AT 0 DONE {execution}", token(nth));
    // At the third turn, both executions have the same next turn, so either may be next.
    for (nth, uri) in [(0, "u0"), (1, "u1")] {
        let other = array([
            bulk("a"),
            int(token(nth)),
            int(T0 + 1000),
            int(T0),
            int(5 - nth),
        ]);
        let mut other = other.items().to_vec();
        other.extend([bulk("other"), bulk("v0")]);
        rejects(&model, T0, NEXT, Reply::Array(vec![Reply::Array(other)]));
        accepts(&mut model, T0, NEXT, of(nth, uri));
        accepts(&mut model, T0, &release(nth, "crawl"), int(T0));
    }
    accepts(&mut model.clone(), T0, NEXT, of(2, "u2"));
    let numbers = [token(2), T0 + 1000, T0, 3].map(int).to_vec();
    let other = [vec![bulk("a")], numbers, vec![bulk("other"), bulk("v0")]].concat();
    accepts(
        &mut model,
        T0,
        NEXT,
        Reply::Array(vec![Reply::Array(other)]),
    );
    accepts(&mut model, T0, &release(2, "other"), int(T0));
    accepts(&mut model, T0, NEXT, of(3, "u2"));
}

#[test]
fn trouble_doubles_the_pause() {
    let mut model = model();
    accepts(&mut model, T0, "ADD crawl a 0", array([int(1)]));
    let mut now = T0;
    for (status, pause) in rows![
        503, 2000; 429, 4000; -1, 8000; 200, 300; 503, 2000;
    ] {
        accepts(&mut model, now, NEXT, counted("a", now, now));
        let token = now * 1000;
        let release = format!("RELEASE a {token} ELAPSED 200 FACTOR 1.5 STATUS {status}");
        rejects(&model, now, &release, int(now + pause + 1));
        accepts(&mut model, now, &release, int(now + pause));
        now += pause;
    }
}

#[test]
fn paused_and_blocked_groups_are_not_leased() {
    let mut model = two_groups();
    let now = T0 + 1;
    accepts(&mut model, now, "PAUSE a", simple("OK"));
    accepts(
        &mut model,
        now,
        &format!("BLOCK b UNTIL {}", T0 + 50),
        simple("OK"),
    );
    accepts(&mut model, now, "PAUSE nobody", error("NOCHG no"));
    rejects(&model, now, "PAUSE a", error("NOCHG no"));
    accepts(&mut model, now, NEXT, nil());
    rejects(&model, now, NEXT, counted("a", now, T0));
    rejects(&model, now, NEXT, counted("b", now, now));
    rejects(&model, T0 + 50, NEXT, nil());
    accepts(&mut model, now, "RESUME a", simple("OK"));
    rejects(&model, now, NEXT, nil());
    accepts(&mut model, now, NEXT, counted("a", now, T0));
}

#[test]
fn one_member_of_a_gate_is_leased_at_a_time() {
    let mut model = model();
    accepts(&mut model, T0, "GROUP gate a b", simple("OK"));
    accepts(&mut model, T0, "ADD crawl a 0 b 0", array([int(1), int(1)]));
    accepts(
        &mut model,
        T0,
        "NEXT LEASE 1000 COUNT 9",
        counted("a", T0, T0),
    );
    rejects(
        &model,
        T0,
        NEXT,
        lease("b", T0 * 1000 + 1, T0, (T0, 1), None),
    );
    let release = format!("RELEASE a {} DELAY 500", T0 * 1000);
    accepts(&mut model, T0 + 100, &release, int(T0 + 600));
    accepts(&mut model, T0 + 599, NEXT, nil());
    rejects(&model, T0 + 600, NEXT, counted("a", T0 + 600, T0 + 600));
    accepts(&mut model, T0 + 600, NEXT, counted("b", T0 + 600, T0 + 600));
}
