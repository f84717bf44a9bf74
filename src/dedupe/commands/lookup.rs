//! `DEDUPE.LOOKUP`.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::dedupe::digest::Digest;
use crate::dedupe::error::Error;
use crate::dedupe::grammar::Lookup;
use crate::dedupe::lookup::UsualOriginal;
use crate::dedupe::packed::Value;
use crate::dedupe::profile::Profile;
use crate::dedupe::record::{OriginalText, Record};
use crawlspace_host::server::acl::{Access, User};
use crawlspace_host::server::api::{Ctx, RmString};
use crawlspace_host::server::command::{Act, Answer, Call, ShortCall};
use crawlspace_host::server::keyspace::RedisKeyspace;
use crawlspace_host::server::reply::{send_array, send_bulk, send_int, send_nil};

use super::indexes::{self, on_index};
use super::metrics;

/// True after a look-up in a packed index. Until then, [`Act::act_shortly`] returns immediately.
static MAY_BE_SHORT: AtomicBool = AtomicBool::new(false);

/// Offers hashes that are in the notation that the module writes to the key space, which can reuse their server
/// strings.
pub fn offer<'a>(
    keys: &mut RedisKeyspace,
    profile: Profile,
    hashes: impl Iterator<Item = (RmString, &'a Digest)>,
) {
    let written = hashes.filter(|(given, digest)| given.as_ref() == digest.written(profile));
    keys.offer_fields(written.map(|(given, _)| given));
}

impl Act for Lookup<'static> {
    fn act(asked: Lookup<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let Lookup {
            own,
            with_wacz,
            as_text,
            digests,
        } = asked;
        let ctx = call.ctx;
        let permit = may_read(ctx);
        let given = call.last(digests.len());
        on_index(call, |cached, keys| {
            let index = &mut cached.index;
            if index.places.packed_key().is_some() {
                MAY_BE_SHORT.store(true, Relaxed);
            }
            if own.is_some() || index.places.packed_key().is_none() {
                offer(keys, index.profile(), given.zip(&digests));
            }
            let found = index.look_up(keys, &digests, own, &permit)?;
            // Check everything that can fail before the reply begins.
            let mut containers = Vec::new();
            for hit in found.iter().flatten().filter(|_| with_wacz) {
                containers.push(index.container(keys, hit, &permit)?);
            }
            let mut containers = containers.into_iter();
            metrics::LOOKUPS.add(found.len() as u64);
            metrics::HITS.add(found.iter().flatten().count() as u64);
            let mut text = OriginalText::new();
            send_array(ctx, found.len());
            for hit in &found {
                let Some(hit) = hit else {
                    send_nil(ctx);
                    continue;
                };
                if as_text {
                    hit.write_text(&mut text);
                    send_bulk(ctx, &text);
                    continue;
                }
                send_hit(ctx, hit.crawl(), &hit.record(), 5 + usize::from(with_wacz));
                match containers.next() {
                    Some(Some(filename)) => send_bulk(ctx, &filename),
                    Some(None) => send_nil(ctx),
                    None => {}
                }
            }
            Ok(())
        })?;
        Ok(Answer::Sent)
    }

    fn act_shortly(call: &ShortCall<'_>) -> Option<Result<(), String>> {
        if !MAY_BE_SHORT.load(Relaxed) {
            return None;
        }
        let ctx = call.ctx;
        let Some([hash]) = call.words() else {
            let [option, format, hash] = call.words()?;
            return is_format_record(option, format)
                .then(|| send_text_shortly(call, hash))
                .flatten();
        };
        indexes::with_place(ctx, call.prefix, |index, packed| {
            let mut record = Value::new();
            let found = index.look_up_usual(packed, hash, &mut record, may_read(ctx))?;
            Some(found.map_err(|error| error.to_string()).map(|found| {
                begin_short_reply(ctx, found.is_some());
                if let Some(UsualOriginal { crawl, parts }) = found {
                    send_hit(ctx, crawl, &parts.record(&record), 5);
                }
            }))
        })
    }
}

/// Answers `LOOKUP` of one hash with `FORMAT RECORD` in the usual case.
fn send_text_shortly(call: &ShortCall<'_>, hash: &[u8]) -> Option<Result<(), String>> {
    let ctx = call.ctx;
    indexes::with_place(ctx, call.prefix, |index, packed| {
        let mut text = OriginalText::new();
        let found = index.look_up_text(packed, hash, &mut text, may_read(ctx))?;
        Some(found.map_err(|error| error.to_string()).map(|is_found| {
            begin_short_reply(ctx, is_found);
            if is_found {
                send_bulk(ctx, &text);
            }
        }))
    })
}

/// Returns the check that the user of a call may read a key.
fn may_read(ctx: Ctx) -> impl Fn(&RmString) -> Result<(), Error> {
    let user = User::current(ctx);
    move |key| user.check(key, Access::Read).map_err(Error::Denied)
}

/// Counts a look-up of one hash, and sends the reply up to the original, or to its end if nothing was found.
#[inline]
fn begin_short_reply(ctx: Ctx, is_found: bool) {
    metrics::LOOKUPS.add(1);
    metrics::HITS.add(is_found.into());
    send_array(ctx, 1);
    if !is_found {
        send_nil(ctx);
    }
}

/// Returns true for the words `FORMAT RECORD`, in upper or lower case.
fn is_format_record(option: &[u8], format: &[u8]) -> bool {
    // Compare all letters at once. No other byte becomes a letter of these words when bit 5 is set: only the
    // letter in the other case does.
    let lower = |word: &[u8]| {
        let word: [u8; 6] = word.try_into().ok()?;
        Some(word.map(|byte| byte | 0x20))
    };
    lower(option) == Some(*b"format") && lower(format) == Some(*b"record")
}

/// Sends a found record as an array with this number of fields.
fn send_hit(ctx: Ctx, crawl: &[u8], record: &Record<'_>, fields: usize) {
    send_array(ctx, fields);
    send_bulk(ctx, crawl);
    send_int(ctx, record.wacz_index as i64);
    send_bulk(ctx, record.date);
    send_bulk(ctx, record.url);
    send_int(ctx, record.size as i64);
}
