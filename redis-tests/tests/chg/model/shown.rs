//! The plain keys of a frontier as a plain client reads them.

use std::collections::BTreeMap;
use std::fmt;

use redis_tests::{Reply, Wire};

/// What the plain keys of a frontier say.
#[derive(Default)]
pub struct Shown {
    /// `chg_ready`, from its head.
    pub ready: Vec<String>,
    /// `chg_wait` with its scores.
    pub wait: BTreeMap<String, f64>,
    /// `chg_busy` with its scores.
    pub busy: BTreeMap<String, f64>,
    /// `n` and `c` of each hash.
    pub groups: BTreeMap<String, (Option<i64>, Option<i64>)>,
    /// `EIDC`, without executions that have nothing.
    pub executions: BTreeMap<String, i64>,
    /// `QCT`.
    pub total: i64,
    /// Groups queued behind a shared gate.
    pub gated: Vec<String>,
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "chg_ready {:?}", self.ready)?;
        writeln!(f, "chg_wait  {:?}", self.wait)?;
        writeln!(f, "chg_busy  {:?}", self.busy)?;
        writeln!(f, "gated     {:?}", self.gated)?;
        write!(f, "n and c   {:?}", self.groups)
    }
}

impl Shown {
    /// Reads the frontier `prefix`, whose shared gates have these names.
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
            gated: gated.iter().flat_map(Reply::texts).collect(),
        }
    }
}

fn number(reply: &Reply) -> Option<i64> {
    let text = (!reply.is_nil()).then(|| reply.text())?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{text:?} is no whole number")))
}

fn scores(reply: &Reply) -> BTreeMap<String, f64> {
    let pairs = reply.pairs().into_iter();
    let scores = pairs.map(|(id, score)| (id.text(), score.text().parse().expect("a score")));
    scores.collect()
}
