//! Test stage: an archive in PostgreSQL, a space in Redis, and a mirror between them.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Child, Command, ExitStatus, Stdio};

use postgres::Client;
use redis_tests::{Outcome, Reply, Server, ends, outcome, until, until_some, within};
use tempfile::TempDir;

use crate::tags_sync::postgres::Postgres;
use crate::tool::tool;

/// Tags by id, separated by spaces.
pub type Space = BTreeMap<String, String>;

/// Both servers.
pub struct Stage {
    pub postgres: Postgres,
    pub redis: Server,
}

impl Stage {
    /// Creates an archive with these collections, of ten organizations, every third one private. Its table has the
    /// trigger that `--print-sql` prints.
    pub fn new(collections: u32) -> Stage {
        let stage = Stage {
            postgres: Postgres::start(),
            redis: Server::start(),
        };
        let mut sql = stage.sql();
        sql.batch_execute(
            "CREATE TABLE collection (id int PRIMARY KEY, organization_id int, private boolean)",
        )
        .unwrap();
        let printed = crawlspace("--print-sql").exits(0).out;
        sql.batch_execute(&printed).unwrap();
        stage.fill(&mut sql, 1, collections);
        stage
    }

    /// Adds collections.
    pub fn fill(&self, sql: &mut Client, first: u32, last: u32) {
        sql.execute(
            "INSERT INTO collection SELECT n, n % 10, n % 3 = 0 FROM generate_series($1::int8, $2::int8) n",
            &[&i64::from(first), &i64::from(last)],
        )
        .unwrap();
    }

    /// Opens a connection to the database.
    pub fn sql(&self) -> Client {
        self.postgres.client()
    }

    /// Returns the expected contents of the space, from the table.
    pub fn expected(&self, sql: &mut Client) -> Space {
        let rows = sql.query("SELECT id, organization_id, private FROM collection", &[]);
        rows.unwrap()
            .iter()
            .map(|row| {
                let (id, org): (i32, Option<i32>) = (row.get(0), row.get(1));
                let private: Option<bool> = row.get(2);
                let org = org.map(|org| format!("org:{org}"));
                let private = (private != Some(false)).then(|| "private".to_owned());
                let tags: Vec<String> = org.into_iter().chain(private).collect();
                (format!("coll:{id}"), tags.join(" "))
            })
            .filter(|(_, tags)| !tags.is_empty())
            .collect()
    }

    /// Returns the contents of the space.
    pub fn space(&self) -> Space {
        self.space_of("TAG")
    }

    /// Returns the contents of the space of one kind.
    pub fn space_of(&self, kind: &str) -> Space {
        let mut wire = self.redis.wire();
        let mut space = Space::new();
        let mut cursor = "0".to_owned();
        loop {
            let page = wire.ok_line(format!("TAGS.SCAN tags {kind} {cursor} COUNT 1000"));
            let [next, entries] = page.items() else {
                panic!("a cursor and entries: {page:?}");
            };
            for entry in entries.texts().chunks_exact(2) {
                space.insert(entry[0].clone(), entry[1].clone());
            }
            cursor = match next {
                Reply::Int(n) => n.to_string(),
                other => other.text(),
            };
            if cursor == "0" {
                return space;
            }
        }
    }

    /// Returns the tags of an id.
    pub fn tags(&self, id: &str) -> String {
        let got = self.redis.wire().ok_line(format!("TAGS.GET tags TAG {id}"));
        got.texts().join(" ")
    }

    /// Waits until the space equals the table.
    #[track_caller]
    pub fn settled(&self, sql: &mut Client) {
        let expected = self.expected(sql);
        let mut found = Space::new();
        let equal = within(std::time::Duration::from_secs(60), || {
            found = self.space();
            (found == expected).then_some(())
        });
        if equal.is_none() {
            assert_eq!(found, expected);
        }
    }

    /// Runs `crawlspace tags sync` with these arguments.
    pub fn run(&self, arguments: &str) -> Outcome {
        crawlspace(&self.arguments(arguments))
    }

    /// Runs `crawlspace tags sync`, which must fail without naming a password, and returns its error text.
    pub fn refused(&self, arguments: &str) -> String {
        let said = ends(command(&self.arguments(arguments)), 1).errors;
        assert!(!said.contains("cret"), "a password is shown: {said}");
        said
    }

    /// Starts `crawlspace tags sync` with these arguments in the background.
    pub fn follow(&self, arguments: &str) -> Sync {
        Sync::start(&self.arguments(arguments))
    }

    /// Returns the arguments, with source and target unless they contain them.
    fn arguments(&self, arguments: &str) -> String {
        let mut all = arguments.to_owned();
        let mut unless = |given: &[&str], name: &str, value: String| {
            if !given.iter().any(|given| arguments.contains(given)) {
                all = format!("{name} {value} {all}");
            }
        };
        unless(&["--redis"], "--redis", self.redis.url());
        unless(&["--key"], "--key", "tags".to_owned());
        let source = ["--postgres ", "--csv"];
        unless(&source, "--postgres", self.postgres.url());
        all
    }
}

/// Runs `crawlspace tags sync` to its end.
pub fn crawlspace(arguments: &str) -> Outcome {
    outcome(command(arguments))
}

fn command(arguments: &str) -> Command {
    let mut command = tool(format!("tags sync {arguments}"));
    command.env_remove("PGPASSWORD");
    command
}

/// A mirror in the background. Dropping it kills the mirror; its output is printed if the test is failing.
pub struct Sync {
    dir: TempDir,
    child: Child,
}

impl Sync {
    fn start(arguments: &str) -> Sync {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(dir.path().join(name)).unwrap();
        let child = command(arguments)
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .expect("the tool runs");
        Sync { dir, child }
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap()
    }

    /// Returns its standard output.
    pub fn out(&self) -> String {
        self.read("out")
    }

    /// Returns its standard error.
    pub fn errors(&self) -> String {
        self.read("err")
    }

    /// Returns the number of loads published.
    pub fn loads(&self) -> usize {
        self.out().matches("loaded ").count()
    }

    /// Waits for a load beyond this number.
    pub fn loaded_after(&self, loads: usize) {
        until("everything is loaded", || self.loads() > loads);
    }

    /// Returns true if the process is running.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for the process to end.
    pub fn end(&mut self) -> ExitStatus {
        until_some("the mirror ends", || self.child.try_wait().unwrap())
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        let kill = Command::new("kill")
            .args([format!("-{name}"), self.child.id().to_string()])
            .status();
        assert!(kill.expect("kill runs").success(), "it was there");
    }
}

impl Drop for Sync {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let (out, errors) = (self.out(), self.errors());
            let out: Vec<&str> = out.lines().rev().take(40).collect();
            let out: Vec<&str> = out.into_iter().rev().collect();
            eprintln!("--- the mirror ---\n{}\n{errors}\n---", out.join("\n"));
        }
    }
}
