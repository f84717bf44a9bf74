//! `DEDUPE.ADD` and `DEDUPE.REVISIT`.

use crate::dedupe::add::{Adding, Response};
use crate::dedupe::date::{DATE_BYTES, is_date};
use crate::dedupe::keys::CrawlKey;
use crate::dedupe::record::{Record, URL_BYTES};
use crate::dedupe::revisit::{Dependency, Original, Revisit as Revisited};
use crawlspace_host::reply::Reply;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::args::Args;
use crawlspace_host::server::clock::even_ms;
use crawlspace_host::server::command::{Answer, Arg, Call, Command, Spec};
use crawlspace_host::text::Shown;

use super::indexes::{on_index, permit};
use super::metrics;
use super::{claims, crawl_argument, hash_argument, sequence_argument};

/// Maximum length of an id of a WACZ that is being written, in bytes.
const UUID_BYTES: usize = 1024;

/// Longest record size and WACZ index: integers that every client can hold.
const MAX_INTEGER: u64 = (1 << 53) - 1;

const SEQ: Arg = Arg::block("seq", &[Arg::text("writer"), Arg::integer("n")])
    .after("SEQ")
    .optional();

/// A `response` record was written.
pub struct Add;

/// Arguments of each record.
const WORDS: usize = 5;

fn response<'a>(args: &mut Args<'a>) -> Result<Response<'a>, String> {
    let (_, digest) = hash_argument(args)?;
    let wacz_index = args.unsigned("waczIndex", 0, MAX_INTEGER)?;
    let date = args.bytes("date", DATE_BYTES)?;
    if !is_date(date) {
        return Err(format!(
            "ERR invalid date '{}': 14 or 17 digits, or ISO 8601 form, are expected (argument {})",
            Shown(date),
            args.position()
        ));
    }
    let url = args.bytes("url", URL_BYTES)?;
    let size = args.unsigned("size", 0, MAX_INTEGER)?;
    Ok(Response {
        digest,
        record: Record {
            wacz_index,
            date,
            url,
            size,
        },
    })
}

impl Command for Add {
    const SPEC: Spec = Spec {
        name: "dedupe.add",
        flags: "write deny-oom fast",
        arity: -8,
        summary: "Tells that response records were written, and settles the claim on their payload.",
        complexity: "O(N) where N is the number of records",
        args: &[
            Arg::prefix(),
            Arg::text("crawl"),
            Arg::integer("token").after("TOKEN").optional(),
            SEQ,
            Arg::word("earliest", "EARLIEST").optional(),
            Arg::block(
                "record",
                &[
                    Arg::text("hash"),
                    Arg::integer("waczIndex"),
                    Arg::text("date"),
                    Arg::text("url"),
                    Arg::integer("size"),
                ],
            )
            .multiple(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let crawl = crawl_argument(&mut call.args)?;
        let mut how = Adding::default();
        loop {
            if how.token.is_none() && call.args.keyword("TOKEN") {
                how.token = Some(call.args.unsigned("token", 1, i64::MAX as u64)?);
            } else if how.seq.is_none() && call.args.keyword("SEQ") {
                how.seq = Some(sequence_argument(&mut call.args)?);
            } else if !how.earliest && call.args.keyword("EARLIEST") {
                how.earliest = true;
            } else {
                break;
            }
        }
        let records = call.args.left() / WORDS;
        let mut responses = Vec::with_capacity(records);
        let mut given = Vec::with_capacity(records);
        loop {
            responses.push(response(&mut call.args)?);
            given.push(call.argument(call.args.position() + 1 - WORDS));
            if call.args.left() == 0 {
                break;
            }
        }
        permit(
            call,
            &[(|names| &names.uncommitted, Access::Write)],
            &[(crawl, &[CrawlKey::Records, CrawlKey::Counts], Access::Write)],
        )?;
        let new = on_index(call, |cached, keys| {
            let index = &mut cached.index;
            // A hash in the written form is a string of the server already.
            let written = given
                .into_iter()
                .zip(&responses)
                .filter(|(given, response)| {
                    given.as_ref() == response.digest.written(index.profile())
                });
            keys.offer_fields(written.map(|(given, _)| given));
            index.add(keys, crawl, &responses, how, even_ms())
        })?;
        metrics::ADDS.add(responses.len() as u64);
        if claims::anybody_waits() {
            let digests: Vec<_> = responses.into_iter().map(|r| r.digest).collect();
            claims::serve(call.db, call.prefix, &mut call.keys, Some(&digests));
        }
        Ok(Answer::Reply(Reply::count(new)))
    }
}

/// A `revisit` record was written.
pub struct Revisit;

impl Command for Revisit {
    const SPEC: Spec = Spec {
        name: "dedupe.revisit",
        flags: "write deny-oom fast",
        arity: -5,
        summary: "Tells that revisit records were written: what they save, and what they depend on.",
        complexity: "O(N) where N is the number of records",
        args: &[
            Arg::prefix(),
            Arg::text("crawl"),
            Arg::one_of(
                "dependency",
                &[Arg::text("uuid").after("REF"), Arg::word("noref", "NOREF")],
            )
            .optional(),
            SEQ,
            Arg::block(
                "record",
                &[
                    Arg::text("hash"),
                    Arg::integer("revisit-size"),
                    Arg::block(
                        "original",
                        &[
                            Arg::text("crawl"),
                            Arg::integer("waczIndex"),
                            Arg::integer("size"),
                        ],
                    )
                    .after("ORIGINAL")
                    .optional(),
                ],
            )
            .multiple(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let crawl = crawl_argument(&mut call.args)?;
        let (mut dependency, mut seq) = (None, None);
        loop {
            if dependency.is_none() && call.args.keyword("REF") {
                dependency = Some(Dependency::Wacz(call.args.bytes("uuid", UUID_BYTES)?));
            } else if dependency.is_none() && call.args.keyword("NOREF") {
                dependency = Some(Dependency::Elsewhere);
            } else if seq.is_none() && call.args.keyword("SEQ") {
                seq = Some(sequence_argument(&mut call.args)?);
            } else {
                break;
            }
        }
        let dependency = dependency.unwrap_or(Dependency::Crawl);
        let mut revisits = Vec::with_capacity(call.args.left() / 2);
        loop {
            let (given, digest) = hash_argument(&mut call.args)?;
            let size = call.args.unsigned("revisit-size", 0, MAX_INTEGER)?;
            // No hash is as short as this word.
            let original = if call.args.keyword("ORIGINAL") {
                Some(Original {
                    crawl: crawl_argument(&mut call.args)?,
                    wacz_index: call.args.unsigned("waczIndex", 0, MAX_INTEGER)?,
                    size: call.args.unsigned("size", 0, MAX_INTEGER)?,
                })
            } else {
                None
            };
            revisits.push(Revisited {
                digest,
                given,
                size,
                original,
            });
            if call.args.left() == 0 {
                break;
            }
        }
        permit(
            call,
            &[
                (|names| &names.merged, Access::Read),
                (|names| &names.allcrawls, Access::Read),
                (|names| &names.uncommitted, Access::Write),
            ],
            &[
                (crawl, &[CrawlKey::Records], Access::Read),
                (crawl, &[CrawlKey::Counts], Access::Write),
            ],
        )?;
        if dependency != Dependency::Elsewhere {
            permit(call, &[], &[(crawl, &[CrawlKey::Requires], Access::Write)])?;
        }
        if let Dependency::Wacz(uuid) = dependency {
            let user = call.user();
            let references = on_index(call, |cached, keys| {
                Ok(cached.index.references_key(keys, uuid))
            })?;
            user.check(&references, Access::Write)?;
        }
        let n = on_index(call, |cached, keys| {
            let index = &mut cached.index;
            index.revisit(keys, crawl, &revisits, dependency, seq)
        })?;
        metrics::REVISITS.add(n);
        Ok(Answer::Reply(Reply::count(n)))
    }
}
