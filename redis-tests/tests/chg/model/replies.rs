//! What replies say, or why they are not what was to come.

use redis_tests::{Lease, Reply};

use crate::model::frontier_model::{Verdict, must};

pub fn error_word(reply: &Reply) -> Option<String> {
    let Reply::Error(line) = reply else {
        return None;
    };
    let line = String::from_utf8_lossy(line);
    line.split(' ').next().map(str::to_owned)
}

pub fn refused(reply: &Reply, word: &str) -> Verdict {
    must!(
        error_word(reply).as_deref() == Some(word),
        "{word} was to come, got {reply:?}"
    );
    Ok(())
}

pub fn must_not_fail(reply: &Reply) -> Verdict {
    must!(!reply.is_error(), "an error: {reply:?}");
    Ok(())
}

pub fn is_ok(reply: &Reply) -> Verdict {
    equal(reply, &redis_tests::simple("OK"))
}

pub fn equal(told: &Reply, expected: &Reply) -> Verdict {
    must!(told == expected, "{expected:?} was to come, got {told:?}");
    Ok(())
}

pub fn field(map: &Reply, name: &str) -> Result<Reply, String> {
    let found = match map {
        Reply::Array(items) if items.len() % 2 == 0 => map.find(name),
        Reply::Map(_) => map.find(name),
        _ => None,
    };
    found.ok_or_else(|| format!("no field {name} in {map:?}"))
}

pub fn leases(reply: &Reply) -> Result<Vec<Lease>, String> {
    match reply {
        Reply::Nil => Ok(Vec::new()),
        Reply::Array(items) if !items.is_empty() => items.iter().map(lease_of).collect(),
        _ => Err(format!("leases or nil were to come, got {reply:?}")),
    }
}

pub fn lease_of(reply: &Reply) -> Result<Lease, String> {
    let bad = || format!("a lease was to come, got {reply:?}");
    let Reply::Array(items) = reply else {
        return Err(bad());
    };
    use Reply::{Bulk, Int, Nil};
    match items.as_slice() {
        [
            Bulk(_),
            Int(_),
            Int(_),
            Int(_),
            Int(_),
            Bulk(_) | Nil,
            Bulk(_) | Nil,
        ] => Ok(Lease::of(reply)),
        _ => Err(bad()),
    }
}
