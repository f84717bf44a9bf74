//! Dumps of native values that were damaged and then given a correct checksum must be refused and
//! do no harm.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crawlspace_compact::envelope::{Envelope, HEAD};
use redis_tests::matrix::{Family, PREFIX};
use redis_tests::payload::{Payload, sealed};
use redis_tests::{Reply, Rng, add, cmd, commit, ok, plainly, rounds};

use crate::stage::Stage;

for_every_family!(
    native values:
    one_changed_byte_of_a_chunk_is_noticed,
    other_versions_are_refused_and_logged,
    damaged_dumps_are_refused,
    randomly_damaged_dumps_do_no_harm,
    chunks_with_damaged_content_do_no_harm,
    damaged_files_crash_no_server,
);

/// A state with a native value, and the dump of that value.
struct Damage {
    stage: Stage,
    key: String,
    dump: Vec<u8>,
    digest: String,
    /// Replies of commands that read the state.
    told: Vec<(&'static str, Reply)>,
    refused: usize,
    equal: usize,
}

/// Returns the name of a key with a native value, after the prefix.
fn native_key(family: &Family) -> &'static str {
    match (family.name, family.storage) {
        ("DEDUPE", _) => "packedhashes",
        ("CHG", "packed") => "chg_packed",
        ("CHG", _) => "chg_uris:kept",
        _ => "",
    }
}

impl Damage {
    fn of(family: &Family) -> Damage {
        let mut stage = Stage::of(family);
        add_odd(&mut stage);
        let mut damage = Damage {
            stage,
            key: format!("{PREFIX}{}", native_key(family)),
            dump: Vec::new(),
            digest: String::new(),
            told: Vec::new(),
            refused: 0,
            equal: 0,
        };
        damage.dump("no");
        damage
    }

    /// Dumps the current value, with or without compression.
    fn dump(&mut self, compression: &str) {
        let c = &mut self.stage.wire;
        ok!(c, "CONFIG", "SET", "rdbcompression", compression);
        self.dump = ok!(c, "DUMP", self.key).bytes().to_vec();
        assert_eq!(sealed(self.dump.clone()), self.dump);
        self.digest = self.digest_of(&self.key.clone());
        self.told = self.stage.reads(&mut self.stage.server.wire());
    }

    fn digest_of(&mut self, key: &str) -> String {
        let digests = ok!(self.stage.wire, "DEBUG", "DIGEST-VALUE", key);
        digests.texts().remove(0)
    }

    /// Restores a damaged dump. It must be refused, or be another encoding of the same value.
    fn try_it(&mut self, damaged: Vec<u8>, what: &str) {
        let dump = sealed(damaged);
        let reply = cmd!(self.stage.wire, "RESTORE", "other", 0, dump, "REPLACE");
        if reply.is_error() {
            self.refused += 1;
        } else {
            let is = self.digest_of("other");
            assert_eq!(is, self.digest, "{what}: accepted, but gives another value");
            self.equal += 1;
        }
    }

    /// Fails unless the value is unchanged and the state is consistent.
    fn assert_unharmed(mut self) {
        let (refused, equal) = (self.refused, self.equal);
        assert!(refused > 9 * equal, "{refused} refused, {equal} equal");
        assert!(self.stage.server.is_alive());
        assert_eq!(self.stage.server.info_number("panics"), 0);
        assert_eq!(self.digest_of(&self.key.clone()), self.digest);
        let told = self.stage.reads(&mut self.stage.server.wire());
        assert_eq!(told, self.told);
    }
}

/// Checks that values of other versions, including those of earlier builds, are refused: the type
/// and each chunk have a version number.
fn other_versions_are_refused_and_logged(family: &Family) {
    let mut damage = Damage::of(family);
    let good = Payload::of(&damage.dump);
    let now = good.chunks[0][0];
    for version in [now - 1, now + 1] {
        let mut chunk = good.clone();
        chunk.chunks[0][0] = version;
        for payload in [chunk, good.clone().of_version(version.into())] {
            let words = [&b"RESTORE"[..], b"other", b"0", &payload.dump()];
            damage.stage.wire.expect_error(&words);
            damage.refused += 1;
        }
        let log = damage.stage.server.log();
        for what in ["it", "a chunk of"] {
            let line = |line: &&str| {
                line.contains(&format!("cannot be read: {what}"))
                    && line.contains(&format!(
                        "has version {version}; this module reads version {now}"
                    ))
            };
            assert!(log.lines().any(|at| line(&at)), "{what}, {version}: {log}");
        }
    }
    damage.assert_unharmed();
}

fn one_changed_byte_of_a_chunk_is_noticed(family: &Family) {
    let mut damage = Damage::of(family);
    let good = Payload::of(&damage.dump);
    for (n, chunk) in good.chunks.iter().enumerate() {
        for (at, flip) in (0..chunk.len()).flat_map(|at| [0x01, 0x10, 0xff].map(|flip| (at, flip)))
        {
            let mut payload = good.clone();
            payload.chunks[n][at] ^= flip;
            let words = [&b"RESTORE"[..], b"other", b"0", &payload.dump()];
            let error = damage.stage.wire.expect_error(&words);
            let what = format!("byte {at} of chunk {n} ^ {flip:#x}: {error}");
            assert!(error.contains("Bad data format"), "{what}");
            damage.refused += 1;
        }
    }
    damage.assert_unharmed();
}

fn damaged_dumps_are_refused(family: &Family) {
    let mut damage = Damage::of(family);
    let dump = damage.dump.clone();
    // The first byte selects one of Redis' own types; the last ten bytes are the footer.
    let end = dump.len() - 10;
    for at in 1..end {
        for flip in [0x01, 0x02, 0x10, 0x40, 0x80, 0xff] {
            let mut damaged = dump.clone();
            damaged[at] ^= flip;
            damage.try_it(damaged, &format!("byte {at} of {end} ^ {flip:#x}"));
        }
        let mut damaged = dump.clone();
        damaged.remove(at);
        damage.try_it(damaged, &format!("without byte {at}"));
        let mut damaged = dump.clone();
        damaged.insert(at, dump[at]);
        damage.try_it(damaged, &format!("byte {at} twice"));
        let cut = [&dump[..at], &dump[end..]].concat();
        damage.try_it(cut, &format!("cut at {at}"));
    }
    damage.assert_unharmed();
}

/// Adds content that few values have: unusual bytes, invalid records, owners without records,
/// staged tables.
fn add_odd(stage: &mut Stage) {
    let c = &mut stage.wire;
    match stage.family.name {
        "DEDUPE" => plainly(c, PREFIX, |c| {
            let key = |name: &str| format!("{PREFIX}{name}");
            ok!(c, "HSET", key("h:odd"), b"\xff", "", "", "x");
            ok!(
                c,
                "HSET",
                key("allhashes"),
                b"\xff",
                "odd",
                "no record",
                "odd"
            );
            ok!(c, "SADD", key("allcrawls"), "odd");
        }),
        "CHG" => {
            ok!(
                c,
                "CHG.ADDURI",
                PREFIX,
                b"\xff",
                "kept",
                0,
                9,
                b"\0\xff\r\n"
            );
        }
        _ => {
            ok!(c, "TAGS.ADD", PREFIX, "FILE", b"d/\xff\0", b"\xfe\x01");
            ok!(c, "TAGS.RULESET", PREFIX, b"\xff", "url", b"\\xff", b"\xfe");
            for line in [
                "LOAD TAG STAGE coll:9 org:9",
                "LOAD RECORD STAGE",
                "POINTSET deep '@p-1 & filename~\"^f\"'",
            ] {
                c.expect_ok(&stage.state.words(line));
            }
        }
    }
}

/// Makes the value large.
fn grow(stage: &mut Stage) {
    let numbers = 0..2000;
    match stage.family.name {
        "DEDUPE" => {
            add(&mut stage.wire, PREFIX, "large", 100..2100);
            commit(&mut stage.wire, PREFIX, "large");
        }
        "CHG" => {
            let uris =
                numbers.map(|n| format!(" kept <soon> {} http://kept/{n}/{}", n % 5, n * 7919));
            let line = format!("ADDURI crawl{}", uris.collect::<String>());
            stage.wire.expect_ok(&stage.state.words(&line));
        }
        _ => {
            for (kind, step) in [("FILE", 7), ("RECORD", 3)] {
                let pairs = numbers
                    .clone()
                    .map(|n| format!(" f{n} 't{} own'", n % step));
                let line = format!("LOAD {kind} MERGE{}", pairs.collect::<String>());
                stage.wire.expect_ok(&stage.state.words(&line));
            }
        }
    }
}

fn randomly_damaged_dumps_do_no_harm(family: &Family) {
    let mut rng = Rng::new("randomly_damaged_dumps_do_no_harm");
    let mut damage = Damage::of(family);
    let all = rounds("DAMAGES", 1400);
    for (size, rounds) in [("small", all * 5 / 14), ("large", all / 7)] {
        if size == "large" {
            grow(&mut damage.stage);
        }
        for compression in ["no", "yes"] {
            damage.dump(compression);
            let end = damage.dump.len() as u64 - 10;
            for round in 0..rounds {
                let mut damaged = damage.dump.clone();
                for _ in 0..1 + rng.below(3) {
                    let at = 10 + rng.below(end - 10) as usize;
                    damaged[at] = rng.bits() as u8;
                }
                damage.try_it(damaged, &format!("{size}, {compression}, {round}"));
            }
        }
    }
    damage.assert_unharmed();
}

/// Changes the content of a chunk and gives the chunk a correct checksum, as an attacker could. Such a value may be
/// accepted, and has to be usable then.
fn chunks_with_damaged_content_do_no_harm(family: &Family) {
    let mut rng = Rng::new("chunks_with_damaged_content_do_no_harm");
    let mut damage = Damage::of(family);
    let good = Payload::of(&damage.dump);
    let (key, mut accepted) = (damage.key.clone(), 0);
    let rounds = rounds("DAMAGES", 1400) / 4;
    for _ in 0..rounds {
        let mut payload = good.clone();
        let chunk = &mut payload.chunks[0];
        for _ in 0..1 + rng.below(3) {
            let at = HEAD + rng.below((chunk.len() - HEAD) as u64) as usize;
            chunk[at] = match rng.below(3) {
                0 => chunk[at].wrapping_add(1),
                1 => *rng.pick(&[0, 0x7f, 0x80, 0xff]),
                _ => rng.bits() as u8,
            };
        }
        let version = chunk[0];
        let envelope = Envelope { what: "", version };
        envelope.seal(chunk, 0);
        let dump = payload.dump();
        let c = &mut damage.stage.wire;
        if cmd!(c, "RESTORE", key, 0, dump, "REPLACE").is_error() {
            continue;
        }
        accepted += 1;
        damage.stage.reads(&mut damage.stage.server.wire());
        let line = rng.pick::<&str>(family.samples);
        let line = line.replace("BLOCK 1", "BLOCK 0");
        let words = damage.stage.words(&line);
        ok!(damage.stage.wire, "MULTI");
        damage.stage.wire.call(&words);
        damage.stage.wire.call(&["EXEC"]);
        damage.stage.wire.call(&["DEBUG", "DIGEST"]);
        let panics = damage.stage.server.info_number("panics");
        assert_eq!(panics, 0, "{line} on {}", payload.chunks[0].escape_ascii());
        damage.stage.reset();
    }
    eprintln!("{}: {accepted} of {rounds} accepted", family.title());
    assert!(damage.stage.server.is_alive());
}

/// Damages the native value in an RDB file, then fixes the checksum of the file; also damages any byte of an
/// append-only file.
fn damaged_files_crash_no_server(family: &Family) {
    let mut rng = Rng::new("damaged_files_crash_no_server");
    let (mut refused, mut loaded) = (0, 0);
    for (is_rdb, options) in [
        (true, family.options().rdb()),
        (false, family.options().aof_unsynced(false)),
    ] {
        let mut server = options.start();
        let mut c = server.wire();
        ok!(c, "CONFIG", "SET", "rdbcompression", "no");
        family.fill(&mut c, PREFIX);
        let value = ok!(c, "DUMP", format!("{PREFIX}{}", native_key(family)));
        let value = Payload::of(value.bytes()).chunks.remove(0);
        let path = if is_rdb {
            ok!(c, "SAVE");
            server.dir().join("dump.rdb")
        } else {
            let folder = server.dir().join("appendonlydir");
            folder.join("appendonly.aof.1.incr.aof")
        };
        server.kill9();
        let whole = std::fs::read(&path).expect("a file");
        let mut range = 0..whole.len();
        if is_rdb {
            let at = whole.windows(HEAD).position(|part| part == &value[..HEAD]);
            let at = at.expect("the file has the value");
            range = at - 8..at + value.len();
        }
        for _ in 0..rounds("DAMAGES", 1400) / 350 {
            let mut damaged = whole.clone();
            let at = range.start + rng.below(range.len() as u64) as usize;
            if rng.chance(25) {
                damaged.truncate(at);
            } else {
                damaged[at] ^= 1 << rng.below(8);
            }
            if is_rdb {
                damaged = sealed(damaged);
            }
            std::fs::write(&path, damaged).expect("the directory is writable");
            let before = server.log().len();
            let started = catch_unwind(AssertUnwindSafe(|| server.restart()));
            let log = server.log().split_off(before);
            assert!(!log.contains("BUG REPORT"), "byte {at}: {log}");
            if started.is_ok() {
                loaded += 1;
                assert_eq!(server.info_number("panics"), 0, "byte {at}");
                server.kill9();
            } else {
                refused += 1;
            }
        }
    }
    eprintln!(
        "{}: {refused} files refused, {loaded} loaded",
        family.title()
    );
}
