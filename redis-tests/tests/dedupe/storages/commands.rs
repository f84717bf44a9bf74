//! Generates random commands, valid and invalid, for one index.

use crawlspace_compact::limits::dedupe::CLAIM_MS;
use redis_tests::{Rng, Word, sha256_of};

/// Crawls of the index. Some have unusual ids.
pub const CRAWLS: [&[u8]; 6] = [b"a", b"b", b"c", b"d\r\n\0", b"e e", b"\xff{f}"];

/// Crawls that plain clients write.
pub const PLAIN: [&[u8]; 2] = [b"plain", b"plain \xfe"];

/// Number of hashes. It is small, so that hashes occur several times.
pub const HASHES: u64 = 60;

/// Arguments that are invalid for every command.
const BAD: [&[u8]; 9] = [
    b"",
    b"x",
    b"-1",
    b"18446744073709551616",
    b"\xff\0\r\n",
    b"a:counts",
    b"sixteen bytes..\n.",
    b"%s%n",
    b"CRAWL",
];

const DATES: [&str; 6] = [
    "20260319102015123",
    "20260319102015",
    "2026-03-19T10:20:15Z",
    "2026-03-19T11:20:15.123+01:00",
    "20260318235959",
    "00000101000000",
];

/// Returns a hash in one of its notations.
pub fn hash(rng: &mut Rng, n: u64) -> Vec<u8> {
    let written = sha256_of(n);
    let hex = written.strip_prefix("sha256:").unwrap_or_default();
    let base32: String = hex[..32].bytes().map(|b| (b'A' + b % 26) as char).collect();
    // Each number is one hash, and determines the kind of the hash.
    match (n % 10, rng.below(4)) {
        (0, 0 | 1) => format!("sha1:{base32}"),
        (0, _) => base32,
        (1, 0 | 1) => format!("md5:{}", &hex[..32]),
        (1, 2) => hex[..32].to_uppercase(),
        (1, _) => hex[..32].to_owned(),
        (2, _) => format!("blake3:{}%\u{e9}", &hex[..40]),
        (3, 0 | 1) => format!("sha1:{}", &hex[..40]),
        (3, _) => hex[..40].to_owned(),
        (_, 0) => hex.to_owned(),
        (_, 1) => format!("SHA-256:{}", hex.to_uppercase()),
        _ => written,
    }
    .into_bytes()
}

fn url(rng: &mut Rng) -> Vec<u8> {
    let host = *rng.pick(&["http://e.com/", "https://www.example.org:8080/", "", "dns:"]);
    let mut url = host.as_bytes().to_vec();
    let tail: [&[u8]; 6] = [
        b"page",
        b"with raw spaces 7",
        b"\xff\0\r\n",
        b" ",
        b"?q=1&r=2",
        b"%20",
    ];
    url.extend(*rng.pick(&tail));
    if rng.chance(3) {
        url.extend("long/".repeat(rng.below(5000) as usize).bytes());
    }
    url
}

/// Returns the five arguments of a record.
pub fn record(rng: &mut Rng, n: u64) -> Vec<Vec<u8>> {
    let size = *rng.pick(&[0, 1, 1000 + n, 1000 + n, 70_000, u64::MAX >> 1]);
    let wacz = *rng.pick(&[0, 0, 0, 1, 7, 300, u64::MAX >> 1]);
    let date = *rng.pick(&DATES);
    let url = if rng.chance(60) {
        format!("http://e.com/{n}").into_bytes()
    } else {
        url(rng)
    };
    vec![hash(rng, n), wacz.word(), date.word(), url, size.word()]
}

/// Appends `SEQ writer n`, often with a repeated number.
fn sequence(rng: &mut Rng, words: &mut Vec<Vec<u8>>) {
    if rng.chance(20) {
        let writer = *rng.pick(&["w", "writer two"]);
        words.extend(["SEQ".word(), writer.word(), (1 + rng.below(40)).word()]);
    }
}

/// Returns one command for the index under prefix `p`. Claims never expire during a test, so that
/// results do not depend on the clock.
pub fn command(rng: &mut Rng, p: &[u8]) -> Vec<Vec<u8>> {
    let any = |rng: &mut Rng| {
        if rng.chance(20) {
            rng.pick(&PLAIN).to_vec()
        } else {
            rng.pick(&CRAWLS).to_vec()
        }
    };
    let crawl = any(rng);
    let words = |name: &str| vec![name.word(), p.to_vec()];
    let wacz = |rng: &mut Rng| format!("{}.wacz \"", rng.below(4)).into_bytes();
    match rng.below(100) {
        0..=27 => {
            let mut all = words("DEDUPE.ADD");
            all.push(rng.pick(&CRAWLS).to_vec());
            let mut options: Vec<Vec<Vec<u8>>> = Vec::new();
            if rng.chance(30) {
                options.push(vec!["EARLIEST".word()]);
            }
            if rng.chance(20) {
                options.push(vec!["TOKEN".word(), (1 + rng.below(20)).word()]);
            }
            let mut numbered = Vec::new();
            sequence(rng, &mut numbered);
            options.push(numbered);
            rng.shuffle(&mut options);
            all.extend(options.into_iter().flatten());
            for _ in 0..1 + rng.below(8) {
                let n = rng.below(HASHES);
                all.extend(record(rng, n));
            }
            all
        }
        28..=37 => {
            let mut all = words("DEDUPE.REVISIT");
            all.push(crawl);
            match rng.below(3) {
                0 => all.extend(["REF".word(), format!("uuid {}", rng.below(3)).word()]),
                1 => all.push("NOREF".word()),
                _ => {}
            }
            sequence(rng, &mut all);
            for _ in 0..1 + rng.below(3) {
                let n = rng.below(HASHES);
                all.extend([hash(rng, n), rng.below(3000).word()]);
                if rng.chance(20) {
                    let crawl = rng.pick(&CRAWLS).to_vec();
                    let size = rng.below(3000).word();
                    all.extend(["ORIGINAL".word(), crawl, rng.below(4).word(), size]);
                }
            }
            all
        }
        38..=51 => {
            let mut all = words("DEDUPE.LOOKUP");
            if rng.chance(50) {
                all.extend(["CRAWL".word(), crawl]);
            }
            if rng.chance(50) {
                all.push("WITHWACZ".word());
            }
            for _ in 0..1 + rng.below(12) {
                let n = rng.below(HASHES + 5);
                all.push(hash(rng, n));
            }
            all
        }
        52..=55 => {
            let n = rng.below(HASHES + 5);
            let hash = hash(rng, n);
            let mut all = words("DEDUPE.CLAIM");
            all.extend([crawl, hash, "PX".word(), CLAIM_MS.word()]);
            if rng.chance(50) {
                all.push("WITHWACZ".word());
            }
            all
        }
        56..=57 => {
            let n = rng.below(HASHES + 5);
            let hash = hash(rng, n);
            let mut all = words("DEDUPE.UNCLAIM");
            all.extend([hash, (1 + rng.below(20)).word()]);
            all
        }
        58..=61 => [words("DEDUPE.WACZOPEN"), vec![crawl, wacz(rng)]].concat(),
        62..=65 => {
            let size = rng.below(900).word();
            let rest = vec![
                crawl,
                rng.below(3).word(),
                wacz(rng),
                "sha256:ab".word(),
                size,
            ];
            let rename = rng.chance(40).then(|| "RENAME".word());
            let mut all = [words("DEDUPE.WACZCLOSE"), rest].concat();
            all.extend(rename);
            all
        }
        66 => [words("DEDUPE.WACZLIST"), vec![crawl]].concat(),
        67 => {
            let mut all = [words("DEDUPE.BEGIN"), vec![crawl]].concat();
            if rng.chance(70) {
                all.push("VISIBLE".word());
            }
            all
        }
        68..=77 => [words("DEDUPE.COMMIT"), vec![crawl]].concat(),
        78..=80 => [words("DEDUPE.CANCEL"), vec![crawl]].concat(),
        81..=83 => {
            let more = (0..rng.below(2)).map(|_| any(rng));
            let more: Vec<Vec<u8>> = more.collect();
            [words("DEDUPE.REMOVE"), vec![crawl], more].concat()
        }
        84..=86 => {
            let mut all = words("DEDUPE.RETAIN");
            if rng.chance(30) {
                all.push("PURGE".word());
            }
            all.push(crawl);
            all.extend((0..rng.below(5)).map(|_| any(rng)));
            all
        }
        87..=90 => {
            let mut all = words("DEDUPE.REQUIRES");
            match rng.below(3) {
                0 => all.extend(["REF".word(), format!("uuid {}", rng.below(3)).word()]),
                1 => all.extend(["REFS".word(), [&crawl[..], b" 0"].concat()]),
                _ => all.push(crawl),
            }
            if rng.chance(40) {
                all.push("TRANSITIVE".word());
            }
            if rng.chance(50) {
                all.extend(["FORMAT".word(), "RESP".word()]);
            }
            all
        }
        91 => [words("DEDUPE.REQUIREDBY"), vec![crawl]].concat(),
        92..=93 => words("DEDUPE.STATS"),
        94 => [words("DEDUPE.STATS"), vec![crawl]].concat(),
        95 => words("DEDUPE.CRAWLS"),
        96 => words("DEDUPE.CHECK"),
        97 => words("DEDUPE.REPAIR"),
        98 => [words("DEDUPE.PROFILE"), vec!["browsertrix".word()]].concat(),
        _ => words("DEDUPE.PROFILE"),
    }
}

/// Makes a command invalid: replaces, removes or duplicates an argument.
pub fn spoiled(rng: &mut Rng, mut words: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    // Keep the prefix, because another prefix means another index.
    let at = 2 + rng.below(words.len() as u64) as usize;
    if at >= words.len() {
        words.push(rng.pick(&BAD).to_vec());
        return words;
    }
    match rng.below(4) {
        0 => drop(words.remove(at)),
        1 => words.insert(at, words[at].clone()),
        _ => words[at] = rng.pick(&BAD).to_vec(),
    }
    words
}

/// Returns a plain client's command on one of its crawls: fields in any notation (but only one per
/// hash), and any values.
pub fn plain_command(rng: &mut Rng, p: &[u8], crawl: usize) -> Vec<Vec<u8>> {
    let key = [p, b"h:", PLAIN[crawl]].concat();
    let n = rng.below(HASHES);
    let odd: [&[u8]; 4] = [b"x", b"", b"\xff\0\r\n short", b"sha256:too short"];
    let field = if rng.chance(80) {
        hash(&mut Rng::seeded(n + crawl as u64), n)
    } else {
        rng.pick(&odd).to_vec()
    };
    if rng.chance(15) {
        return vec!["HDEL".word(), key, field];
    }
    let bad: [&[u8]; 5] = [
        b"",
        b"no record",
        b"0 2026 u",
        b"01 20260101000000 http://e.com/ 007",
        b"\0",
    ];
    let value = if rng.chance(70) {
        record(rng, n)[1..].join(&b' ')
    } else {
        rng.pick(&bad).to_vec()
    };
    vec!["HSET".word(), key, field, value]
}
