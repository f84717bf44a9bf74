//! Dependencies of crawls with revisits: finds the WACZ files that a crawl requires for replay, and
//! the crawls that require a crawl. `relation.requires` in the `datapackage.json` of a WACZ file
//! lists the required files.

use std::collections::{BTreeMap, BTreeSet};

use crawlspace_host::reply::Reply;
use crawlspace_host::text::parse_unsigned;

use super::counts;
use super::error::{Error, Result};
use super::files::list_waczs;
use super::index::Index;
use super::job::{Job, Lent, each_crawl};
use super::keys::{CrawlKey, Pick};
use super::store::Store;
use super::wacz::{WaczEntry, write_json_string};

/// The object whose dependencies the client requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// The dependencies of a crawl.
    Crawl(Vec<u8>),
    /// The references of the WACZ with this id.
    Wacz(Vec<u8>),
    /// References that the client passes, each as `crawl waczIndex`.
    References(Vec<Vec<u8>>),
}

/// The format of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A bulk string: a JSON array, ready for `datapackage.json`.
    Json,
    /// An array of maps.
    Resp,
}

/// Parses `crawl waczIndex`; the id may contain spaces.
pub fn parse_reference(reference: &[u8]) -> Option<(&[u8], u64)> {
    let space = memchr::memrchr(b' ', reference)?;
    let index = parse_unsigned(&reference[space + 1..])?;
    (space > 0).then_some((&reference[..space], index))
}

/// Returns the job for `REQUIRES`; its reply lists the WACZ files in the order of their crawls.
///
/// # Errors
/// The job fails with `NOCRAWL`, or with `WRONGTYPE` if a key holds another type.
pub fn requires<K: Store>(of: Of, transitive: bool, format: Format) -> Job<K> {
    Job::new(async move |lent| {
        let mut requires = Requires {
            transitive,
            ..Requires::default()
        };
        requires.run(&lent, of).await?;
        Ok(requires.answer(format))
    })
}

#[derive(Default)]
struct Requires {
    transitive: bool,
    /// Worklist: crawls whose WACZ files are all required, but not listed yet.
    crawls: Vec<Vec<u8>>,
    /// Worklist: crawls whose own requirements are still to be followed.
    follow: Vec<Vec<u8>>,
    seen: BTreeSet<Vec<u8>>,
    found: BTreeMap<(Vec<u8>, u64), WaczEntry>,
}

impl Requires {
    async fn run<K: Store>(&mut self, lent: &Lent<K>, of: Of) -> Result<()> {
        lent.with(|index, ks| self.begin(index, ks, of))?;
        loop {
            lent.pause().await;
            if let Some(crawl) = self.crawls.pop() {
                if self.seen.insert(crawl.clone()) {
                    let waczs = lent.with(|index, ks| list_waczs(index, ks, &crawl))?;
                    for (i, entry) in waczs.into_iter().enumerate() {
                        self.found.insert((crawl.clone(), i as u64), entry);
                    }
                    if self.transitive {
                        self.follow.push(crawl);
                    }
                }
            } else if let Some(crawl) = self.follow.pop() {
                let required = lent.with(|index, ks| requirements(index, ks, &crawl))?;
                let unseen = required.into_iter().filter(|c| !self.seen.contains(c));
                self.crawls.extend(unseen);
            } else {
                return Ok(());
            }
        }
    }

    fn begin<K: Store>(&mut self, index: &mut Index<K>, ks: &mut K, of: Of) -> Result<()> {
        match of {
            Of::Crawl(crawl) => {
                index.require_known(ks, &crawl)?;
                self.crawls = requirements(index, ks, &crawl)?;
                self.seen.insert(crawl);
                Ok(())
            }
            Of::Wacz(uuid) => {
                let key = index.references_key(ks, &uuid);
                let references = counts::members(ks, &key)?;
                self.refer(index, ks, references)
            }
            Of::References(references) => self.refer(index, ks, references),
        }
    }

    fn refer<K: Store>(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        references: Vec<Vec<u8>>,
    ) -> Result<()> {
        for reference in references {
            let Some((crawl, i)) = parse_reference(&reference) else {
                continue;
            };
            let waczs = index.crawls.key(ks, crawl, CrawlKey::Waczs);
            if let Some(json) = ks.list_get(&waczs, i)?
                && let Some(entry) = WaczEntry::parse(json.as_ref())
            {
                self.found.insert((crawl.to_vec(), i), entry);
            }
            if self.transitive {
                self.follow.push(crawl.to_vec());
            }
        }
        Ok(())
    }

    fn answer(&self, format: Format) -> Reply {
        match format {
            Format::Json => {
                let mut json = b"[".to_vec();
                for ((crawl, _), entry) in &self.found {
                    if json.len() > 1 {
                        json.push(b',');
                    }
                    json.push(b'{');
                    entry.write_members(&mut json);
                    json.extend_from_slice(b",\"crawlId\":");
                    write_json_string(crawl, &mut json);
                    json.push(b'}');
                }
                json.push(b']');
                // JSON must be UTF-8. The array format returns names with invalid UTF-8 exactly.
                Reply::bulk(String::from_utf8_lossy(&json).as_bytes())
            }
            Format::Resp => Reply::Array(
                self.found
                    .iter()
                    .map(|((crawl, _), entry)| {
                        let mut members = entry_members(entry);
                        members.push(("crawlId", Reply::bulk(crawl)));
                        Reply::named(members)
                    })
                    .collect(),
            ),
        }
    }
}

/// Converts a WACZ entry to the members of a reply map.
pub fn entry_members(entry: &WaczEntry) -> Vec<(&'static str, Reply)> {
    let mut members = vec![("filename", Reply::bulk(&entry.filename))];
    members.extend(entry.hash.as_ref().map(|hash| ("hash", Reply::bulk(hash))));
    members.extend(entry.size.map(|size| ("size", Reply::count(size))));
    members
}

fn requirements<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<Vec<Vec<u8>>> {
    let key = index.crawls.key(ks, crawl, CrawlKey::Requires);
    counts::members(ks, &key)
}

/// Returns the job for `REQUIREDBY`. Its reply lists the crawls that have revisits of this crawl's
/// records, with the number of these revisits per crawl.
///
/// # Errors
/// The job fails with `WRONGTYPE` if a key holds another type.
pub fn required_by<K: Store>(crawl: &[u8]) -> Job<K> {
    let crawl = crawl.to_vec();
    Job::new(async move |lent: Lent<K>| {
        let mut rows = Vec::new();
        let note = |index: &mut Index<K>, ks: &mut K, other: &[u8]| {
            // Crawlers may store their requirements in other keys, but `h:<crawl>:deps` counts
            // every revisit.
            let deps = index.crawls.key(ks, other, CrawlKey::Deps);
            let requires = index.crawls.key(ks, other, CrawlKey::Requires);
            let revisits = ks.hash_get(&deps, &crawl)?;
            if revisits.is_some() || ks.set_has(&requires, &crawl)? {
                let revisits = revisits.and_then(|n| parse_unsigned(n.as_ref()));
                let revisits = revisits.map_or(Reply::Nil, Reply::count);
                rows.push(Reply::Array(vec![Reply::bulk(other), revisits]));
            }
            Ok(())
        };
        let sets: [Pick<K::Name>; 2] = [|names| &names.uncommitted, |names| &names.allcrawls];
        each_crawl(&lent, &sets, note).await?;
        Ok(Reply::Array(rows))
    })
}

/// Checks the syntax of references.
///
/// # Errors
/// `ERR`, with the first malformed reference.
pub fn check_references(references: &[&[u8]]) -> Result<()> {
    for reference in references {
        if parse_reference(reference).is_none() {
            return Err(Error::Argument(format!(
                "invalid reference '{}': a crawl id, a space and a WACZ index are expected",
                crawlspace_host::text::Shown(reference)
            )));
        }
    }
    Ok(())
}
