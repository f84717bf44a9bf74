//! URIs come: `CHG.ADD` and `CHG.ADDURI`.

use crate::chg::add::{Counts, Kept, Queued, Sequence};
use crate::chg::uris::{MAX_WEIGHT, URI_BYTES};
use crawlspace_host::reply::Reply;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::command::{Answer, Arg, Call, Command, Spec};

use super::NOW;
use super::arguments::{id, now, time};
use super::frontiers::{Touched, anchor, on_frontier, permit};

fn counts_reply(counts: Counts) -> Reply {
    let counts = counts.into_iter();
    Reply::Array(counts.map(|c| c.map_or(Reply::Nil, Reply::count)).collect())
}

/// URIs were queued that the crawler keeps itself.
pub struct Add;

impl Command for Add {
    const SPEC: Spec = Spec {
        name: "chg.add",
        flags: "write deny-oom",
        arity: -5,
        summary: "Tells that URIs were queued for crawl host groups, which wait until they are due.",
        complexity: "O(N log M) where N is the number of URIs and M that of waiting groups",
        args: &[
            Arg::prefix(),
            NOW,
            Arg::text("execution"),
            Arg::block("sequence", &[Arg::text("writer"), Arg::integer("n")])
                .after("SEQ")
                .optional(),
            Arg::block("uri", &[Arg::text("chg"), Arg::integer("at")]).multiple(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let now = now(call)?;
        let args = &mut call.args;
        let execution = id(args, "execution")?;
        // Pairs follow, so an odd number of arguments says that SEQ is there.
        let sequence = if args.left() % 2 == 1 {
            if !args.keyword("SEQ") {
                return Err(format!(
                    "ERR syntax error: after the execution come pairs of group and time, or first SEQ with writer and number (argument {})",
                    args.position() + 1
                ));
            }
            Some(Sequence {
                writer: id(args, "writer")?,
                n: args.unsigned("sequence number", 1, i64::MAX as u64)?,
            })
        } else {
            None
        };
        let mut uris = Vec::with_capacity(args.left() / 2);
        loop {
            uris.push(Queued {
                chg: id(args, "chg")?,
                at: time(args, "at", now.ms)?,
            });
            if args.left() == 0 {
                break;
            }
        }
        let groups: Vec<&[u8]> = uris.iter().map(|uri| uri.chg).collect();
        permit(call, &Touched::Groups(&groups), Access::Write)?;
        let counts = on_frontier(call, |cached, keys| {
            cached.simulated = now.simulated;
            let frontier = &mut cached.frontier;
            let counts = frontier.add(keys, execution, sequence, &uris, now.ms)?;
            cached.serve(keys, now.ms)?;
            Ok(counts)
        })?;
        anchor(call)?;
        Ok(Answer::Reply(counts_reply(counts)))
    }
}

/// URIs that the frontier is to keep.
pub struct AddUri;

impl Command for AddUri {
    const SPEC: Spec = Spec {
        name: "chg.adduri",
        flags: "write deny-oom",
        arity: -7,
        summary: "Queues URIs for crawl host groups, and keeps them until they are leased.",
        complexity: "O(N log M) where N is the number of URIs and M that of waiting groups and kept URIs",
        args: &[
            Arg::prefix(),
            NOW,
            Arg::text("execution"),
            Arg::integer("weight").after("WEIGHT").optional(),
            Arg::block(
                "uri",
                &[
                    Arg::text("chg"),
                    Arg::integer("at"),
                    Arg::integer("depth"),
                    Arg::text("uri"),
                ],
            )
            .multiple(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let now = now(call)?;
        let args = &mut call.args;
        let execution = id(args, "execution")?;
        // Tuples of four follow, so the number of arguments says whether WEIGHT is there.
        let weight = match args.left() % 4 {
            2 if args.keyword("WEIGHT") => Some(args.unsigned("WEIGHT", 1, MAX_WEIGHT)?),
            0 => None,
            _ => {
                return Err(format!(
                    "ERR syntax error: after the execution come group, time, depth and URI, once or more, or first WEIGHT with a number (argument {})",
                    args.position() + 1
                ));
            }
        };
        let mut uris = Vec::with_capacity(args.left() / 4);
        loop {
            uris.push(Kept {
                chg: id(args, "chg")?,
                at: time(args, "at", now.ms)?,
                depth: args.unsigned("depth", 0, u64::from(u32::MAX))? as u32,
                uri: args.bytes("uri", URI_BYTES)?,
            });
            if args.left() == 0 {
                break;
            }
        }
        let groups: Vec<&[u8]> = uris.iter().map(|uri| uri.chg).collect();
        permit(call, &Touched::Groups(&groups), Access::Write)?;
        let counts = on_frontier(call, |cached, keys| {
            cached.simulated = now.simulated;
            let frontier = &mut cached.frontier;
            let counts = frontier.add_kept(keys, execution, weight, &uris, now.ms)?;
            cached.serve(keys, now.ms)?;
            Ok(counts)
        })?;
        anchor(call)?;
        Ok(Answer::Reply(counts_reply(counts)))
    }
}
