//! `WHY`, as far as a program can judge it.

use redis_tests::Reply;

use crate::model::frontier_model::{Model, Verdict, must};
use crate::model::replies::{equal, field};

impl Model {
    pub fn why(&self, chg: &str, reply: &Reply) -> Verdict {
        if !self.knows(chg, reply)? || reply.is_error() {
            return Ok(());
        }
        let group = &self.groups[chg];
        let number = |n: i64| Reply::Int(n);
        let expected = [
            ("count", number(group.c())),
            ("parallel", number(group.parallel as i64)),
            ("gap", number(group.gap)),
            ("budget", group.budget.map_or(Reply::Nil, number)),
            (
                "group",
                group.shared.as_ref().map_or(Reply::Nil, redis_tests::bulk),
            ),
        ];
        for (name, value) in expected {
            equal(&field(reply, name)?, &value).map_err(|e| format!("{name}: {e}"))?;
        }
        if group.c() > 0 || !group.leases.is_empty() || group.gate > self.now {
            let steps = number(i64::from(group.steps));
            equal(&field(reply, "backoff")?, &steps).map_err(|e| format!("backoff: {e}"))?;
        }
        let Reply::Array(told) = field(reply, "leases")? else {
            return Err(format!("no leases: {reply:?}"));
        };
        must!(
            told.len() == group.leases.len(),
            "{} leases are out: {reply:?}",
            group.leases.len()
        );
        for lease in &told {
            let Reply::Int(token) = field(lease, "token")? else {
                return Err(format!("no token: {lease:?}"));
            };
            let Some(held) = group.lease(token) else {
                return Err(format!("no such lease: {lease:?}"));
            };
            equal(&field(lease, "granted")?, &number(held.granted))?;
            equal(&field(lease, "deadline")?, &number(held.deadline))?;
            let age = (self.now - held.granted).max(0);
            equal(&field(lease, "age")?, &number(age))?;
        }
        let Reply::Array(told) = field(reply, "executions")? else {
            return Err(format!("no executions: {reply:?}"));
        };
        // Kept and counted URIs are told apart by the weight; those that are leased may be left out.
        for execution in &told {
            let Reply::Bulk(id) = field(execution, "execution")? else {
                return Err(format!("no execution: {execution:?}"));
            };
            let id = String::from_utf8_lossy(&id).into_owned();
            let weight = field(execution, "weight")?;
            let uris = field(execution, "uris")?;
            let kept = group.kept.iter().filter(|uri| uri.execution == id);
            let (leased, free): (Vec<_>, Vec<_>) = kept.partition(|uri| uri.leased.is_some());
            let (leased, free) = (leased.len() as i64, free.len() as i64);
            let counted = group.counts.get(&id).copied().unwrap_or(0);
            let right = match weight {
                Reply::Nil => uris == number(counted),
                _ => {
                    let is = group.weights.get(&id).copied().unwrap_or(1);
                    let alike = free == 0 || is == 0 || weight == number(is);
                    alike && (uris == number(free) || uris == number(free + leased))
                }
            };
            must!(right, "{execution:?} was to be {counted} and {free}");
        }
        Ok(())
    }
}
