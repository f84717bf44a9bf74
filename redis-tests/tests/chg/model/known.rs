//! Random histories of a packed frontier that remembers its URLs, compared with a model (see
//! `redis_tests::url_model`). After every command, the states of all URLs and their counts must be
//! those of the model, also after the data were loaded from a file.

use redis_tests::history::{self, Log, Stage, Verdict};
use redis_tests::url_model::{
    Ask, End, Found, Limits, Select, Settled, Step, UNIT, UrlModel, When,
};
use redis_tests::{Options, Reply, Rng, Server, T0, Wire, Word, assert_error, int, must, ok};

const P: &str = "{m}:";
const ATTEMPTS: i64 = 2;
const GROUPS: [&str; 4] = ["a", "b.example", "c d\r\n", "EXECUTION"];
const EXECUTIONS: [&str; 3] = ["crawl", "third crawl", "ITEMS"];
/// Number of different URLs of an execution.
const URLS: u64 = 9;

fn options() -> Options {
    let attempts = ATTEMPTS.to_string();
    let args = ["chg-simulated-time", "yes", "chg-attempts", &attempts];
    let options = Options::new().packed().module_args(&args);
    options.aof_unsynced(true)
}

/// A frontier on a server, and the model of it.
struct Remembering {
    wire: Wire,
    model: UrlModel,
}

impl Remembering {
    fn new(server: &Server, rng: &mut Rng) -> Remembering {
        let mut wire = server.wire();
        ok!(wire, "FLUSHALL");
        let mut stage = Remembering {
            wire,
            model: UrlModel::new(T0, ATTEMPTS),
        };
        let packed = stage.call(&["PACK"], &mut Log::default());
        assert_eq!(packed, int(0));
        for execution in EXECUTIONS {
            let shape = *rng.pick(&["BITS 96 TEXT YES", "BITS 128", ""]);
            if !shape.is_empty() {
                let words = [vec!["SPACE", execution], shape.split(' ').collect()].concat();
                let made = stage.call(&words, &mut Log::default());
                assert!(!made.is_error(), "{made:?}");
                stage.model.remember(execution);
            }
        }
        stage
    }

    fn call(&mut self, words: &[impl AsRef<str>], log: &mut Log) -> Reply {
        let words = self.with_time(words);
        log.call(&mut self.wire, &words)
    }

    fn with_time(&self, words: &[impl AsRef<str>]) -> Vec<Vec<u8>> {
        let name = format!("CHG.{}", words[0].as_ref());
        let mut all = vec![name.word(), P.word(), "NOW".word(), self.model.now.word()];
        all.extend(words[1..].iter().map(|word| word.as_ref().word()));
        all
    }

    fn send(&mut self, step: &Step, log: &mut Log) -> Verdict {
        let Some(words) = self.model.words(step) else {
            return Ok(());
        };
        let reply = self.call(&words, log);
        self.model.follow(step, &words, &reply)?;
        if matches!(step, Step::Unpack) && !reply.is_error() {
            let packed = self.call(&["PACK"], log);
            must!(!packed.is_error(), "{packed:?}");
        }
        Ok(())
    }

    /// Compares the states of all URLs, and their counts.
    fn look(&mut self) -> Verdict {
        for execution in EXECUTIONS {
            let names = self.model.names(execution, &["unknown"]);
            let words: Vec<_> = names.iter().map(String::as_str).collect();
            let words = [vec!["KNOWN", execution], words].concat();
            let reply = self.call(&words, &mut Log::default());
            self.model.knows(execution, &names, &reply)?;
            let reply = self.call(&["COUNT", execution], &mut Log::default());
            self.model.counts(execution, &reply)?;
        }
        Ok(())
    }
}

impl Stage for Remembering {
    type Step = Step;

    fn draw(&mut self, rng: &mut Rng) -> Step {
        step(rng)
    }

    fn run(&mut self, step: &Step, log: &mut Log) -> Verdict {
        match step {
            Step::Pass(ms) => self.model.now += ms,
            Step::PassTo(nth) => {
                let mut moments = self.model.moments();
                moments.sort_unstable();
                let nth = moments.get(*nth).or(moments.last());
                self.model.now = nth.copied().unwrap_or(self.model.now + 1);
            }
            Step::Reload { aof } => {
                let name = if *aof { "LOADAOF" } else { "RELOAD" };
                let words = ["DEBUG", name].map(|word| word.word());
                let reply = log.call(&mut self.wire, &words);
                must!(!reply.is_error(), "{reply:?}");
            }
            step => {
                if step.needs_ended_leases() && self.model.has_expired() {
                    self.send(&Step::Expired, log)?;
                }
                self.send(step, log)?;
            }
        }
        self.look()
    }

    fn check(&mut self, log: &mut Log) -> Verdict {
        let reply = self.call(&["CHECK"], log);
        self.model.is_conserved(&reply)
    }
}

fn some<T>(rng: &mut Rng, percent: u64, value: impl FnOnce(&mut Rng) -> T) -> Option<T> {
    rng.chance(percent).then(|| value(rng))
}

fn name(rng: &mut Rng) -> String {
    format!("http://host/{} x", rng.below(URLS))
}

fn names(rng: &mut Rng) -> Vec<String> {
    (0..1 + rng.below(4)).map(|_| name(rng)).collect()
}

fn payload(rng: &mut Rng) -> String {
    let long = if rng.chance(5) { 5000 } else { 10 };
    "p".repeat(rng.below(long) as usize)
}

fn some_time(rng: &mut Rng) -> i64 {
    match rng.below(10) {
        0..=5 => 0,
        6 => -(rng.below(100) as i64),
        _ => rng.below(900) as i64,
    }
}

fn ask(rng: &mut Rng) -> Ask {
    Ask {
        lease: 1 + rng.below(1500) as i64,
        uris: some(rng, 50, |rng| 1 + rng.below(3) as i64),
        gate: some(rng, 25, |rng| rng.below(600) as i64),
        execution: some(rng, 30, |rng| *rng.pick(&EXECUTIONS)),
    }
}

fn found(rng: &mut Rng, form: &str) -> Found {
    let name = name(rng);
    let payload = payload(rng);
    let page = rng.below(2);
    Found {
        chg: rng.pick::<&str>(&GROUPS),
        at: some_time(rng),
        depth: rng.below(3) as i64,
        page: form.starts_with("KEY").then(|| format!("{name}?{page}")),
        payload: Some(payload).filter(|_| form.ends_with("PAYLOAD")),
        name,
    }
}

/// Returns a lease: usually the last one, or one of the last.
fn which(rng: &mut Rng) -> usize {
    if rng.chance(50) {
        0
    } else {
        rng.below(4) as usize
    }
}

fn release(rng: &mut Rng) -> Step {
    let statuses = [200, 404, 0, 999, 301];
    Step::Release {
        which: which(rng),
        when: match rng.below(4) {
            0 => When::At(some_time(rng)),
            1 => When::Delay(rng.below(700) as i64),
            _ => {
                let status = some(rng, 70, |rng| *rng.pick(&statuses));
                When::Elapsed(rng.below(300) as i64, status)
            }
        },
        end: match rng.below(10) {
            0 => End::Unchanged,
            1..=3 => End::Done,
            4..=5 => End::Retry(some_time(rng), some(rng, 40, payload)),
            _ => End::Later(1 + rng.below(1500) as i64),
        },
        next: some(rng, 25, ask),
    }
}

fn limit(rng: &mut Rng) -> Step {
    let limits = match rng.below(8) {
        0..=3 => Limits::Done(rng.below(4) as i64, rng.pick::<&str>(&EXECUTIONS)),
        4 => Limits::Parallel(1 + rng.below(3) as i64),
        5 => Limits::Delay(rng.below(300) as i64 - 1),
        _ => Limits::Budget((rng.below(12) as i64 - 5).max(-1)),
    };
    Step::Limit {
        chg: rng.pick::<&str>(&GROUPS),
        limits,
    }
}

/// Draws the next step.
fn step(rng: &mut Rng) -> Step {
    let execution = *rng.pick(&EXECUTIONS);
    let chg = *rng.pick(&GROUPS);
    match rng.below(1000) {
        0..=179 => {
            let form = *rng.pick(&["URI", "KEY", "PAYLOAD", "KEYPAYLOAD"]);
            let items = 1 + rng.below(3);
            Step::Discover {
                execution,
                form,
                fresh: some(rng, 40, |rng| *rng.pick(&[0, UNIT / 2, 2 * UNIT])),
                items: (0..items).map(|_| found(rng, form)).collect(),
            }
        }
        180..=209 => Step::AddUri {
            execution,
            items: vec![found(rng, "URI"), found(rng, "URI")],
        },
        210..=269 => Step::Settle {
            execution,
            status: some(rng, 30, |rng| rng.below(1000) as i64),
            with_payload: rng.chance(40),
            items: vec![Settled {
                chg,
                name: name(rng),
                at: some(rng, 60, some_time),
                payload: payload(rng),
            }],
        },
        270..=294 => Step::Forget {
            execution,
            names: names(rng),
        },
        295..=309 => Step::Select {
            execution,
            select: Select {
                chg: some(rng, 30, |_| chg),
                before: some(rng, 30, |rng| rng.below(2) as i64),
                done: some(rng, 30, |rng| rng.chance(50)),
            },
        },
        310..=509 => {
            let chg = some(rng, 10, |_| chg);
            let count = some(rng, 25, |rng| 1 + rng.below(3) as i64);
            Step::Next {
                ask: ask(rng),
                count: count.filter(|_| chg.is_none()),
                chg,
            }
        }
        510..=669 => release(rng),
        670..=679 => Step::Again { which: which(rng) },
        680..=739 => Step::Done {
            which: which(rng),
            names: some(rng, 60, names),
        },
        740..=769 => Step::Extend {
            which: which(rng),
            ms: 1 + rng.below(1500) as i64,
        },
        770..=794 => limit(rng),
        795..=799 => Step::Block {
            chg,
            ms: rng.below(500) as i64,
        },
        800..=819 => {
            let of_group = rng.chance(40);
            Step::Pause {
                on: rng.chance(35),
                chg: Some(chg).filter(|_| of_group),
                execution: Some(execution).filter(|_| !of_group && rng.chance(90)),
            }
        }
        820..=829 => Step::Move {
            from: chg,
            to: rng.pick::<&str>(&GROUPS),
        },
        830..=834 => Step::Drop { execution },
        835..=837 => Step::Empty { chg },
        838..=849 => Step::Sweep,
        850..=859 => Step::Expired,
        860..=861 => Step::Repair,
        862 => Step::Unpack,
        863..=869 => Step::Reload {
            aof: rng.chance(50),
        },
        870..=939 => Step::Pass(rng.below(600) as i64),
        940..=949 => Step::Pass(rng.below(2 * UNIT as u64) as i64),
        _ => Step::PassTo(rng.below(3) as usize),
    }
}

#[test]
fn random_histories_of_known_urls_match_the_model() {
    let server = options().start();
    let begin = |rng: &mut Rng| Remembering::new(&server, rng);
    let mut seen = Vec::new();
    history::play("chg_model_known", (4000, 500), begin, |stage| {
        seen.push(stage.model.figures);
    });
    let sum = |count: fn(&redis_tests::url_model::Figures) -> u64| {
        let sum: u64 = seen.iter().map(count).sum();
        sum
    };
    let reached = [
        sum(|f| f.leases),
        sum(|f| f.joint),
        sum(|f| f.freed),
        sum(|f| f.done),
        sum(|f| f.settled),
        sum(|f| f.forgotten),
        sum(|f| f.given_up),
        sum(|f| f.again),
        sum(|f| f.stale),
    ];
    assert!(reached.iter().all(|count| *count > 20), "{reached:?}");
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn copies_of_known_urls_match_the_model() {
    let mut server = options().start();
    let replica = options().replica_of(&server).start();
    let mut last = None;
    let begin = |rng: &mut Rng| Remembering::new(&server, rng);
    history::play("chg_model_known_copies", (1200, 300), begin, |mut stage| {
        server.wait_for_replica_offset(&replica);
        let check = |stage: &mut Remembering| {
            stage.look().expect("the same URLs");
            stage.check(&mut Log::default()).expect("conserved");
        };
        check(&mut stage);
        let master = std::mem::replace(&mut stage.wire, replica.wire());
        check(&mut stage);
        assert_eq!(server.digest(), replica.digest());
        stage.wire = master;
        for file in ["RELOAD", "LOADAOF"] {
            ok!(stage.wire, "DEBUG", file);
            check(&mut stage);
        }
        last = Some(stage);
    });
    let mut stage = last.expect("a history");
    server.kill9();
    server.restart();
    stage.wire = server.wire();
    stage.look().expect("the same URLs");
    stage.check(&mut Log::default()).expect("conserved");
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn model_of_known_urls_detects_wrong_replies() {
    let server = options().start();
    let mut rng = Rng::new("chg_model_known_wrong");
    let mut stage = Remembering::new(&server, &mut rng);
    let mut wrong = 0;
    for _ in 0..800 {
        let step = stage.draw(&mut rng);
        let is_exact = match &step {
            Step::Next { .. } | Step::Release { .. } => false,
            step => {
                step.needs_packed() || matches!(step, Step::AddUri { .. } | Step::Extend { .. })
            }
        };
        if stage.model.has_expired() {
            stage.send(&Step::Expired, &mut Log::default()).unwrap();
        }
        let before = stage.model.clone();
        let words = stage.model.words(&step).filter(|_| is_exact);
        let Some(words) = words else {
            stage.run(&step, &mut Log::default()).unwrap();
            continue;
        };
        let reply = stage.call(&words, &mut Log::default());
        let followed = stage.model.follow(&step, &words, &reply);
        followed.expect("the reply matches the model");
        let other = history::altered(&reply, &mut rng);
        // A dropped execution may refuse URLs.
        let has_nil =
            |reply: &Reply| matches!(reply, Reply::Array(all) if all.iter().any(Reply::is_nil));
        if !has_nil(&reply) && !has_nil(&other) {
            let verdict = before.clone().follow(&step, &words, &other);
            assert!(verdict.is_err(), "{words:?} {reply:?} {other:?}");
            wrong += 1;
        }
    }
    assert!(wrong > 150, "{wrong} replies");
}

#[test]
fn plain_frontier_refuses_the_steps_of_a_history_and_keeps_its_data() {
    let server = options().start();
    let plain = Options::new()
        .plain()
        .module_args(&["chg-simulated-time", "yes"]);
    let plain = plain.start();
    let mut c = plain.wire();
    for chg in GROUPS {
        ok!(
            c,
            "CHG.ADDURI",
            P,
            "NOW",
            T0,
            EXECUTIONS[0],
            chg,
            T0,
            0,
            "http://host/0 x"
        );
    }
    let before = plain.snapshot();
    let mut rng = Rng::new("chg_model_known_plain");
    let mut stage = Remembering::new(&server, &mut rng);
    let mut refused = 0;
    for _ in 0..600 {
        let step = stage.draw(&mut rng);
        if let Some(words) = stage.model.words(&step).filter(|_| step.needs_packed()) {
            let reply = c.call(&stage.with_time(&words));
            // No lease of the plain frontier is held.
            let is_release = matches!(step, Step::Release { .. });
            let code = if is_release { "" } else { "PLAIN " };
            assert_error(&reply, code, &format!("{words:?}"));
            refused += 1;
        }
        stage.run(&step, &mut Log::default()).unwrap();
    }
    assert!(refused > 200, "{refused} steps");
    plain.snapshot().assert_same(&before, "the plain frontier");
}
