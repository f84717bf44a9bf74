//! `make demo`: shows the savings of deduplication on real input in less than a minute.
//!
//! wget crawls a small site twice and writes WARC files. The first crawl is imported into a dedupe index; the second is
//! compared with it. Every number is then verified independently: by comparison with the known contents of the site,
//! and by counting in the files with `zcat` and `grep`. At the end both crawls are served over HTTP and queried. The
//! exit status is 0 only if all results agree.

mod federation;
#[allow(dead_code)] // the polite crawler uses the rest
mod site;
mod stage;
#[allow(dead_code)]
mod web;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use redis_tests::{Server, rows};
use serde_json::Value;
use site::Site;
use stage::{Outcome, Shell, crawlspace_tool, indent, step};
use web::WebServer;

fn main() -> ExitCode {
    match demo() {
        Ok(true) => {
            println!("\nThe demo is over. Every figure is correct.");
            ExitCode::SUCCESS
        }
        Ok(false) => {
            println!("\nThe demo is over. Some figures are WRONG, see above.");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn demo() -> Outcome<bool> {
    let folder = tempfile::Builder::new()
        .prefix("crawlspace-demo-")
        .tempdir()?;
    let mut shell = Shell::in_folder(&folder);
    let mut checks = Checks { all_right: true };
    let tool = crawlspace_tool()?;

    step(1, "A small site, and its state one day later");
    let (today, tomorrow) = (Site::today(), Site::tomorrow());
    let web = WebServer::start(today.clone())?;
    println!(
        "  {} URLs with {} different payloads at {}; tomorrow {} payloads will be new",
        today.urls(),
        today.payloads().len(),
        web.url(),
        tomorrow.payloads().difference(&today.payloads()).count(),
    );

    let title = "The first crawl: wget follows every link and writes a WARC file";
    step(2, title);
    shell.wget("crawl-1", &web.url())?;

    let title = "A Redis server with the module; the first crawl goes into the dedupe index";
    step(3, title);
    let server = Server::start();
    let url = format!("redis://127.0.0.1:{}", server.port());
    let first = shell.index(&tool, &url, "crawl-1", true)?;

    let title = "The next day: some pages have changed, and the site is crawled again";
    step(4, title);
    web.serve(tomorrow.clone());
    shell.wget("crawl-2", &web.url())?;

    step(5, "What would the second crawl have saved?");
    let second = shell.index(&tool, &url, "crawl-2", false)?;
    println!(
        "  Of {} kB that the second crawl stored, {} kB ({} %) were already stored.",
        figure(&second, "bytes") / 1000,
        figure(&second, "bytesSaved") / 1000,
        figure(&second, "bytesSaved") * 100 / figure(&second, "bytes").max(1),
    );

    step(
        6,
        "The index in plain keys, which any Redis client can read",
    );
    let cli = |command: &str| format!("redis-cli -p {} {command}", server.port());
    let hash = shell.quiet(
        "zcat crawl-1.warc.gz | grep -a '^WARC-Payload-Digest' | head -n 1 | tr -d '\\r' | cut -d' ' -f2",
    )?;
    let committed = shell.redis(&cli("SMEMBERS allcrawls"))?;
    let running = shell.redis(&cli("SMEMBERS uncommittedcrawls"))?;
    let all_hashes = shell.redis(&cli("HLEN allhashes"))?;
    let new_hashes = shell.redis(&cli("HLEN h:crawl-2"))?;
    let owner = shell.redis(&cli(&format!("HGET allhashes {hash}")))?;
    let record = shell.redis(&cli(&format!("HGET h:{owner} {hash}")))?;
    shell.redis(&cli("HGETALL allcounts"))?;
    shell.redis(&cli("HGETALL h:crawl-2:counts"))?;
    println!("  wget makes no WACZ files, so the list of them is empty:");
    shell.redis(&cli("LRANGE c:crawl-1:wacz 0 -1"))?;

    step(7, "The same data, read with the commands of the module");
    let lookup = shell.redis(&cli(&format!("DEDUPE.LOOKUP '' {hash}")))?;
    let stats = shell.redis(&cli("DEDUPE.STATS ''"))?;
    shell.redis(&cli("DEDUPE.STATS '' crawl-2"))?;
    println!("  A packed index takes a fraction of the memory, and returns the same replies:");
    shell.redis(&cli("DEDUPE.PACK ''"))?;
    let packed = shell.redis(&cli(&format!("DEDUPE.LOOKUP '' {hash}")))?;

    step(8, "Checks: the same figures, computed independently");
    let new = tomorrow.payloads().difference(&today.payloads()).count() as u64;
    let unique = today.payloads().len() as u64;
    let duplicates = tomorrow.urls() - new;
    let [digests_1, digests_2] = [shell.digests("crawl-1")?, shell.digests("crawl-2")?];
    let new_digests = digests_2.difference(&digests_1).count() as u64;
    let count = |crawl: &str, field: &str| -> Outcome<u64> {
        let command = cli(&format!("HGET h:{crawl}:counts {field}"));
        Ok(number(&shell.quiet(&command)?))
    };
    let all_counts = number(&shell.quiet(&cli("HGET allcounts totalUrls"))?);
    let on_disk = |crawl: &str| -> Outcome<u64> {
        let file = folder.path().join(format!("{crawl}.warc.gz"));
        Ok(std::fs::metadata(file)?.len())
    };
    for (what, found, expected) in rows![
        "responses of the first crawl: tool, site", figure(&first, "responses"), today.urls();
        "responses of the second crawl: tool, site", figure(&second, "responses"), tomorrow.urls();
        "unique payloads of the first crawl: tool, site", figure(&first, "unique"), unique;
        "… and zcat | grep | sort -u", digests_1.len() as u64, unique;
        "… and HLEN allhashes", number(&all_hashes), unique;
        "payloads new in the second crawl: tool, site", figure(&second, "unique"), new;
        "… and zcat | grep | sort -u", new_digests, new;
        "… and HLEN h:crawl-2", number(&new_hashes), new;
        "duplicates in the second crawl: tool, site", figure(&second, "duplicates"), duplicates;
        "… and dupeUrls", count("crawl-2", "dupeUrls")?, duplicates;
        "totalUrls of the second crawl", count("crawl-2", "totalUrls")?, tomorrow.urls();
        "conservedSize of the second crawl: module, tool", count("crawl-2", "conservedSize")?,
            figure(&second, "bytesSaved");
        "totalUrls in allcounts: committed crawls only", all_counts, today.urls();
        "bytes of the first crawl: tool, file", figure(&first, "bytes"), on_disk("crawl-1")?;
        "bytes of the second crawl: tool, file", figure(&second, "bytes"), on_disk("crawl-2")?;
    ] {
        checks.equal(what, found, expected);
    }
    checks.equal("committed crawls", &committed[..], "crawl-1");
    checks.equal("running crawls", &running[..], "crawl-2");

    // wget's own index has the offset of the record. The bytes from this offset, with the size from the
    // dedupe index, must be exactly the record.
    let size = record.rsplit(' ').next().unwrap_or_default();
    let bare = hash.rsplit(':').next().unwrap_or_default();
    let cut_out = format!(
        "offset=$(awk '$6 == \"{bare}\" {{ print $9; exit }}' crawl-1.cdx); \
         tail -c +$((offset + 1)) crawl-1.warc.gz | head -c {size} | zcat | tr -d '\\r' \
         | grep -a -m 1 '^WARC-Payload-Digest' | cut -d' ' -f2"
    );
    let cut_out = shell.quiet(&cut_out)?;
    let owner = lookup.lines().next().unwrap_or_default();
    let [plain, packed] = [&lookup, &packed].map(|reply| reply.replace('\n', " "));
    for (what, found, expected) in rows![
        "the record cut out of the file by its size", &cut_out[..], &hash[..];
        "DEDUPE.LOOKUP names the crawl", owner, "crawl-1";
        "DEDUPE.LOOKUP of the packed index", &packed, &plain;
    ] {
        checks.equal(what, found, expected);
    }
    let hashes = stats_field(&stats, "hashes");
    checks.equal("DEDUPE.STATS counts the hashes", hashes, unique);

    federation::serve(&shell, &tool, &web.url(), [&today, &tomorrow], &mut checks)?;
    Ok(checks.all_right)
}

fn figure(result: &Value, name: &str) -> u64 {
    result[name].as_u64().unwrap_or(u64::MAX)
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or(u64::MAX)
}

/// Returns a field of a map as redis-cli prints it into a pipe: name and value on separate lines.
fn stats_field(map: &str, name: &str) -> u64 {
    let mut lines = map.lines().skip_while(|line| *line != name).skip(1);
    lines.next().map_or(u64::MAX, number)
}

impl Shell {
    fn wget(&mut self, crawl: &str, url: &str) -> Outcome<()> {
        let command = format!(
            "wget --quiet --no-proxy --recursive --level=inf --delete-after --warc-cdx --warc-file={crawl} {url}"
        );
        self.show(&command)?;
        let size = std::fs::metadata(self.folder.join(format!("{crawl}.warc.gz")))?.len();
        println!("  {crawl}.warc.gz: {} kB", size / 1000);
        Ok(())
    }

    /// Prints the table for users, and returns the numbers of a second run, which must not change
    /// anything.
    fn index(&mut self, tool: &Path, redis: &str, crawl: &str, commit: bool) -> Outcome<Value> {
        let commit = if commit { " --commit" } else { "" };
        let arguments = format!("dedupe index --redis {redis} --crawl {crawl}{commit}");
        println!("  $ crawlspace {arguments} {crawl}.warc.gz");
        let tool = tool.display();
        let run = |more: &str| self.quiet(&format!("{tool} {arguments}{more} {crawl}.warc.gz"));
        let table = run("")?;
        indent(&table);
        Ok(serde_json::from_str(&run(" --json")?)?)
    }

    /// Prints a redis-cli query with its reply for people, and returns the reply for scripts.
    fn redis(&self, query: &str) -> Outcome<String> {
        println!("  $ {query}");
        indent(&self.quiet(&query.replacen("redis-cli", "redis-cli --no-raw", 1))?);
        self.quiet(query)
    }

    fn digests(&self, crawl: &str) -> Outcome<BTreeSet<String>> {
        let found = self.quiet(&format!(
            "zcat {crawl}.warc.gz | grep -a '^WARC-Payload-Digest: ' | tr -d '\\r' | sort -u"
        ))?;
        Ok(found.lines().map(str::to_owned).collect())
    }
}

struct Checks {
    all_right: bool,
}

impl Checks {
    fn equal<T: PartialEq + std::fmt::Display>(&mut self, what: &str, found: T, expected: T) {
        if found == expected {
            println!("  ok     {what}: {found}");
        } else {
            self.all_right = false;
            println!("  WRONG  {what}: {found}, and not {expected}");
        }
    }
}
