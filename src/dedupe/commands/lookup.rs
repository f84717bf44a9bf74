//! `DEDUPE.LOOKUP`.

use crate::dedupe::digest::Digest;
use crate::dedupe::error::Error;
use crate::dedupe::grammar::Lookup;
use crate::dedupe::profile::Profile;
use crate::dedupe::record::Record;
use crawlspace_host::server::acl::{Access, User};
use crawlspace_host::server::api::{Ctx, RmString};
use crawlspace_host::server::command::{Act, Answer, Call};
use crawlspace_host::server::keyspace::RedisKeyspace;
use crawlspace_host::server::reply::{send_array, send_bulk, send_int, send_nil};

use super::indexes::on_index;
use super::metrics;

/// Passes hashes in their written spelling to the key space, which can reuse these server strings.
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
            digests,
        } = asked;
        let ctx = call.ctx;
        let user = User::current(ctx);
        let permit = |key: &RmString| user.check(key, Access::Read).map_err(Error::Denied);
        let given = call.last(digests.len());
        on_index(call, |cached, keys| {
            let index = &mut cached.index;
            if own.is_some() || index.places.packed_key().is_none() {
                offer(keys, index.profile(), given.zip(&digests));
            }
            let found = index.look_up(keys, &digests, own, permit)?;
            // Check everything that can fail before the reply begins.
            let mut containers = Vec::new();
            for hit in found.iter().flatten().filter(|_| with_wacz) {
                containers.push(index.container(keys, hit, permit)?);
            }
            let mut containers = containers.into_iter();
            metrics::LOOKUPS.add(found.len() as u64);
            metrics::HITS.add(found.iter().flatten().count() as u64);
            send_array(ctx, found.len());
            for hit in &found {
                let Some(hit) = hit else {
                    send_nil(ctx);
                    continue;
                };
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
}

/// Sends a found record as an array with that number of fields.
fn send_hit(ctx: Ctx, crawl: &[u8], record: &Record<'_>, fields: usize) {
    send_array(ctx, fields);
    send_bulk(ctx, crawl);
    send_int(ctx, record.wacz_index as i64);
    send_bulk(ctx, record.date);
    send_bulk(ctx, record.url);
    send_int(ctx, record.size as i64);
}
