//! Histories written by hand, which the model must accept, and wrong replies, which it must not.

use redis_tests::{Reply, T0, array, bulk, int, nil, simple};

use crate::model::command::{Command, Facts, Item, Release, Token, When, Whom};
use crate::model::frontier_model::{Model, Verdict};

/// What was wrong with a reply.
fn follow(model: &mut Model, now: i64, command: &Command, reply: &Reply) -> Verdict {
    let step = model.grants.len();
    model.follow(step, now, command, reply)
}

#[track_caller]
fn accepts(model: &mut Model, now: i64, command: &Command, reply: Reply) {
    let verdict = follow(model, now, command, &reply);
    verdict.unwrap_or_else(|what| panic!("{what}: {command:?} {reply:?}"));
}

#[track_caller]
fn rejects(model: &Model, now: i64, command: &Command, reply: Reply) {
    let verdict = follow(&mut model.clone(), now, command, &reply);
    assert!(verdict.is_err(), "{command:?} {reply:?} was accepted");
}

fn add(chg: &str, at: i64) -> Command {
    let item = Item {
        chg: chg.to_owned(),
        at,
        uri: None,
    };
    Command::Add {
        execution: "crawl".to_owned(),
        seq: None,
        items: vec![item],
    }
}

fn add_uri(execution: &str, chg: &str, at: i64, depth: u32, uri: &str) -> Command {
    let item = Item {
        chg: chg.to_owned(),
        at,
        uri: Some((depth, uri.to_owned())),
    };
    Command::AddUri {
        execution: execution.to_owned(),
        weight: None,
        items: vec![item],
    }
}

const NEXT: Command = Command::Next {
    lease: Some(1000),
    count: None,
};

fn release(chg: &str, token: i64, when: When) -> Release {
    Release {
        chg: chg.to_owned(),
        token: Token::Number(token),
        when,
        done: Some(("crawl".to_owned(), None)),
        retry: None,
        next: None,
    }
}

fn lease(chg: &str, token: i64, deadline: i64, n: i64, c: i64) -> Reply {
    array([
        bulk(chg),
        int(token),
        int(deadline),
        int(n),
        int(c),
        nil(),
        nil(),
    ])
}

fn lease_of_uri(chg: &str, now: i64, c: i64, execution: &str, uri: &str) -> Reply {
    let (token, deadline) = (int(now * 1000), int(now + 1000));
    let uri = [bulk(execution), bulk(uri)];
    let [execution, uri] = uri;
    array([bulk(chg), token, deadline, int(T0), int(c), execution, uri])
}

fn error(line: &str) -> Reply {
    Reply::Error(line.as_bytes().to_vec())
}

const TOKEN: i64 = T0 * 1000;

/// Two groups, of which the first was added first.
fn two_groups() -> Model {
    let mut model = Model::new(3);
    accepts(&mut model, T0, &add("a", T0 - 5), array([int(1)]));
    accepts(&mut model, T0 + 1, &add("b", 0), array([int(1)]));
    model
}

#[test]
fn model_leases_in_order_with_growing_tokens() {
    let mut model = two_groups();
    let granted = |chg, token, deadline, n, c| array([lease(chg, token, deadline, n, c)]);
    let now = T0 + 1;
    let token = now * 1000;
    rejects(&model, now, &NEXT, nil());
    rejects(&model, now, &NEXT, granted("b", token, now + 1000, now, 1));
    rejects(&model, now, &NEXT, granted("a", TOKEN, now + 1000, T0, 1));
    rejects(&model, now, &NEXT, granted("a", token, now + 999, T0, 1));
    rejects(&model, now, &NEXT, granted("a", token, now + 1000, now, 1));
    rejects(&model, now, &NEXT, granted("a", token, now + 1000, T0, 2));
    accepts(
        &mut model,
        now,
        &NEXT,
        granted("a", token, now + 1000, T0, 1),
    );
    rejects(
        &model,
        now,
        &NEXT,
        granted("a", token + 1, now + 1000, T0, 1),
    );
    rejects(&model, now, &NEXT, granted("b", token, now + 1000, now, 1));
    accepts(
        &mut model,
        now,
        &NEXT,
        granted("b", token + 1, now + 1000, now, 1),
    );
    accepts(&mut model, now, &NEXT, nil());
}

#[test]
fn model_keeps_the_gate_of_a_group_that_has_nothing_queued() {
    let mut model = Model::new(3);
    accepts(&mut model, T0, &add("a", T0), array([int(1)]));
    accepts(
        &mut model,
        T0,
        &NEXT,
        array([lease("a", TOKEN, T0 + 1000, T0, 1)]),
    );
    let release = release("a", TOKEN, When::Delay(2000));
    let again = Command::Release(release.clone());
    rejects(&model, T0 + 5, &again, int(T0 + 2000));
    accepts(&mut model, T0 + 5, &again, int(T0 + 2005));
    accepts(&mut model, T0 + 9, &again, int(T0 + 2005));
    rejects(&model, T0 + 9, &again, int(T0 + 2009));
    let stale = Command::Release(Release {
        token: Token::Number(TOKEN + 1),
        ..release
    });
    rejects(&model, T0 + 9, &stale, int(T0 + 2005));
    accepts(&mut model, T0 + 9, &stale, error("STALE token"));
    accepts(&mut model, T0 + 10, &add("a", 0), array([int(1)]));
    accepts(&mut model, T0 + 2004, &NEXT, nil());
    let too_early = lease("a", (T0 + 2004) * 1000, T0 + 3004, T0 + 2005, 1);
    rejects(&model, T0 + 2004, &NEXT, array([too_early]));
    rejects(&model, T0 + 2005, &NEXT, nil());
    let due = lease("a", (T0 + 2005) * 1000, T0 + 3005, T0 + 2005, 1);
    accepts(&mut model, T0 + 2005, &NEXT, array([due]));
    accepts(&mut model, T0 + 2005, &again, error("STALE token"));
}

#[test]
fn model_reports_leases_that_ran_out() {
    let mut model = two_groups();
    let now = T0 + 1;
    accepts(
        &mut model,
        now,
        &NEXT,
        array([lease("a", now * 1000, now + 1000, T0, 1)]),
    );
    accepts(&mut model, now + 2000, &NEXT, {
        array([lease("b", (now + 2000) * 1000, now + 3000, now, 1)])
    });
    let expired = Command::Expired { count: None };
    let report = |chg: &str, times| array([bulk(chg), nil(), nil(), int(times)]);
    rejects(&model, now + 2000, &expired, array([]));
    rejects(&model, now + 2000, &expired, array([report("a", 2)]));
    accepts(&mut model, now + 2000, &expired, array([report("a", 1)]));
    accepts(&mut model, now + 2000, &expired, array([]));
    let ready = lease("a", (now + 2000) * 1000 + 1, now + 3000, now + 1000, 1);
    accepts(&mut model, now + 2000, &NEXT, array([ready]));
}

#[test]
fn model_gives_the_shallowest_uri_that_is_due() {
    let mut model = Model::new(3);
    let added = |n| array([int(n)]);
    accepts(
        &mut model,
        T0,
        &add_uri("crawl", "a", T0, 2, "deep"),
        added(1),
    );
    accepts(
        &mut model,
        T0,
        &add_uri("crawl", "a", T0 + 9, 0, "later"),
        added(2),
    );
    accepts(
        &mut model,
        T0,
        &add_uri("crawl", "a", T0, 1, "shallow"),
        added(3),
    );
    accepts(
        &mut model,
        T0,
        &add_uri("crawl", "a", T0, 0, "shallow"),
        added(3),
    );
    rejects(
        &model,
        T0,
        &add_uri("crawl", "a", T0, 0, "shallow"),
        added(4),
    );
    for wrong in ["deep", "later", "unknown"] {
        let told = lease_of_uri("a", T0, 3, "crawl", wrong);
        rejects(&model, T0, &NEXT, array([told]));
    }
    let told = lease_of_uri("a", T0, 3, "crawl", "shallow");
    accepts(&mut model, T0, &NEXT, array([told]));
    let mut wrong = release("a", TOKEN, When::At(0));
    wrong.done = Some(("other".to_owned(), None));
    accepts(&mut model, T0, &Command::Release(wrong), error("ERR no"));
    let release = Command::Release(release("a", TOKEN, When::At(0)));
    rejects(&model, T0, &release, error("ERR no"));
    accepts(&mut model, T0, &release, int(T0));
    let told = lease_of_uri("a", T0 + 9, 2, "crawl", "later");
    accepts(&mut model, T0 + 9, &NEXT, array([told]));
}

#[test]
fn model_steps_back_in_trouble() {
    let mut model = Model::new(3);
    accepts(&mut model, T0, &add("a", T0), array([int(1)]));
    let mut now = T0;
    for (status, pause) in [
        (503, 2000),
        (429, 4000),
        (-1, 8000),
        (200, 300),
        (503, 2000),
    ] {
        let told = lease("a", now * 1000, now + 1000, now, 1);
        accepts(&mut model, now, &NEXT, array([told]));
        let facts = Facts {
            elapsed: 200,
            factor: Some(("1.5", 1500)),
            status: Some(status),
            ..Facts::default()
        };
        let mut release = release("a", now * 1000, When::Facts(facts));
        release.done = None;
        let release = Command::Release(release);
        rejects(&model, now, &release, int(now + pause + 1));
        accepts(&mut model, now, &release, int(now + pause));
        now += pause;
    }
}

#[test]
fn model_holds_what_is_paused_or_blocked() {
    let mut model = two_groups();
    let pause = |on| Command::Pause {
        whom: Whom::Group("a".to_owned()),
        on,
    };
    let now = T0 + 1;
    // The hashes are seen when the plain keys are read.
    model
        .groups
        .values_mut()
        .for_each(|group| group.hash = true);
    accepts(&mut model, now, &pause(true), simple("OK"));
    let block = Command::Block {
        chg: "b".to_owned(),
        until: T0 + 50,
    };
    accepts(&mut model, now, &block, simple("OK"));
    accepts(&mut model, now, &NEXT, nil());
    let told = |chg, at: i64| array([lease(chg, at * 1000, at + 1000, T0, 1)]);
    rejects(&model, now, &NEXT, told("a", now));
    rejects(&model, now, &NEXT, told("b", now));
    rejects(&model, T0 + 50, &NEXT, nil());
    accepts(&mut model, now, &pause(false), simple("OK"));
    rejects(&model, now, &NEXT, nil());
    accepts(&mut model, now, &NEXT, told("a", now));
}
