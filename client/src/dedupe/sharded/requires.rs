//! Dependencies for replay. The revisits are spread over all shards, and the WACZ lists are in the
//! home shard.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Sharded;
use super::standing::BATCH;
use crate::dedupe::{Dependent, Index, Of, Required, Wacz};
use crate::server::{Ask, Batch, Call, Code, Error, Pending, Steps, Unsent};

/// Owned form of [`Of`].
enum Asked {
    Crawl(Vec<u8>),
    Wacz(Vec<u8>),
    References(Vec<Vec<u8>>),
}

/// Position of a WACZ file: crawl id, and index in the list of the crawl.
type FileNumber = (Vec<u8>, usize);

impl<S: Steps> Sharded<S> {
    /// Lists required WACZ files as [`Index::requires`](crate::dedupe::Index::requires) does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// let needed = index.requires(Of::Crawl(b"crawl-2"), true)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::requires`](crate::dedupe::Index::requires).
    pub fn requires(&self, of: Of<'_>, transitive: bool) -> S::Answer<Vec<Required>> {
        let index = self.clone();
        let of = match of {
            Of::Crawl(crawl) => Asked::Crawl(crawl.to_vec()),
            Of::Wacz(uuid) => Asked::Wacz(uuid.to_vec()),
            Of::References(references) => {
                Asked::References(references.iter().map(|one| one.to_vec()).collect())
            }
        };
        self.server()
            .run(async move { index.requirements(of, transitive).await })
    }

    async fn requirements(&self, of: Asked, transitive: bool) -> Result<Vec<Required>, Error> {
        let mut found = BTreeMap::new();
        // `whole` lists crawls whose files are all required. `follow` lists crawls whose own
        // requirements are still to be resolved.
        let (mut whole, mut follow) = (BTreeSet::new(), Vec::new());
        let mut seen = BTreeSet::new();
        match of {
            Asked::Crawl(crawl) => {
                if self.standing(&crawl).await?.0.is_nowhere() {
                    let sentence = format!("crawl '{}' is not in this index", crawl.escape_ascii());
                    return Err(Error::refused("DEDUPE.REQUIRES", Code::NoCrawl, sentence));
                }
                seen.insert(crawl.clone());
                follow.push(crawl);
            }
            Asked::Wacz(uuid) => {
                let references = self.references(&uuid).await?;
                follow = self.refer(references, &mut found).await?;
            }
            Asked::References(references) => follow = self.refer(references, &mut found).await?,
        }
        let mut first = matches!(&follow[..], [one] if seen.contains(one));
        while !follow.is_empty() && (first || transitive) {
            first = false;
            let mut next = Vec::new();
            for crawl in self.required_crawls(&follow).await? {
                if seen.insert(crawl.clone()) {
                    whole.insert(crawl.clone());
                    next.push(crawl);
                }
            }
            follow = next;
        }
        for (crawl, files) in self.files(whole.into_iter().collect()).await? {
            for (place, file) in files.into_iter().enumerate() {
                found.insert((crawl.clone(), place), file);
            }
        }
        let required = found.into_iter().map(|((crawl, _), file)| Required {
            filename: file.filename,
            hash: file.hash,
            size: file.size,
            crawl,
        });
        Ok(required.collect())
    }

    /// Returns the references of the revisits of a WACZ file, from all shards.
    async fn references(&self, uuid: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let profile = self.home().over(&Unsent).profile();
        let suffix = self.server().step(profile).await?.references();
        let references = self.members(&[uuid, suffix].concat()).await?;
        let references: BTreeSet<_> = references.into_iter().flatten().collect();
        Ok(references.into_iter().collect())
    }

    /// Looks up the files for exact references. Returns the crawls of these files.
    async fn refer(
        &self,
        references: Vec<Vec<u8>>,
        found: &mut BTreeMap<FileNumber, Wacz>,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let mut places = Vec::new();
        for reference in references {
            let place = file_number(&reference).ok_or_else(|| {
                let reference = reference.escape_ascii();
                let sentence =
                    format!("reference '{reference}' is not a crawl id, a space and a WACZ index");
                Error::refused("DEDUPE.REQUIRES", Code::Err, sentence)
            })?;
            places.push(place);
        }
        let crawls: BTreeSet<Vec<u8>> = places.iter().map(|(crawl, _)| crawl.clone()).collect();
        let crawls: Vec<Vec<u8>> = crawls.into_iter().collect();
        let files = self.files(crawls.clone()).await?;
        for (crawl, place) in places {
            let file = files.get(&crawl).and_then(|files| files.get(place));
            if let Some(file) = file.cloned() {
                found.insert((crawl, place), file);
            }
        }
        Ok(crawls)
    }

    /// Returns the crawls that contain the originals of these crawls' revisits.
    pub(super) async fn required_crawls(
        &self,
        crawls: &[Vec<u8>],
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        let mut required = BTreeSet::new();
        for some in crawls.chunks(BATCH) {
            let batch = Batch::new();
            let mut asked: Vec<Pending<Vec<Vec<u8>>>> = Vec::new();
            for crawl in some {
                for shard in self.shards() {
                    let mut members = redis::cmd("SMEMBERS");
                    members.arg(shard.key(&[crawl, &b":reqCrawls"[..]].concat()));
                    asked.push(batch.ask(Call::new(members).repeatable()));
                }
            }
            self.server().step_batch(&batch).await?;
            for answer in asked {
                required.extend(answer.take()?);
            }
        }
        Ok(required)
    }

    /// Returns the WACZ files of these crawls. Omits unknown crawls.
    pub(super) async fn files(
        &self,
        mut crawls: Vec<Vec<u8>>,
    ) -> Result<HashMap<Vec<u8>, Vec<Wacz>>, Error> {
        crawls.sort();
        crawls.dedup();
        let batch = Batch::new();
        let home = self.home().over(&batch);
        let asked = crawls.into_iter().map(|crawl| {
            let list = home.wacz_list(&crawl);
            (crawl, list)
        });
        let asked: Vec<_> = asked.collect();
        if asked.is_empty() {
            return Ok(HashMap::new());
        }
        self.server().step_batch(&batch).await?;
        let mut files = HashMap::new();
        for (crawl, list) in asked {
            match list.take() {
                Ok(list) => {
                    files.insert(crawl, list);
                }
                Err(error) if error.code() == Some(Code::NoCrawl) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    /// Lists dependent crawls as [`Index::required_by`](crate::dedupe::Index::required_by) does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// let dependents = index.required_by(b"crawl-1")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::required_by`](crate::dedupe::Index::required_by).
    pub fn required_by(&self, crawl: impl AsRef<[u8]>) -> S::Answer<Vec<Dependent>> {
        let crawl = crawl.as_ref();
        let (index, crawl) = (self.clone(), crawl.to_vec());
        self.server()
            .run(async move { index.dependents(&crawl).await })
    }

    async fn dependents(&self, crawl: &[u8]) -> Result<Vec<Dependent>, Error> {
        let batch = Batch::new();
        let shards = self.shards().iter();
        let asked: Vec<_> = shards
            .map(|shard| shard.over(&batch).required_by(crawl))
            .collect();
        self.server().step_batch(&batch).await?;
        let mut all = Vec::new();
        let (mut known, mut unknown) = (false, None);
        let mut silent = Vec::new();
        for (answer, shard) in asked.into_iter().zip(self.shards()) {
            match answer.take() {
                Ok(dependents) => {
                    known = true;
                    all.extend(dependents);
                }
                Err(error) if error.code() == Some(Code::NoCrawl) => {
                    unknown = Some(error);
                    silent.push(shard);
                }
                Err(error) => return Err(error),
            }
        }
        if let (Some(error), false) = (unknown, known) {
            return Err(error);
        }
        for shard in silent {
            all.extend(self.dependents_in(shard, crawl).await?);
        }
        let mut sums: BTreeMap<Vec<u8>, Option<u64>> = BTreeMap::new();
        for Dependent { crawl, revisits } in all {
            // If a count is missing in one shard, the total is unknown.
            let sum = sums.entry(crawl).or_insert(Some(0));
            *sum = sum.zip(revisits).map(|(sum, revisits)| sum + revisits);
        }
        let sums = sums.into_iter();
        Ok(sums
            .map(|(crawl, revisits)| Dependent { crawl, revisits })
            .collect())
    }

    /// Returns the dependents of a crawl in a shard that does not have the crawl. They were
    /// recorded before the crawl was removed. The crawl may have been added to other shards again
    /// since.
    async fn dependents_in(&self, shard: &Index<S>, on: &[u8]) -> Result<Vec<Dependent>, Error> {
        let batch = Batch::new();
        let asked = [&b"allcrawls"[..], b"uncommittedcrawls"].map(|set| {
            let mut members = redis::cmd("SMEMBERS");
            members.arg(shard.key(set));
            batch.ask(Call::<Vec<Vec<u8>>>::new(members).repeatable())
        });
        self.server().step_batch(&batch).await?;
        let mut crawls = BTreeSet::new();
        for set in asked {
            crawls.extend(set.take()?);
        }
        let crawls = Vec::from_iter(crawls);
        let mut dependents = Vec::new();
        for some in crawls.chunks(BATCH) {
            let batch = Batch::new();
            let asked = some.iter().map(|crawl| {
                let mut member = redis::cmd("SISMEMBER");
                member.arg(shard.key(&[crawl, &b":reqCrawls"[..]].concat()));
                let mut count = redis::cmd("HGET");
                count.arg(shard.key(&[b"h:", &crawl[..], b":deps"].concat()));
                let member = Call::<bool>::new(member.arg(on).clone()).repeatable();
                let count = Call::<Option<String>>::new(count.arg(on).clone()).repeatable();
                (crawl, batch.ask(member), batch.ask(count))
            });
            let asked: Vec<_> = asked.collect();
            self.server().step_batch(&batch).await?;
            for (crawl, depends, revisits) in asked {
                if depends.take()? {
                    let revisits = revisits.take()?;
                    dependents.push(Dependent {
                        crawl: crawl.clone(),
                        revisits: revisits.and_then(|number| number.parse().ok()),
                    });
                }
            }
        }
        Ok(dependents)
    }
}

/// Parses `crawl waczIndex`. The crawl id may contain spaces.
fn file_number(reference: &[u8]) -> Option<FileNumber> {
    let space = reference.iter().rposition(|&byte| byte == b' ')?;
    let index = std::str::from_utf8(&reference[space + 1..]).ok()?;
    let digits = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
    (space > 0 && digits).then_some((reference[..space].to_vec(), index.parse().ok()?))
}
