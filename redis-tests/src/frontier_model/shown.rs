//! Compares the plain keys of a frontier, as a plain client reads them, with the model.

use std::collections::BTreeMap;

use super::FrontierModel;
use crate::history::Verdict;
use crate::must;
use crate::storage::frontier_view;
use crate::wire::{Reply, Wire};

/// The contents of the plain keys of a frontier.
#[derive(Debug, Default, PartialEq)]
pub struct Shown {
    /// `chg_ready`, starting at its head.
    pub ready: Vec<String>,
    /// `chg_wait` with its scores.
    pub wait: BTreeMap<String, f64>,
    /// `chg_busy` with its scores.
    pub busy: BTreeMap<String, f64>,
    /// `n` and `c` of each hash.
    pub groups: BTreeMap<String, (Option<i64>, Option<i64>)>,
    /// `EIDC`, excluding executions without URIs.
    pub executions: BTreeMap<String, i64>,
    /// `QCT`.
    pub total: i64,
    /// Groups queued behind each shared gate.
    pub gated: Vec<Vec<String>>,
}

impl Shown {
    /// Reads the plain keys of the frontier `prefix` with shared gates of these names.
    pub fn of(wire: &mut Wire, prefix: &str, gates: &[&str]) -> Shown {
        let key = |name: &str| format!("{prefix}{name}");
        let words = |words: &[&str]| words.iter().map(|&w| w.to_owned()).collect();
        let mut commands: Vec<Vec<String>> = vec![
            words(&["KEYS", &key("CHG:*")]),
            words(&["LRANGE", &key("chg_ready"), "0", "-1"]),
            words(&["ZRANGE", &key("chg_wait"), "0", "-1", "WITHSCORES"]),
            words(&["ZRANGE", &key("chg_busy"), "0", "-1", "WITHSCORES"]),
            words(&["HGETALL", &key("EIDC")]),
            words(&["GET", &key("QCT")]),
        ];
        for gate in gates {
            let list = key(&format!("chg_gated:{gate}"));
            commands.push(words(&["LRANGE", &list, "0", "-1"]));
        }
        let replies = wire.pipeline(commands);
        let [keys, ready, wait, busy, executions, total, gated @ ..] = replies.as_slice() else {
            panic!("{replies:?}");
        };
        let keys = keys.texts();
        let fields = keys.iter().map(|key| vec!["HMGET", key, "n", "c"]);
        let fields = wire.pipeline(fields);
        let start = key("CHG:").len();
        let groups = keys.iter().zip(&fields).map(|(key, fields)| {
            let fields = fields.items();
            (
                key[start..].to_owned(),
                (number(&fields[0]), number(&fields[1])),
            )
        });
        let executions = executions.pairs().into_iter();
        let executions = executions.filter_map(|(id, n)| Some((id.text(), number(&n)?)));
        Shown {
            ready: ready.texts(),
            wait: scores(wait),
            busy: scores(busy),
            groups: groups.collect(),
            executions: executions.filter(|(_, n)| *n != 0).collect(),
            total: number(total).unwrap_or(0),
            gated: gated.iter().map(Reply::texts).collect(),
        }
    }
}

fn number(reply: &Reply) -> Option<i64> {
    let text = (!reply.is_nil()).then(|| reply.text())?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{text:?} is not an integer")))
}

fn scores(reply: &Reply) -> BTreeMap<String, f64> {
    let pairs = reply.pairs().into_iter();
    let scores = pairs.map(|(id, score)| (id.text(), score.text().parse().expect("a score")));
    scores.collect()
}

impl FrontierModel {
    /// Returns the plain keys that the model expects.
    pub fn shown(&self, gates: &[&str]) -> Shown {
        let known = self.groups.iter().filter(|(_, group)| group.is_known());
        let groups = known.map(|(chg, g)| {
            let fields = if g.ours {
                (Some(g.due), Some(g.uris))
            } else {
                (None, None)
            };
            (chg.clone(), fields)
        });
        let mut executions = BTreeMap::new();
        for group in self.groups.values() {
            let kept = group
                .kept
                .executions()
                .into_iter()
                .map(|(id, .., uris)| (id, uris));
            let counted = group.counts.iter().map(|(id, n)| (id.clone(), *n));
            for (id, n) in kept.chain(counted) {
                *executions.entry(id).or_insert(0) += n;
            }
        }
        let queue = |gate: &&str| self.gates.get(*gate).map(|gate| gate.queue.iter().cloned());
        Shown {
            ready: self.ready.iter().cloned().collect(),
            wait: self
                .wait
                .iter()
                .map(|(chg, score)| (chg.clone(), score.shown()))
                .collect(),
            busy: self
                .busy
                .iter()
                .map(|(chg, at)| (chg.clone(), at as f64))
                .collect(),
            groups: groups.collect(),
            executions,
            total: self.total(),
            gated: gates
                .iter()
                .map(|gate| queue(gate).into_iter().flatten().collect())
                .collect(),
        }
    }

    /// Compares the plain keys with the model.
    ///
    /// # Errors
    /// A description of the first difference.
    pub fn is_shown_by(&self, wire: &mut Wire, gates: &[&str]) -> Verdict {
        let shown = frontier_view(wire, &self.prefix, |wire| {
            Shown::of(wire, &self.prefix, gates)
        });
        let model = self.shown(gates);
        macro_rules! same {
            ($($field:ident $name:literal),+) => {$(
                must!(
                    shown.$field == model.$field,
                    "{}: expected {:?}, got {:?}", $name, model.$field, shown.$field
                );
            )+};
        }
        same!(
            total "QCT", executions "EIDC", groups "n and c", ready "chg_ready", wait "chg_wait",
            busy "chg_busy", gated "chg_gated"
        );
        Ok(())
    }
}
