//! `ADD` and `ADDURI`, and what plain clients queue.

use redis_tests::Reply;

use crate::model::command::{Command, Item};
use crate::model::frontier_model::{Model, Verdict, must};
use crate::model::group::{NEVER, Place, Uri};
use crate::model::replies::{equal, refused};

impl Model {
    pub fn add_numbered(
        &mut self,
        execution: &str,
        seq: Option<&(String, i64)>,
        items: &[Item],
        reply: &Reply,
    ) -> Verdict {
        let Some((writer, n)) = seq else {
            return self.add(execution, None, items, reply);
        };
        let key = (execution.to_owned(), writer.clone());
        if let Some((last, answer)) = self.numbered.get(&key) {
            if n == last {
                return equal(reply, answer);
            }
            if n < last {
                return refused(reply, "STALE");
            }
        }
        self.add(execution, None, items, reply)?;
        if self
            .dropped
            .get(execution)
            .is_some_and(|&until| until > self.now)
        {
            return Ok(());
        }
        self.numbered.insert(key, (*n, reply.clone()));
        Ok(())
    }

    pub fn add(
        &mut self,
        execution: &str,
        weight: Option<i64>,
        items: &[Item],
        reply: &Reply,
    ) -> Verdict {
        let Reply::Array(counts) = reply else {
            return Err(format!("an array was to come, got {reply:?}"));
        };
        must!(
            counts.len() == items.len(),
            "{} counts were to come, got {reply:?}",
            items.len()
        );
        let until = self.dropped.get(execution).copied();
        let is_dropped = until.is_some_and(|until| until > self.now);
        for (item, count) in items.iter().zip(counts) {
            let expected = if is_dropped {
                Reply::Nil
            } else {
                self.add_one(execution, weight, item)
            };
            equal(count, &expected).map_err(|e| format!("{e} for {:?} in {reply:?}", item.chg))?;
        }
        Ok(())
    }

    fn add_one(&mut self, execution: &str, weight: Option<i64>, item: &Item) -> Reply {
        let now = self.now;
        let at = item.at.max(now);
        let turn = (now == self.latest).then_some(self.turns);
        self.turns += 1;
        let group = self.group(&item.chg);
        let known = |uri: &String| group.find(execution, uri).is_some();
        if item.uri.as_ref().is_some_and(|(_, uri)| known(uri)) {
            if let Some(weight) = weight {
                // Whether the weight counts when nothing may be taken is left open.
                let spent = group.budget == Some(0);
                let weight = if spent { 0 } else { weight };
                group.weights.insert(execution.to_owned(), weight);
            }
            return Reply::Int(group.c());
        }
        match &mut group.budget {
            Some(0) => return Reply::Nil,
            Some(budget) => *budget -= 1,
            None => (),
        }
        match &item.uri {
            Some((depth, uri)) => {
                group.kept.push(Uri {
                    execution: execution.to_owned(),
                    uri: uri.clone(),
                    depth: *depth,
                    due: at,
                    attempts: 0,
                    leased: None,
                });
                if let Some(weight) = weight {
                    group.weights.insert(execution.to_owned(), weight);
                }
            }
            None => {
                let fetched = group.leases.iter().filter(|l| l.told.uri.is_none());
                if fetched.count() as i64 >= group.counted() {
                    // Those that asked before are being fetched.
                    group.asked = NEVER;
                }
                *group.counts.entry(execution.to_owned()).or_insert(0) += 1;
                // Counts have no time of their own: they go with the group.
                let stands = matches!(group.place, Place::Ready | Place::Wait);
                let due = if stands { group.n.max(now) } else { NEVER };
                group.asked = group.asked.min(due.min(at));
            }
        }
        let due = group.due_of_all().max(now);
        match group.place {
            Place::Nowhere if group.leases.is_empty() => {
                group.place = Place::Wait;
                group.n = due;
                group.score = None;
                group.turn = turn.filter(|_| due == now);
            }
            Place::Wait if due < group.n => {
                group.n = due;
                group.score = None;
                group.turn = None;
            }
            _ => (),
        }
        group.plain = false;
        group.hash = true;
        Reply::Int(group.c())
    }

    pub fn queue_plainly(&mut self, chg: &str, command: &Command) {
        let now = self.now;
        let at = match command {
            Command::PutWait { at, .. } => Some(*at),
            _ => None,
        };
        let entry = (chg.to_owned(), self.commands, now);
        let group = self.group(chg);
        group.plain = true;
        group.n = at.unwrap_or(0);
        group.score = None;
        group.turn = None;
        group.place = if at.is_some() {
            Place::Wait
        } else {
            Place::Ready
        };
        if at.is_none() {
            self.ready.push(entry);
        }
    }
}
