//! `DEDUPE.LOOKUP`.

use smallvec::SmallVec;

use crate::dedupe::digest::Digest;
use crate::dedupe::grammar::Lookup;
use crate::dedupe::keys::CrawlKey;
use crate::dedupe::lookup::{Original, Sight};
use crate::dedupe::packed::Value;
use crate::dedupe::record::Record;
use crawlspace_host::server::acl::{Access, User};
use crawlspace_host::server::api::{Ctx, RmString};
use crawlspace_host::server::command::{Act, Answer, Call};
use crawlspace_host::server::reply::{send_array, send_bulk, send_int, send_nil};

use super::indexes::on_index;
use super::metrics;

/// One answer: where the hash was found, and the container's name if asked for.
type Hit = (Original<RmString>, Option<Vec<u8>>);

impl Act for Lookup<'static> {
    fn act(asked: Lookup<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let Lookup {
            own,
            with_wacz,
            digests,
        } = asked;
        if digests.len() == 1
            && own.is_none()
            && !with_wacz
            && let Some(answer) = look_up_one(call, &digests[0])?
        {
            return Ok(answer);
        }
        let user = call.user();
        let given: SmallVec<[RmString; 1]> = (1..=digests.len())
            .rev()
            .map(|n| call.from_end(n))
            .collect();
        let mut refused = Ok(());
        let found: SmallVec<[Option<Hit>; 1]> = on_index(call, |cached, keys| {
            let index = &mut cached.index;
            refused = user
                .check(&index.names().merged, Access::Read)
                .and_then(|()| user.check(&index.names().allcrawls, Access::Read));
            let probes = index.probe_all(keys, &digests)?;
            if let Some(probes) = &probes {
                index.aim(keys, probes)?;
            }
            let mut found = SmallVec::with_capacity(digests.len());
            let mut allowed: SmallVec<[RmString; 4]> = SmallVec::new();
            for (i, (digest, given)) in digests.iter().zip(given).enumerate() {
                if refused.is_err() {
                    break;
                }
                keys.offer_field(given);
                let probe = probes.as_ref().map(|probes| &probes[i]);
                let Some(hit) = index.find_begun(keys, digest, probe, own)? else {
                    found.push(None);
                    continue;
                };
                let records = index.crawl_key(keys, hit.crawl.id(), CrawlKey::Records);
                if !allowed.iter().any(|key| key.raw() == records.raw()) {
                    refused = user.check(&records, Access::Read);
                    if with_wacz && refused.is_ok() {
                        let waczs = index.crawl_key(keys, hit.crawl.id(), CrawlKey::Waczs);
                        refused = user.check(&waczs, Access::Read);
                    }
                    allowed.push(records);
                }
                let container = if with_wacz {
                    index.container(keys, &hit)?
                } else {
                    None
                };
                found.push(Some((hit, container)));
            }
            Ok(found)
        })?;
        refused?;

        metrics::LOOKUPS.add(found.len() as u64);
        send_array(call.ctx, found.len());
        for hit in &found {
            let Some((hit, container)) = hit else {
                send_nil(call.ctx);
                continue;
            };
            metrics::HITS.add(1);
            let fields = if with_wacz { 6 } else { 5 };
            send_hit(call.ctx, hit.crawl.id(), &hit.record(), fields);
            if with_wacz {
                match container {
                    Some(filename) => send_bulk(call.ctx, filename),
                    None => send_nil(call.ctx),
                }
            }
        }
        Ok(Answer::Sent)
    }
}

/// The commonest call of all: one hash. In a packed index it is nearly always found in one step, and what
/// else there is to do is done while its memory is on the way. `None` if it is to be looked up as any
/// other.
fn look_up_one(call: &mut Call<'_>, digest: &Digest) -> Result<Option<Answer>, String> {
    let ctx = call.ctx;
    let mut refused = Ok(());
    let mut found = false;
    let answered = on_index(call, |cached, keys| {
        let index = &mut cached.index;
        let Some(probe) = index.probe(keys, digest)? else {
            return Ok(false);
        };
        let user = User::current(ctx);
        refused = user.check(&index.names().merged, Access::Read);
        index.aim(keys, std::slice::from_ref(&probe))?;
        if refused.is_ok() {
            refused = user.check(&index.names().allcrawls, Access::Read);
        }
        if refused.is_err() {
            return Ok(false);
        }
        let mut value = Value::new();
        let usual = match index.find_usual(keys, &probe, &mut value)? {
            Sight::Usual(usual) => usual,
            Sight::Absent => {
                send_array(ctx, 1);
                send_nil(ctx);
                return Ok(true);
            }
            Sight::Other => return Ok(false),
        };
        found = true;
        let Some(record) = Record::parse(&value) else {
            return Ok(false);
        };
        refused = user.check(&usual.records, Access::Read);
        if refused.is_ok() {
            send_array(ctx, 1);
            send_hit(ctx, usual.crawl(), &record, 5);
        }
        Ok(true)
    })?;
    refused?;
    if answered {
        metrics::LOOKUPS.add(1);
        metrics::HITS.add(u64::from(found));
    }
    Ok(answered.then_some(Answer::Sent))
}

/// Sends what a look-up found, as an array of so many fields.
fn send_hit(ctx: Ctx, crawl: &[u8], record: &Record<'_>, fields: usize) {
    send_array(ctx, fields);
    send_bulk(ctx, crawl);
    send_int(ctx, record.wacz_index as i64);
    send_bulk(ctx, record.date);
    send_bulk(ctx, record.url);
    send_int(ctx, record.size as i64);
}
