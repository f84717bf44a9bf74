//! What one group says of its URIs, read in steps: a group may have URIs of very many executions.

use crawlspace_host::keyspace::{Batch, KeyError};
use crawlspace_host::text::{Shown, parse_unsigned};

use super::super::error::{Error, Result};
use super::super::frontier::{Frontier, Id};
use super::super::keys::COUNTED;
use super::super::reconcile::{Counted, right_count, room};
use super::super::store::Store;
use super::Check;

/// How many executions are looked at together.
const EXECUTIONS: usize = 64;

/// Maximum number of times that a group is read anew that changes while it is read.
const MAX_TRIES: u32 = 8;

/// A group that is being read.
pub(super) struct Account<K: Store> {
    id: Id,
    stage: Stage<K>,
    tries: u32,
    /// Executions whose URIs are kept, and how many in all.
    kept: Vec<(Box<[u8]>, u64)>,
    kept_sum: u64,
    counted: Counted,
    absurd: Vec<Box<[u8]>>,
}

enum Stage<K: Store> {
    Start,
    /// Kept URIs are read, from this execution on.
    Kept(u64),
    Counted(K::Cursor),
    Judge,
    /// What was read is noted.
    Note,
}

impl<K: Store> Account<K> {
    pub(super) fn new(id: &[u8]) -> Account<K> {
        Account {
            id: Id::from_slice(id),
            stage: Stage::Start,
            tries: 0,
            kept: Vec::new(),
            kept_sum: 0,
            counted: Counted::default(),
            absurd: Vec::new(),
        }
    }

    /// Reads kept URIs of some executions; from where to go on, if there are more.
    fn read_kept(&mut self, frontier: &Frontier<K>, ks: &mut K, from: u64) -> Result<Option<u64>> {
        let key = frontier.uris_key(ks, &self.id);
        let (kept, sum) = (&mut self.kept, &mut self.kept_sum);
        let last = ks.uris(&key, |uris| {
            let mut last = None;
            for share in uris.executions_from(from).take(EXECUTIONS) {
                kept.push((share.id.into(), share.uris));
                *sum += share.uris;
                last = Some(share.number);
            }
            last
        })?;
        Ok(last.flatten().map(|last| last + 1))
    }

    /// Reads counts of some executions; false at the end.
    fn read_counted(
        &mut self,
        frontier: &Frontier<K>,
        ks: &mut K,
        cursor: &mut K::Cursor,
    ) -> Result<bool> {
        let key = frontier.key(ks, super::super::keys::GROUP, &self.id);
        let mut batch = Batch::default();
        let more = ks.hash_scan(&key, cursor, &mut batch)?;
        for (field, value) in batch.iter() {
            let count = field.strip_prefix(COUNTED).zip(parse_unsigned(value));
            if let Some((execution, n)) = count {
                self.counted.add(execution, n);
            }
        }
        Ok(more)
    }
}

impl<K: Store> Check<K> {
    /// One step of reading a group; false when it is done.
    pub(super) fn read_group(
        &mut self,
        frontier: &mut Frontier<K>,
        ks: &mut K,
        account: &mut Account<K>,
    ) -> Result<bool> {
        let changed = self
            .audit(frontier)
            .is_some_and(|audit| !audit.is_unchanged());
        let reads = matches!(
            account.stage,
            Stage::Kept(_) | Stage::Counted(_) | Stage::Judge
        );
        if reads && changed && account.tries < MAX_TRIES {
            *account = Account {
                tries: account.tries + 1,
                ..Account::new(&account.id)
            };
        }
        let stage = std::mem::replace(&mut account.stage, Stage::Note);
        account.stage = match stage {
            Stage::Start => {
                if let Some(audit) = frontier.audit.as_mut().filter(|a| a.is_of(&self.owner)) {
                    audit.watch(&account.id);
                }
                Stage::Kept(0)
            }
            Stage::Kept(from) => match account.read_kept(frontier, ks, from) {
                Ok(Some(from)) => Stage::Kept(from),
                Ok(None) => Stage::Counted(ks.cursor()),
                Err(error) => return self.refused(error),
            },
            Stage::Counted(mut cursor) => match account.read_counted(frontier, ks, &mut cursor) {
                Ok(true) => Stage::Counted(cursor),
                Ok(false) => Stage::Judge,
                Err(error) => return self.refused(error),
            },
            Stage::Judge => {
                if self.take_absurd(account) {
                    Stage::Judge
                } else {
                    self.judge(frontier, ks, account)?;
                    Stage::Note
                }
            }
            Stage::Note => return self.note(frontier, ks, account),
        };
        Ok(true)
    }

    /// A key of the group holds something else, which is told; any other error ends the check.
    fn refused(&mut self, error: Error) -> Result<bool> {
        match error {
            Error::Key(error @ KeyError::WrongType { .. }) => {
                self.problem(|| error.to_string());
                Ok(false)
            }
            error => Err(error),
        }
    }

    /// Takes out some counts that are absurd; true when there may be more.
    fn take_absurd(&mut self, account: &mut Account<K>) -> bool {
        let room = room(self.counts.counted);
        for _ in 0..EXECUTIONS {
            let Some((execution, n)) = account.counted.take_absurd(room) else {
                return false;
            };
            let (id, shown) = (Shown(&account.id), Shown(&execution));
            self.problem(|| {
                format!(
                    "group '{id}' counts {n} URIs of execution '{shown}', which is out of range"
                )
            });
            account.absurd.push(execution);
        }
        true
    }

    /// Looks whether a group counts what is queued for it, and no more than can be; and where it stands.
    fn judge(
        &mut self,
        frontier: &mut Frontier<K>,
        ks: &mut K,
        account: &Account<K>,
    ) -> Result<()> {
        let mut loaded = match frontier.load(ks, &account.id) {
            Ok(loaded) => loaded,
            Err(error) => return self.refused(error).map(drop),
        };
        let audit = self.audit(frontier);
        let then = audit
            .and_then(|audit| audit.groups.get(&account.id[..]))
            .copied();
        let found = loaded.stored_count();
        let room = room(self.counts.counted);
        let (right, reconcile) = right_count(found, account.kept_sum, account.counted.sum(), room);
        let id = Shown(&account.id);
        if !reconcile {
            self.problem(|| format!("group '{id}' counts {found} URIs, which is out of range"));
        } else if found < right {
            self.problem(|| {
                format!("group '{id}' counts {found} URIs, but {right} are queued for it")
            });
        }
        self.counts.counted += right - account.kept_sum.min(right);
        let kept = frontier.uris_key(ks, &account.id);
        let hidden = !loaded.group.keeps && ks.keeps_uris(&kept)?;
        if hidden {
            self.problem(|| format!("group '{id}' has kept URIs, but its state lacks them"));
        }
        let wrong = right != found || hidden;
        // What was changed meanwhile is taken as it was when this began, but for what was mended.
        let mut count = i128::from(then.unwrap_or(found));
        if self.repairs && then.is_none() && (wrong || !account.absurd.is_empty()) {
            self.mended_groups.insert(account.id[..].into());
        }
        if self.repairs && wrong {
            // The sums are compared in the end.
            if loaded.missing.take() > 0 || hidden {
                frontier.restore_leases(ks, &mut loaded, self.now)?;
            }
            loaded.group.uris = right;
            loaded.group.keeps |= hidden;
            loaded.group.known = true;
            loaded.group.ours = true;
            frontier.save(ks, &loaded)?;
            self.mended += u64::from(right != found) + u64::from(hidden);
            count += i128::from(right) - i128::from(found);
        }
        frontier.see_as_deleted(ks, &mut loaded, self.now)?;
        self.counts.groups += u64::from(loaded.group.known);
        let sum = i128::from(self.counts.sum_groups) + count.max(0);
        self.counts.sum_groups = u64::try_from(sum).unwrap_or(u64::MAX);
        self.place(frontier, ks, &loaded)
    }

    /// Notes what groups have of some executions; false when all are noted.
    fn note(
        &mut self,
        frontier: &Frontier<K>,
        ks: &mut K,
        account: &mut Account<K>,
    ) -> Result<bool> {
        for _ in 0..EXECUTIONS {
            if let Some(execution) = account.absurd.pop() {
                if self.repairs {
                    let key = frontier.key(ks, super::super::keys::GROUP, &account.id);
                    ks.hash_del(&key, &Frontier::<K>::counted_field(&execution))?;
                    self.mended += 1;
                }
                continue;
            }
            let next = account.kept.pop().or_else(|| account.counted.take());
            let Some((execution, n)) = next else {
                return Ok(false);
            };
            if n > 0 {
                self.look_at_list(frontier, ks, &execution, &account.id)?;
                let has = self.executions.entry(execution).or_default();
                has.named = has.named.saturating_add(n);
            }
        }
        Ok(true)
    }

    /// Looks whether an execution knows of a group that has URIs of it.
    fn look_at_list(
        &mut self,
        frontier: &Frontier<K>,
        ks: &mut K,
        execution: &[u8],
        id: &[u8],
    ) -> Result<()> {
        let key = frontier.groups_of(ks, execution);
        if ks.hash_has(&key, id)? || self.was_changed(frontier, id) {
            return Ok(());
        }
        let (shown, of) = (Shown(id), Shown(execution));
        self.problem(|| {
            format!("group '{shown}' has URIs of execution '{of}', whose list of groups lacks it")
        });
        if self.repairs {
            frontier.enlist(ks, execution, id)?;
            self.mended += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::add::{Kept, Queued};
    use super::super::super::job::{Step, Steps};
    use super::super::super::moving::Moving;
    use super::*;
    use crate::chg::store::MemoryKeyspace;
    use crawlspace_host::keyspace::Keyspace;
    use crawlspace_host::reply::Reply;

    const EACH: u64 = 1000;

    /// A group with kept and counted URIs of very many executions.
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

    /// Runs a job in the smallest steps, with something in between: steps, and the reply.
    fn run(
        ks: &mut MemoryKeyspace,
        frontier: &mut Frontier<MemoryKeyspace>,
        mut job: impl Steps<MemoryKeyspace>,
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
        let (steps, report) = run(&mut ks, &mut frontier, Check::new(false, 1), |_, _, _| {});
        assert_eq!(field(&report, "problems"), Reply::Array(Vec::new()));
        assert_eq!(field(&report, "sum-groups"), Reply::count(2 * EACH));
        assert!(steps > 3 * EACH / EXECUTIONS as u64, "{steps} steps");
    }

    #[test]
    fn group_that_changes_while_it_is_read_is_read_anew() {
        let (mut ks, mut frontier) = crowd();
        let check = Check::new(false, 1);
        let (_, report) = run(&mut ks, &mut frontier, check, |ks, frontier, steps| {
            let chg = b"crowd";
            if steps == 20 {
                let queued = [Queued { chg, at: 1 }; 5];
                frontier
                    .add(ks, b"execution-999", None, &queued, 1)
                    .unwrap();
            }
        });
        assert_eq!(field(&report, "problems"), Reply::Array(Vec::new()));
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
                let check = Check::new(repairs, 1);
                run(&mut ks, &mut frontier, check, |_, _, _| {}).1
            };
            let text = "group 'host' has kept URIs, but its state lacks them";
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
            let group = frontier.load(&mut ks, b"host").unwrap().group;
            assert_eq!((group.uris, group.keeps), (2, true));
            assert!(ks.hash_has(&b"chg_of:crawl".to_vec(), b"host").unwrap());
        }
    }

    #[test]
    fn group_of_many_executions_moves_in_many_steps() {
        let (mut ks, mut frontier) = crowd();
        let moving = Moving::new(&mut ks, b"crowd", b"to", 1);
        let (steps, reply) = run(&mut ks, &mut frontier, moving, |_, _, _| {});
        assert_eq!(reply, Reply::counts(&[2 * EACH, 2 * EACH]));
        assert!(steps > EACH / EXECUTIONS as u64, "{steps} steps");
        let (_, report) = run(&mut ks, &mut frontier, Check::new(false, 1), |_, _, _| {});
        assert_eq!(field(&report, "problems"), Reply::Array(Vec::new()));
    }
}
