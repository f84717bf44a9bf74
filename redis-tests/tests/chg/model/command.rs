//! A command of a history. Tokens are named by the step that was granted them, so that a history
//! can be played again with steps left out.

use redis_tests::Word;

/// A lease: the step that was granted it, and which of that step's leases it is.
pub type Grant = (usize, usize);

/// What a worker shows as its token.
#[derive(Clone, Copy, Debug)]
pub enum Token {
    /// The token of this lease.
    Of(Grant),
    /// Any number.
    Number(i64),
}

/// When a group may be fetched from again.
#[derive(Clone, Debug)]
pub enum When {
    /// At this time.
    At(i64),
    /// After this pause.
    Delay(i64),
    /// After a pause that the server computes.
    Facts(Facts),
}

/// What a worker knows of its fetch.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub elapsed: i64,
    /// As text and as thousandths.
    pub factor: Option<(&'static str, i64)>,
    pub min: Option<i64>,
    pub max: Option<i64>,
    pub crawl_delay: Option<i64>,
    pub retry_after: Option<i64>,
    pub status: Option<i64>,
}

/// The end of a fetch.
#[derive(Clone, Debug)]
pub struct Release {
    pub chg: String,
    pub token: Token,
    pub when: When,
    pub done: Option<(String, Option<i64>)>,
    pub retry: Option<i64>,
    /// `NEXT`, with the length of the lease.
    pub next: Option<Option<i64>>,
}

/// One URI or one count of an addition.
#[derive(Clone, Debug)]
pub struct Item {
    pub chg: String,
    pub at: i64,
    /// Depth and URI, when the frontier is to keep it.
    pub uri: Option<(u32, String)>,
}

/// Whom a pause holds.
#[derive(Clone, Debug)]
pub enum Whom {
    All,
    Group(String),
    Execution(String),
}

/// A command.
#[derive(Clone, Debug)]
pub enum Command {
    Add {
        execution: String,
        seq: Option<(String, i64)>,
        items: Vec<Item>,
    },
    AddUri {
        execution: String,
        weight: Option<i64>,
        items: Vec<Item>,
    },
    Next {
        lease: Option<i64>,
        count: Option<i64>,
    },
    Release(Release),
    Extend {
        chg: String,
        token: Token,
        ms: i64,
    },
    Sweep {
        limit: Option<i64>,
    },
    Expired {
        count: Option<i64>,
    },
    Block {
        chg: String,
        until: i64,
    },
    Pause {
        whom: Whom,
        on: bool,
    },
    Limit {
        chg: String,
        parallel: Option<i64>,
        gap: Option<i64>,
        budget: Option<i64>,
    },
    Group {
        group: String,
        members: Vec<String>,
    },
    Move {
        from: String,
        to: String,
    },
    Drop {
        execution: String,
    },
    Why {
        chg: String,
    },
    Info,
    Check,
    Repair,
    /// The server writes its data out and reads it in again.
    Reload,
    /// A plain client queues a group.
    PushReady {
        chg: String,
    },
    /// A plain client queues a group for later.
    PutWait {
        chg: String,
        at: i64,
    },
    /// A command that must be refused: its name and its arguments.
    Bad(&'static str, Vec<String>),
}

impl Command {
    /// Its words at `now`. None when it shows the token of a lease that was never granted.
    pub fn words(
        &self,
        prefix: &str,
        now: i64,
        token: impl Fn(Token) -> Option<i64>,
    ) -> Option<Vec<Vec<u8>>> {
        let key = |name: &str| format!("{prefix}{name}").word();
        let mut words = Words(Vec::new());
        let name = match self {
            Command::Reload => return Some(vec!["DEBUG".word(), "RELOAD".word()]),
            Command::PushReady { chg } => {
                return Some(vec!["RPUSH".word(), key("chg_ready"), chg.word()]);
            }
            Command::PutWait { chg, at } => {
                let words = ["ZADD".word(), key("chg_wait"), at.word(), chg.word()];
                return Some(words.into());
            }
            Command::Add {
                execution,
                seq,
                items,
            } => {
                words.put(execution);
                if let Some((writer, n)) = seq {
                    words.put("SEQ").put(writer).put(n);
                }
                for item in items {
                    words.put(&item.chg).put(item.at);
                }
                "ADD"
            }
            Command::AddUri {
                execution,
                weight,
                items,
            } => {
                words.put(execution).option("WEIGHT", weight);
                for item in items {
                    let (depth, uri) = item.uri.as_ref()?;
                    words.put(&item.chg).put(item.at).put(*depth).put(uri);
                }
                "ADDURI"
            }
            Command::Next { lease, count } => {
                words.option("LEASE", lease).option("COUNT", count);
                "NEXT"
            }
            Command::Release(release) => {
                words.put(&release.chg).put(token(release.token)?);
                release.rest(&mut words);
                "RELEASE"
            }
            Command::Extend { chg, token: t, ms } => {
                words.put(chg).put(token(*t)?).put(ms);
                "EXTEND"
            }
            Command::Sweep { limit } => {
                words.option("LIMIT", limit);
                "SWEEP"
            }
            Command::Expired { count } => {
                words.option("COUNT", count);
                "EXPIRED"
            }
            Command::Block { chg, until } => {
                words.put(chg).put("UNTIL").put(until);
                "BLOCK"
            }
            Command::Pause { whom, on } => {
                match whom {
                    Whom::All => &mut words,
                    Whom::Group(chg) => words.put(chg),
                    Whom::Execution(execution) => words.put("EXECUTION").put(execution),
                };
                if *on { "PAUSE" } else { "RESUME" }
            }
            Command::Limit {
                chg,
                parallel,
                gap,
                budget,
            } => {
                words.put(chg).option("PARALLEL", parallel);
                words.option("GAP", gap).option("BUDGET", budget);
                "LIMIT"
            }
            Command::Group { group, members } => {
                words.put(group);
                members.iter().for_each(|chg| {
                    words.put(chg);
                });
                "GROUP"
            }
            Command::Move { from, to } => {
                words.put(from).put(to);
                "MOVE"
            }
            Command::Drop { execution } => {
                words.put(execution);
                "DROP"
            }
            Command::Why { chg } => {
                words.put(chg);
                "WHY"
            }
            Command::Info => "INFO",
            Command::Check => "CHECK",
            Command::Repair => "REPAIR",
            Command::Bad(name, arguments) => {
                arguments.iter().for_each(|argument| {
                    words.put(argument);
                });
                name
            }
        };
        let mut all = vec![format!("CHG.{name}").word(), prefix.word()];
        all.extend(["NOW".word(), now.word()]);
        all.extend(words.0);
        Some(all)
    }
}

impl Release {
    fn rest(&self, words: &mut Words) {
        match &self.when {
            When::At(at) => words.put("AT").put(at),
            When::Delay(ms) => words.put("DELAY").put(ms),
            When::Facts(facts) => words
                .put("ELAPSED")
                .put(facts.elapsed)
                .option("FACTOR", &facts.factor.map(|factor| factor.0))
                .option("MIN", &facts.min)
                .option("MAX", &facts.max)
                .option("CRAWLDELAY", &facts.crawl_delay)
                .option("RETRYAFTER", &facts.retry_after)
                .option("STATUS", &facts.status),
        };
        if let Some((execution, count)) = &self.done {
            words.option("DONE", &Some(execution));
            if let Some(count) = count {
                words.put(count);
            }
        }
        words.option("RETRY", &self.retry);
        if let Some(lease) = &self.next {
            words.put("NEXT").option("LEASE", lease);
        }
    }
}

struct Words(Vec<Vec<u8>>);

impl Words {
    fn put(&mut self, word: impl Word) -> &mut Words {
        self.0.push(word.word());
        self
    }

    fn option<T: Word>(&mut self, name: &str, value: &Option<T>) -> &mut Words {
        if let Some(value) = value {
            self.put(name).put(value);
        }
        self
    }
}
