//! Tests that requests with a body are looked up under the same URL as in pywb.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crawlspace_cdx::post::lookup_url;
use redis_tests::Rng;
use redis_tests::packages::{left_out, run};
use redis_tests::pywb::Pywb;

use crate::words::word;

/// Returns whether a request is a known exception.
type IsOne = fn(&Asked) -> bool;

/// Accepted differences.
const ACCEPTED: [(&str, IsOne); 4] = [
    (
        "AMF, a binary format of Flash, is taken apart there; here it is base64 like anything else",
        |asked| asked.kind.starts_with("application/x-amf"),
    ),
    (
        "a part that is a form itself, or is in parts, comes out there as an object of Python",
        |asked| {
            let body = String::from_utf8_lossy(&asked.body).to_lowercase();
            body.contains("content-type: multipart/")
                || body.contains("content-type: application/x-www-form")
        },
    ),
    (
        "JSON that is not in UTF-8 throws there, or is guessed to be in UTF-16 or UTF-32; here it is none",
        |asked| std::str::from_utf8(&asked.body).is_err() || asked.body.contains(&0),
    ),
    (
        "a number of thousands of digits, or JSON nearly too deep, depends on the version of Python",
        |asked| asked.body.len() > 700 && is_json(&asked.kind),
    ),
];

/// Maps lines of JSON, each with a base64 body and its type, to lookup URLs.
const PROGRAM: &str = r#"
import base64, io, json, sys, warnings
warnings.simplefilter("ignore")
from pywb.warcserver.inputrequest import MethodQueryCanonicalizer

sys.stderr = io.StringIO()
with open(sys.argv[1], encoding="utf-8") as asked, open(sys.argv[2], "w", encoding="utf-8") as answers:
    for line in asked:
        url, method, kind, body = json.loads(line)
        body = base64.b64decode(body)
        try:
            query = MethodQueryCanonicalizer(method, kind, len(body), io.BytesIO(body))
            answer = query.append_query(url)
        except Exception as e:
            answer = None
        answers.write(json.dumps(answer) + "\n")
"#;

struct Asked {
    url: String,
    method: &'static str,
    kind: String,
    body: Vec<u8>,
}

fn is_json(kind: &str) -> bool {
    kind.starts_with("application/json") || kind.starts_with("text/plain")
}

#[test]
fn look_up_urls_equal_those_of_pywb() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pywb");
    let pywb = match Pywb::install(&folder) {
        Ok(pywb) => pywb,
        Err(reason) => return left_out("pywb", &reason),
    };
    let mut rng = Rng::new("look_up_urls_equal_those_of_pywb");
    let all: Vec<Asked> = (0..20_000).map(|_| request(&mut rng)).collect();

    let work = tempfile::tempdir().unwrap();
    let [program, asked, answered] =
        ["program.py", "asked", "answered"].map(|name| work.path().join(name));
    std::fs::write(&program, PROGRAM).unwrap();
    let mut lines = std::io::BufWriter::new(std::fs::File::create(&asked).unwrap());
    for Asked {
        url,
        method,
        kind,
        body,
    } in &all
    {
        let body = data_encoding::BASE64.encode(body);
        serde_json::to_writer(&mut lines, &(url, method, kind, body)).unwrap();
        lines.write_all(b"\n").unwrap();
    }
    lines.into_inner().unwrap();
    run(Command::new(pywb.python()).args([&program, &asked, &answered])).unwrap();

    let answers = std::fs::read_to_string(&answered).unwrap();
    let (mut found, mut seen, mut count) = (Vec::new(), [0; ACCEPTED.len()], 0);
    for (asked, answer) in all.iter().zip(answers.lines()) {
        count += 1;
        let theirs: Option<String> = serde_json::from_str(answer).unwrap();
        let ours = lookup_url(&asked.url, asked.method, Some(&asked.kind), &asked.body);
        if Some(&ours) == theirs.as_ref() {
            continue;
        }
        match ACCEPTED.iter().position(|(_, is_it)| is_it(asked)) {
            Some(at) => seen[at] += 1,
            None => {
                let body = String::from_utf8_lossy(&asked.body);
                let what = format!("{} {:?}", asked.kind, body);
                found.push(format!("{what}\n  ours   {ours:?}\n  theirs {theirs:?}"));
            }
        }
    }
    assert_eq!(count, all.len(), "an answer for each request");
    for ((why, _), times) in ACCEPTED.iter().zip(seen) {
        eprintln!("accepted {times} times: {why}");
    }
    let total = found.len();
    found.truncate(20);
    assert!(
        total == 0,
        "{total} of {count} differ:\n{}",
        found.join("\n")
    );
}

fn request(rng: &mut Rng) -> Asked {
    let form = "application/x-www-form-urlencoded";
    let (kind, body) = match rng.below(10) {
        0 | 1 => (word(rng, "form types").to_owned(), fields(rng).into_bytes()),
        2 => (form.to_owned(), bytes(rng)),
        3..=5 => parts(rng),
        6..=8 => {
            let kind = word(rng, "json types");
            (kind.to_owned(), document(rng).into_bytes())
        }
        _ => {
            let kind = word(rng, "other types");
            (kind.to_owned(), bytes(rng))
        }
    };
    Asked {
        url: word(rng, "looked-up URLs").to_owned(),
        method: word(rng, "methods"),
        kind,
        body,
    }
}

fn bytes(rng: &mut Rng) -> Vec<u8> {
    let length = *rng.pick(&[0, 1, 2, 3, 10, 100, 3000, 4096, 9000]);
    (0..length).map(|_| rng.below(256) as u8).collect()
}

fn fields(rng: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..rng.below(8) {
        text += word(rng, "form names");
        text += *rng.pick(&["=", "=", "", "%3d", "=="]);
        text += *rng.pick(&["1", "bar", "a b", "%2Fbaz", "%", ""]);
        text += *rng.pick(&["&", "&", "&amp;", ";"]);
    }
    if rng.chance(3) {
        text = text.repeat(300);
    }
    text
}

fn document(rng: &mut Rng) -> String {
    let mut text = match rng.below(40) {
        0 => String::from("\u{feff}{\"a\":1}"),
        1 => "[".repeat(300) + "{\"a\": 1}" + &"]".repeat(300),
        2 => "[".repeat(3000) + &"]".repeat(3000),
        3 => format!("{{\"a\": {}}}", "1".repeat(4300)),
        4 => format!("{{\"a\": {}}}", "1".repeat(5000)),
        _ => value(rng, 0),
    };
    if rng.chance(15) && text.is_ascii() {
        let at = rng.below(text.len() as u64 + 1) as usize;
        if rng.chance(50) && at < text.len() {
            text.remove(at);
        } else {
            text.insert(
                at,
                *rng.pick(&[
                    '"', ',', '{', '}', '[', ':', '0', '-', '.', 'e', '\\', '\n', ' ', '\u{b}', 'x',
                ]),
            )
        }
    }
    text
}

fn value(rng: &mut Rng, depth: u64) -> String {
    let blank = rng.pick(&["", "", " ", "\n", "\t", "\r\n"]);
    let kind = if depth == 0 {
        rng.below(5)
    } else {
        depth / 2 + rng.below(10)
    };
    match kind {
        0..=3 => {
            let count = rng.below(5);
            let members: Vec<String> = (0..count)
                .map(|_| format!("{}{blank}:{}", text(rng), value(rng, depth + 1)))
                .collect();
            format!("{{{blank}{}{blank}}}", members.join(","))
        }
        4 => {
            let count = rng.below(4);
            let values: Vec<String> = (0..count).map(|_| value(rng, depth + 1)).collect();
            format!("[{blank}{}{blank}]", values.join(","))
        }
        5 | 6 => text(rng),
        7 => word(rng, "json constants").to_owned(),
        8 => number(rng),
        _ => word(rng, "json numbers").to_owned(),
    }
}

fn number(rng: &mut Rng) -> String {
    let mut number = f64::from_bits(rng.bits());
    if rng.chance(50) {
        number = rng.below(1_000_000_000) as f64 / *rng.pick(&[1.0, 10.0, 7.0, 1e5, 1e12, 1e-9]);
    }
    if number.is_finite() {
        format!("{number:?}")
    } else {
        "1".to_owned()
    }
}

fn text(rng: &mut Rng) -> String {
    let mut text = String::from("\"");
    for _ in 0..rng.below(3) {
        text += word(rng, "json texts");
    }
    text + "\""
}

fn parts(rng: &mut Rng) -> (String, Vec<u8>) {
    let boundary = word(rng, "boundaries");
    let kind = match rng.below(8) {
        0 => String::from("multipart/form-data"),
        1 => format!("multipart/form-data; boundary=\"{boundary}\""),
        2 => format!("multipart/mixed;charset=utf-8;BOUNDARY={boundary};x=y"),
        3 => format!("multipart/form-data; a=\"b;c\" ; boundary = {boundary}"),
        _ => format!("multipart/form-data; boundary={boundary}"),
    };
    let end = rng.pick(&["\r\n", "\r\n", "\r\n", "\n"]);
    let mut body = Vec::new();
    if rng.chance(10) {
        body.extend_from_slice(
            rng.pick(&["preamble\r\n", "\r\n", "--\r\n", "x"])
                .as_bytes(),
        );
    }
    for _ in 0..rng.below(4) {
        let mut head = format!("--{boundary}{}", rng.pick(&["", "", "", "", " ", "\t"])) + end;
        for _ in 0..*rng.pick(&[1, 1, 1, 2, 3, 0]) {
            head += word(rng, "part fields");
            head += end;
        }
        head += *rng.pick(&["", end, end, end, end, end]);
        body.extend_from_slice(head.as_bytes());
        for _ in 0..rng.below(4) {
            match rng.below(8) {
                0 => body.extend(bytes(rng).iter().take(300)),
                1 => body.extend_from_slice(format!("--{boundary}x").as_bytes()),
                _ => body.extend_from_slice(word(rng, "part texts").as_bytes()),
            }
        }
        body.extend_from_slice(end.as_bytes());
    }
    let last = word(rng, "last boundaries");
    body.extend_from_slice(last.replace("{}", boundary).as_bytes());
    (kind, body)
}
