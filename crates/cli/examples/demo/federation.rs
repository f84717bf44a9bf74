//! Serves both crawls over one HTTP API: builds an index of each crawl, writes a configuration, starts
//! the server, and queries it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crawlspace_cdx::surt::urlkey;
use crawlspace_warc::{Reader, RecordType};
use redis_tests::Program;
use serde_json::{Value, json};

use crate::Checks;
use crate::site::Site;
use crate::stage::{Outcome, Shell, indent, step};

const CONFIG: &str = "\
collections:
  crawl-1:
    index: crawl-1.cdxj
    resource: ./
  crawl-2:
    index: crawl-2.cdxj
    resource: ./
  both:
    index_group:
      crawl-1: crawl-1.cdxj
      crawl-2: crawl-2.cdxj
    resource: ./
";

/// Serves both crawls, queries a page that changed, and checks the answers.
pub fn serve(
    shell: &Shell,
    tool: &Path,
    site: &str,
    editions: [&Site; 2],
    checks: &mut Checks,
) -> Outcome<()> {
    let title = "Both crawls over HTTP: an index of each, and one server for both";
    step(9, title);
    for crawl in ["crawl-1", "crawl-2"] {
        let lines = index(&shell.folder.join(format!("{crawl}.warc.gz")))?;
        fs::write(shell.folder.join(format!("{crawl}.cdxj")), lines.concat())?;
        println!("  {crawl}.cdxj: {} lines, such as", lines.len());
        indent(lines.first().map_or("", |line| line.trim_end()));
    }
    fs::write(shell.folder.join("config.yaml"), CONFIG)?;
    shell.show("cat config.yaml")?;
    println!("  $ crawlspace serve --config config.yaml --bind 127.0.0.1:0");
    let (_server, base) = start(shell, tool)?;
    println!("    {base}/");

    let page = format!("{site}article/7.html");
    let wget = |shown: &str| format!("wget --quiet --no-proxy --output-document=- '{shown}'");
    let rows = shell.show(&wget(&format!("{base}/both/index?url={page}&output=json")))?;
    let rows: Result<Vec<Value>, _> = rows.lines().map(serde_json::from_str).collect();
    let rows = rows?;
    println!("  The WARC record of each capture, read from its file (first lines):");
    let mut bodies = Vec::new();
    for row in &rows {
        let second = row["timestamp"].as_str().unwrap_or_default();
        let source = row["source"].as_str().unwrap_or_default();
        let name = format!("{source}.warc");
        let record = format!("{base}/both/resource?url={page}&closest={second}&sources={source}");
        shell.show(&format!(
            "wget --quiet --no-proxy --output-document={name} '{record}'"
        ))?;
        shell.show(&format!("head -n 6 {name}"))?;
        bodies.push(payload(&shell.folder.join(name))?);
    }
    println!("  Checks:");
    let column =
        |name: &str| -> Vec<&str> { rows.iter().filter_map(|row| row[name].as_str()).collect() };
    let sources = column("source").join(" ");
    let what = "sources of a page that is in both crawls";
    checks.equal(what, &sources[..], "crawl-1 crawl-2");
    let digests = column("digest");
    let changed = digests.first() != digests.last();
    checks.equal("its payload changed between them", changed, true);
    for (number, (edition, body)) in editions.into_iter().zip(&bodies).enumerate() {
        let file = edition.get("/article/7.html");
        let there = file.is_some_and(|file| &file.payload == body);
        let what = format!("record of crawl-{}: the page as it was then", number + 1);
        checks.equal(&what, there, true);
    }
    checks.equal("records of that page", bodies.len(), 2);
    let all = format!("{base}/both/index?url={site}*&fl=url&output=json");
    let all = shell.quiet(&wget(&all))?.lines().count() as u64;
    let captures = editions.map(Site::urls).into_iter().sum::<u64>();
    checks.equal("rows of the whole site: server, site", all, captures);
    Ok(())
}

/// Returns CDXJ lines for the responses in a WARC file, in order.
fn index(warc: &Path) -> Outcome<Vec<String>> {
    let name = warc.file_name().unwrap_or_default().to_string_lossy();
    let mut reader = Reader::open(warc)?;
    let mut lines = Vec::new();
    while let Some(mut record) = reader.next()? {
        if record.header().record_type() != RecordType::Response {
            continue;
        }
        let head = String::from_utf8_lossy(&record.http_head()?).into_owned();
        let status = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let field = |line: &'_ str| Some(line.strip_prefix("Content-Type: ")?.to_owned());
        let mime = head.lines().find_map(field).unwrap_or("unk".to_owned());
        let mime = mime.split(';').next().unwrap_or_default();
        let (header, extent) = record.into_header()?;
        let field =
            |name: &str| String::from_utf8_lossy(header.get(name).unwrap_or_default()).into_owned();
        // wget writes the URL in angle brackets, like early versions of the standard.
        let url = field("WARC-Target-URI");
        let url = url.trim_matches(['<', '>']);
        let date = field("WARC-Date");
        let digits = date.chars().filter(char::is_ascii_digit).take(14);
        let digits: String = digits.collect();
        let digest = field("WARC-Payload-Digest");
        let row = json!({
            "url": url,
            "mime": mime,
            "status": status,
            "digest": digest.rsplit(':').next(),
            "length": extent.size.to_string(),
            "offset": extent.offset.to_string(),
            "filename": name,
        });
        lines.push(format!("{} {digits} {row}\n", urlkey(url)?));
    }
    lines.sort();
    Ok(lines)
}

/// Starts the server, and waits until it prints its address.
fn start(shell: &Shell, tool: &Path) -> Outcome<(Program, String)> {
    let mut command = std::process::Command::new(tool);
    command.args(["serve", "--config", "config.yaml", "--bind", "127.0.0.1:0"]);
    command.current_dir(&shell.folder);
    let mut server = Program::start(command);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(30) {
        if let Some((address, _)) = server.out().split_once("/\n") {
            return Ok((server, address.to_owned()));
        }
        if let Some(ended) = server.ended() {
            return Err(format!("crawlspace serve ended: {}", ended.errors).into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err("crawlspace serve did not print its address".into())
}

/// Returns the payload of the HTTP response in a record.
fn payload(record: &Path) -> Outcome<Vec<u8>> {
    let mut reader = Reader::open(record)?;
    let mut body = Vec::new();
    if let Some(mut record) = reader.next()? {
        record.http_head()?;
        std::io::Read::read_to_end(&mut record, &mut body)?;
        record.finish()?;
    }
    Ok(body)
}
