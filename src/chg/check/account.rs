//! Checks one group by counting its URIs by execution. A group may have URIs of a very large number
//! of executions.

use crawlspace_host::keyspace::KeyError;
use crawlspace_host::text::{Shown, parse_unsigned};

use super::super::error::{Error, Result};
use super::super::frontier::Frontier;
use super::super::job::{Lent, Scan};
use super::super::keys::{COUNTED, GROUP};
use super::super::ledger::counted_field;
use super::super::reconcile::{Counted, right_count, room};
use super::super::store::Store;
use super::super::uris::Kept;
use super::{Check, PAGE};

/// Maximum number of attempts to read a group that changes during the read.
const MAX_TRIES: u32 = 8;

/// The URIs of one group by execution.
#[derive(Default)]
struct Account {
    /// Executions with stored URIs in the group, each with its count; `kept_sum` is the total.
    kept: Vec<(Box<[u8]>, u64)>,
    kept_sum: u64,
    counted: Counted,
    absurd: Vec<(Box<[u8]>, u64)>,
}

impl Account {
    /// Reads a group. At most `room` URIs of the group may be counted without being stored; a
    /// higher count is implausible.
    async fn read<K: Store>(lent: &Lent<K>, id: &[u8], room: u64) -> Result<Account> {
        let mut account = Account::default();
        let uris = lent.with(|frontier, ks| frontier.keys.uris_key(ks, id));
        let mut from = Some(0);
        while let Some(number) = from {
            let page = |uris: &Kept<'_>| account.read_kept(uris, number);
            from = lent.with(|_, ks| ks.uris(&uris, page))?.flatten();
            lent.pause().await;
        }
        let group = lent.with(|frontier, ks| frontier.keys.key(ks, GROUP, id));
        let mut fields = Scan::hash(lent, group);
        while let Some(batch) = fields.next().await? {
            for (field, value) in batch.iter() {
                let count = field.strip_prefix(COUNTED).zip(parse_unsigned(value));
                if let Some((execution, n)) = count {
                    account.counted.add(execution, n);
                }
            }
            lent.pause().await;
        }
        while let Some(absurd) = account.counted.take_absurd(room) {
            account.absurd.push(absurd);
            lent.pause().await;
        }
        Ok(account)
    }

    /// Reads the stored URIs of some executions. If there may be more executions, returns the
    /// number at which to continue.
    fn read_kept(&mut self, uris: &Kept<'_>, from: u64) -> Option<u64> {
        let before = self.kept.len();
        let mut last = 0;
        for share in uris.executions_from(from).take(PAGE) {
            self.kept.push((share.id.into(), share.uris));
            self.kept_sum += share.uris;
            last = share.number;
        }
        (self.kept.len() == before + PAGE).then_some(last + 1)
    }
}

impl Check {
    /// Checks a group, whose URIs may belong to a very large number of executions. Reads the group
    /// again if it changes while it is being read.
    pub(super) async fn look_at_group<K: Store>(
        &mut self,
        lent: &Lent<K>,
        id: &[u8],
    ) -> Result<()> {
        let mut tries = 0;
        let account = loop {
            lent.with(|frontier, _| frontier.ledger.audits.watch(&self.owner, id));
            let account = match Account::read(lent, id, room(self.counts.counted)).await {
                Ok(account) => account,
                Err(error) => return self.refused(error),
            };
            let is_judged = lent.with(|frontier, ks| -> Result<bool> {
                let audit = self.audit(frontier);
                if tries < MAX_TRIES && audit.is_some_and(|audit| !audit.is_unchanged()) {
                    return Ok(false);
                }
                self.judge(frontier, ks, id, &account)?;
                Ok(true)
            })?;
            if is_judged {
                break account;
            }
            tries += 1;
        };
        self.note(lent, id, account).await
    }

    /// If the error is that the key of the group holds another type, reports the key. Any other
    /// error ends the check.
    fn refused(&mut self, error: Error) -> Result<()> {
        match error {
            Error::Key(error @ KeyError::WrongType { .. }) => {
                self.problem(|| error.to_string());
                Ok(())
            }
            error => Err(error),
        }
    }

    /// Checks that a group counts all URIs queued for it, that its counts are plausible, and that
    /// the group is in the right queue.
    fn judge<K: Store>(
        &mut self,
        frontier: &mut Frontier<K>,
        ks: &mut K,
        id: &[u8],
        account: &Account,
    ) -> Result<()> {
        let shown = Shown(id);
        for (execution, n) in &account.absurd {
            self.problem(|| {
                let execution = Shown(execution);
                format!("group '{shown}' counts {n} URIs of execution '{execution}', which is out of range")
            });
        }
        let mut loaded = match frontier.groups.load(ks, id) {
            Ok(loaded) => loaded,
            Err(error) => return self.refused(error),
        };
        let audit = self.audit(frontier);
        let then = audit.and_then(|audit| audit.groups.get(id)).copied();
        let found = loaded.stored_count();
        let room = room(self.counts.counted);
        let (right, reconcile) = right_count(found, account.kept_sum, account.counted.sum(), room);
        if !reconcile {
            self.problem(|| format!("group '{shown}' counts {found} URIs, which is out of range"));
        } else if found < right {
            self.problem(|| {
                format!("group '{shown}' counts {found} URIs, but {right} are queued for it")
            });
        }
        self.counts.counted += right - account.kept_sum.min(right);
        let kept = frontier.keys.uris_key(ks, id);
        let hidden = !loaded.group.keeps && ks.keeps_uris(&kept)?;
        if hidden {
            self.problem(|| {
                format!(
                    "group '{shown}' has kept URIs, but the state in its hash does not record them"
                )
            });
        }
        let wrong = right != found || hidden;
        // If a group changed during the check, use the count that it had when the check began, plus
        // repairs.
        let mut count = i128::from(then.unwrap_or(found));
        if self.repairs && then.is_none() && (wrong || !account.absurd.is_empty()) {
            self.mended_groups.insert(id.into());
        }
        if self.repairs && wrong {
            // `compare_sums` repairs the counts of executions at the end of the check.
            if loaded.missing.take() > 0 || hidden {
                frontier.groups.restore_leases(ks, &mut loaded, self.now)?;
            }
            loaded.group.uris = right;
            loaded.group.keeps |= hidden;
            loaded.group.known = true;
            loaded.group.ours = true;
            frontier.placing().save(ks, &loaded)?;
            self.mended += u64::from(right != found) + u64::from(hidden);
            count += i128::from(right) - i128::from(found);
        }
        frontier.groups.show_as_deleted(ks, &mut loaded, self.now)?;
        self.counts.groups += u64::from(loaded.group.known);
        let sum = i128::from(self.counts.sum_groups) + count.max(0);
        self.counts.sum_groups = u64::try_from(sum).unwrap_or(u64::MAX);
        self.place(frontier, ks, &loaded)
    }

    /// Records the number of URIs of each execution in a group.
    async fn note<K: Store>(&mut self, lent: &Lent<K>, id: &[u8], account: Account) -> Result<()> {
        let repairs = self.repairs;
        for (execution, _) in account.absurd.into_iter().filter(|_| repairs) {
            let field = counted_field(&execution);
            lent.with(|frontier, ks| {
                let key = frontier.keys.key(ks, GROUP, id);
                ks.hash_del(&key, &field)
            })?;
            self.mended += 1;
            lent.pause().await;
        }
        let named = account.kept.into_iter().chain(account.counted.into_named());
        for (execution, n) in named.filter(|(_, n)| *n > 0) {
            lent.with(|frontier, ks| self.look_at_list(frontier, ks, &execution, id))?;
            let has = self.executions.entry(execution).or_default();
            has.named = has.named.saturating_add(n);
            lent.pause().await;
        }
        Ok(())
    }

    /// Checks that the list of an execution includes a group that has URIs of this execution.
    fn look_at_list<K: Store>(
        &mut self,
        frontier: &Frontier<K>,
        ks: &mut K,
        execution: &[u8],
        id: &[u8],
    ) -> Result<()> {
        let key = frontier.keys.groups_of(ks, execution);
        if ks.hash_has(&key, id)? || self.was_changed(frontier, id) {
            return Ok(());
        }
        let (shown, of) = (Shown(id), Shown(execution));
        self.problem(|| {
            format!(
                "group '{shown}' has URIs of execution '{of}', but is not in its list of groups"
            )
        });
        if self.repairs {
            frontier.ledger.enlist(ks, execution, id)?;
            self.mended += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::add::{Kept, Queued};
    use super::super::super::job::{Job, Step};
    use super::super::super::moving::move_group;
    use super::super::check;
    use super::*;
    use crate::chg::store::MemoryKeyspace;
    use crawlspace_host::keyspace::Keyspace;
    use crawlspace_host::reply::Reply;

    const EACH: u64 = 1000;

    /// Creates a group with stored and counted URIs of a very large number of executions.
    fn crowd() -> (MemoryKeyspace, Frontier<MemoryKeyspace>) {
        let mut ks = MemoryKeyspace::default();
        let mut frontier = Frontier::open(&mut ks, b"{f}:");
        for n in 0..EACH {
            let execution = format!("execution-{n}");
            let execution = execution.as_bytes();
            let chg = b"crowd";
            let queued = Queued { chg, at: 1 };
            let kept = Kept {
                chg,
                at: 1,
                depth: 0,
                uri: b"u",
            };
            frontier
                .add(&mut ks, execution, None, &[queued], 1)
                .unwrap();
            frontier
                .add_kept(&mut ks, execution, None, &[kept], 1)
                .unwrap();
        }
        (ks, frontier)
    }

    /// Runs a job in the smallest possible steps, and calls `between` after each step. Returns the
    /// number of steps and the reply.
    fn run(
        ks: &mut MemoryKeyspace,
        frontier: &mut Frontier<MemoryKeyspace>,
        mut job: Job<MemoryKeyspace>,
        mut between: impl FnMut(&mut MemoryKeyspace, &mut Frontier<MemoryKeyspace>, u64),
    ) -> (u64, Reply) {
        for steps in 1.. {
            match job.step(frontier, ks, &mut || false).unwrap() {
                Step::More => between(ks, frontier, steps),
                Step::Done(reply) => return (steps, reply),
            }
        }
        unreachable!("a job ends")
    }

    fn field(reply: &Reply, name: &str) -> Reply {
        let Reply::Map(fields) = reply else {
            panic!("{reply:?}")
        };
        let field = fields.iter().find(|(key, _)| *key == Reply::bulk(name));
        field.expect(name).1.clone()
    }

    #[test]
    fn group_of_many_executions_is_read_in_many_steps() {
        let (mut ks, mut frontier) = crowd();
        let (steps, report) = run(&mut ks, &mut frontier, check(false, 1), |_, _, _| {});
        assert_eq!(field(&report, "problems"), Reply::Array(Vec::new()));
        assert_eq!(field(&report, "sum-groups"), Reply::count(2 * EACH));
        assert!(steps > 3 * EACH / PAGE as u64, "{steps} steps");
    }

    #[test]
    fn group_that_changes_while_it_is_read_is_read_anew() {
        for changed in (20..1020).step_by(100) {
            let (mut ks, mut frontier) = crowd();
            let check = check(false, 1);
            let (_, report) = run(&mut ks, &mut frontier, check, |ks, frontier, steps| {
                let chg = b"crowd";
                if steps == changed {
                    let queued = [Queued { chg, at: 1 }; 5];
                    frontier
                        .add(ks, b"execution-999", None, &queued, 1)
                        .unwrap();
                }
            });
            assert_eq!(field(&report, "problems"), Reply::Array(Vec::new()));
        }
    }

    #[test]
    fn checks_and_repairs_at_the_same_time_find_no_problem() {
        let (mut ks, mut frontier) = crowd();
        let add = |ks: &mut _, frontier: &mut Frontier<_>, chg: &[u8]| {
            let queued = [Queued { chg, at: 1 }; 5];
            frontier.add(ks, b"execution-1", None, &queued, 1).unwrap();
        };
        let assert_sound = |report: &Reply| {
            assert_eq!(field(report, "problems"), Reply::Array(Vec::new()));
            assert_eq!(field(report, "disturbed"), Reply::Int(0));
        };
        let (_, report) = run(
            &mut ks,
            &mut frontier,
            check(false, 1),
            |ks, frontier, steps| {
                add(ks, frontier, b"crowd");
                if steps == 40 {
                    let repair = check(true, 1);
                    let (_, report) = run(ks, frontier, repair, |ks, frontier, _| {
                        add(ks, frontier, b"other");
                    });
                    assert_sound(&report);
                    assert_eq!(field(&report, "mended"), Reply::Int(0));
                }
            },
        );
        assert_sound(&report);
    }

    #[test]
    fn state_that_lacks_kept_uris_is_found_and_mended_once() {
        for state in [&b"crawl-2"[..], b"5", b"1 1 0 0 0 0"] {
            let mut ks = MemoryKeyspace::default();
            let mut frontier = Frontier::open(&mut ks, b"");
            let kept = [&b"u1"[..], b"u2"].map(|uri| Kept {
                chg: b"host",
                at: 1,
                depth: 0,
                uri,
            });
            frontier
                .add_kept(&mut ks, b"crawl", None, &kept, 1)
                .unwrap();
            ks.hash_set(&b"CHG:host".to_vec(), b"s", state).unwrap();
            let mut look = |repairs| {
                let check = check(repairs, 1);
                run(&mut ks, &mut frontier, check, |_, _, _| {}).1
            };
            let text = "group 'host' has kept URIs, but the state in its hash does not record them";
            let problems = Reply::Array(vec![Reply::bulk(text)]);
            assert_eq!(field(&look(false), "problems"), problems);
            let report = look(true);
            assert_eq!(field(&report, "problems"), problems);
            assert_eq!(field(&report, "mended"), Reply::Int(1));
            for repairs in [false, true, false] {
                let report = look(repairs);
                assert_eq!(field(&report, "problems"), Reply::Array(Vec::new()));
                if repairs {
                    assert_eq!(field(&report, "mended"), Reply::Int(0));
                }
            }
            let group = frontier.groups.load(&mut ks, b"host").unwrap().group;
            assert_eq!((group.uris, group.keeps), (2, true));
            assert!(ks.hash_has(&b"chg_of:crawl".to_vec(), b"host").unwrap());
        }
    }

    #[test]
    fn group_of_many_executions_moves_in_many_steps() {
        let (mut ks, mut frontier) = crowd();
        let job = move_group(b"crowd", b"to", 1);
        let (steps, reply) = run(&mut ks, &mut frontier, job, |_, _, _| {});
        assert_eq!(reply, Reply::counts(&[2 * EACH, 2 * EACH]));
        assert!(steps > 2 * EACH, "{steps} steps");
        let (_, report) = run(&mut ks, &mut frontier, check(false, 1), |_, _, _| {});
        assert_eq!(field(&report, "problems"), Reply::Array(Vec::new()));
    }

    #[test]
    fn counts_beyond_that_of_the_group_move_in_many_steps() {
        let (mut ks, mut frontier) = crowd();
        let count = EACH.to_string();
        ks.hash_set(&b"{f}:CHG:crowd".to_vec(), b"c", count.as_bytes())
            .unwrap();
        let job = move_group(b"crowd", b"to", 1);
        let (steps, reply) = run(&mut ks, &mut frontier, job, |_, _, _| {});
        assert_eq!(reply, Reply::counts(&[EACH, EACH]));
        assert!(steps > 2 * EACH, "{steps} steps");
    }
}
