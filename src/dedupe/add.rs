//! `response` and `revisit` records as they are written.

use crawlspace_host::text::parse_unsigned;

use super::claim::Millis;
use super::counts;
use super::digest::Digest;
use super::earliest::Earliest;
use super::error::{Error, Result};
use super::index::Index;
use super::keys::CrawlKey;
use super::record::{Record, Room};
use super::sequence::Sequence;
use super::store::Store;

/// A `response` record that was written.
pub struct Response<'a> {
    /// Of its payload.
    pub digest: Digest,
    /// Where it is and what it is.
    pub record: Record<'a>,
}

/// How `response` records are added.
#[derive(Clone, Copy, Debug, Default)]
pub struct Adding<'a> {
    /// Settles the claim with this token.
    pub token: Option<u64>,
    /// Makes a retry safe.
    pub seq: Option<Sequence<'a>>,
    /// Of several records of a hash the earliest one stays, not the one that came first.
    pub earliest: bool,
}

/// A `revisit` record that was written.
pub struct Revisit<'a> {
    /// Of the payload that it spares.
    pub digest: Digest,
    /// The hash as the client wrote it, for errors.
    pub given: &'a [u8],
    /// Bytes of the revisit record.
    pub size: u64,
    /// The record that it refers to, where the crawler says so; otherwise it is looked up.
    pub original: Option<Original<'a>>,
}

/// The record that a `revisit` record refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Original<'a> {
    /// The crawl that holds it.
    pub crawl: &'a [u8],
    /// Which WACZ of that crawl holds it.
    pub wacz_index: u64,
    /// Bytes of it.
    pub size: u64,
}

/// Where the dependency of a revisit is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependency<'a> {
    /// In `<crawl>:reqCrawls`.
    Crawl,
    /// There, and `crawl waczIndex` in the set of references of this WACZ.
    Wacz(&'a [u8]),
    /// Nowhere but in the count of revisits: the crawler keeps dependencies itself.
    Elsewhere,
}

impl<K: Store> Index<K> {
    /// `response` records were written. Gives the number of hashes that are new to the crawl.
    ///
    /// The same record again is a retry and counts nothing; another record of a known hash counts
    /// as a URL and leaves the stored record, unless `earliest` lets it take its place.
    ///
    /// # Errors
    /// `STALE` for an old token or sequence number; `REMOVING` while the crawl is being removed.
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
    pub fn add(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        responses: &[Response<'_>],
        how: Adding<'_>,
        now: Millis,
    ) -> Result<u64> {
        let Adding {
            token,
            seq,
            earliest,
        } = how;
        if let Some(seq) = seq
            && let Some(reply) = self.replayed(ks, crawl, seq)?
        {
            return Ok(reply);
        }
        self.refuse_while_removing(ks, crawl)?;
        let records = self.crawl_key(ks, crawl, CrawlKey::Records);
        let counts_key = self.crawl_key(ks, crawl, CrawlKey::Counts);
        let added = self.crawl_key(ks, crawl, CrawlKey::Added);
        // Everything that can be refused is looked at before the first write.
        counts::read(ks, &counts_key, counts::TOTAL_URLS)?;
        ks.hash_len(&records)?;
        ks.hash_len(&added)?;
        let mut earliest = if earliest {
            Some(Earliest::of(self, ks, crawl)?)
        } else {
            None
        };
        let continuing = self.is_continuing(ks, crawl)?;
        let digests: Vec<Digest> = match token {
            Some(token) => {
                let digests: Vec<Digest> = responses.iter().map(|r| r.digest.clone()).collect();
                self.check_token(ks, &digests, token, now)?;
                digests
            }
            None => Vec::new(),
        };

        let (mut new, mut urls) = (0, 0);
        let (mut value, mut room) = (Vec::new(), Room::default());
        let profile = self.profile();
        // What is packed already is not in the plain hash.
        let one_place = !self.may_be_packed(ks, crawl)?;
        let one_step = one_place && self.cached(ks, crawl).is_written;
        for Response { digest, record } in responses {
            let field = digest.written(profile);
            let record = &record.as_stored(profile, &mut room);
            record.write(&mut value);
            // Nearly always a hash is new when another one of the same call was, and then one step
            // does it.
            let at_once = new > 0 && one_step && ks.hash_set_new(&records, field, &value)?;
            let stored = if at_once {
                None
            } else {
                self.record_of(ks, crawl, digest)?
            };
            match stored {
                None => {
                    if !at_once {
                        self.start(ks, crawl)?;
                        ks.hash_set(&records, field, &value)?;
                    }
                    if continuing {
                        ks.hash_set(&added, digest.canonical(), b"")?;
                    }
                    new += 1;
                    urls += 1;
                }
                Some(stored) => {
                    let stored = stored.as_ref();
                    let counts = match &mut earliest {
                        Some(earliest) => {
                            earliest.meet(self, ks, crawl, digest, (stored, record))?
                        }
                        None => {
                            !Record::parse(stored).is_some_and(|old| old.is_same(record, profile))
                        }
                    };
                    urls += i64::from(counts);
                }
            }
        }
        if urls > 0 {
            // A mere retry does not make a committed crawl a continued one.
            self.start(ks, crawl)?;
            counts::add(ks, &counts_key, counts::TOTAL_URLS, urls)?;
        }
        if let Some(earliest) = earliest {
            earliest.write_marks(ks)?;
        }
        if let Some(token) = token {
            self.settle(ks, &digests, token)?;
        }
        if let Some(seq) = seq {
            self.store_reply(ks, crawl, seq, new)?;
        }
        Ok(new)
    }

    /// `revisit` records were written. All of them count, or none when one has no original. Each is
    /// counted for the crawl that holds its original in `h:<crawl>:deps`, whatever the dependency.
    ///
    /// # Errors
    /// `NOHASH` names the hash that is not in the index, if its original is not given.
    pub fn revisit(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        revisits: &[Revisit<'_>],
        dependency: Dependency<'_>,
        seq: Option<Sequence<'_>>,
    ) -> Result<u64> {
        if let Some(seq) = seq
            && let Some(reply) = self.replayed(ks, crawl, seq)?
        {
            return Ok(reply);
        }
        self.refuse_while_removing(ks, crawl)?;
        let counts_key = self.crawl_key(ks, crawl, CrawlKey::Counts);
        let requires = self.crawl_key(ks, crawl, CrawlKey::Requires);
        let deps = self.crawl_key(ks, crawl, CrawlKey::Deps);
        let refs = self.crawl_key(ks, crawl, CrawlKey::Refs);
        let references = match dependency {
            Dependency::Wacz(uuid) => Some((uuid, self.references_key(ks, uuid))),
            Dependency::Crawl | Dependency::Elsewhere => None,
        };
        for count in [
            counts::TOTAL_URLS,
            counts::DUPE_URLS,
            counts::CONSERVED_SIZE,
        ] {
            counts::read(ks, &counts_key, count)?;
        }
        ks.set_len(&requires)?;
        ks.hash_len(&deps)?;
        if let Some((_, references)) = &references {
            ks.set_len(references)?;
        }

        let mut conserved: i64 = 0;
        let mut sources: Vec<(Vec<u8>, u64)> = Vec::new();
        for revisit in revisits {
            let found;
            let original = match revisit.original {
                Some(original) => original,
                None => {
                    found = self.find(ks, &revisit.digest, Some(crawl))?;
                    let Some(found) = &found else {
                        return Err(Error::NoHash(revisit.given.to_vec()));
                    };
                    let record = found.record();
                    Original {
                        crawl: found.crawl.id(),
                        wacz_index: record.wacz_index,
                        size: record.size,
                    }
                }
            };
            conserved = conserved.saturating_add(original.size.saturating_sub(revisit.size) as i64);
            if original.crawl != crawl {
                sources.push((original.crawl.to_vec(), original.wacz_index));
            }
        }
        self.start(ks, crawl)?;

        for (source, wacz_index) in sources {
            let was = ks.hash_get(&deps, &source)?;
            let known = ks.set_has(&requires, &source)?;
            let undo = [b"dep.", &source[..]].concat();
            match &was {
                Some(was) => self.save_for_undo(ks, crawl, &undo, was.as_ref())?,
                None if known => self.save_for_undo(ks, crawl, &undo, b"0")?,
                None => self.save_for_undo(ks, crawl, &undo, b"")?,
            }
            let revisits = was.and_then(|n| parse_unsigned(n.as_ref())).unwrap_or(0) + 1;
            ks.hash_set(&deps, &source, revisits.to_string().as_bytes())?;
            if dependency == Dependency::Elsewhere {
                continue;
            }
            if !known {
                // Counted before, but not written down as a dependency.
                self.save_for_undo(ks, crawl, &[b"req.", &source[..]].concat(), b"")?;
                ks.set_add(&requires, &source)?;
            }
            if let Some((uuid, references)) = &references {
                let is_new = !ks.exists(references);
                if is_new {
                    self.save_for_undo(ks, crawl, &[b"ref.", *uuid].concat(), b"")?;
                }
                let reference = [&source[..], b" ", wacz_index.to_string().as_bytes()].concat();
                if !ks.set_has(references, &reference)? {
                    if !is_new {
                        let what = format!("member.{}:", uuid.len()).into_bytes();
                        let what = [&what[..], *uuid, &reference[..]].concat();
                        self.save_for_undo(ks, crawl, &what, b"")?;
                    }
                    ks.set_add(references, &reference)?;
                }
                if !ks.set_has(&refs, uuid)? {
                    ks.set_add(&refs, uuid)?;
                }
            }
        }
        let n = revisits.len() as i64;
        counts::add(ks, &counts_key, counts::TOTAL_URLS, n)?;
        counts::add(ks, &counts_key, counts::DUPE_URLS, n)?;
        counts::add(ks, &counts_key, counts::CONSERVED_SIZE, conserved)?;
        if let Some(seq) = seq {
            self.store_reply(ks, crawl, seq, n as u64)?;
        }
        Ok(n as u64)
    }

    /// The crawl must be known to the index.
    pub(super) fn require_known(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
    ) -> Result<super::index::CrawlState> {
        self.standing(ks, crawl)?
            .ok_or_else(|| Error::NoCrawl(crawl.to_vec()))
    }
}
