//! Access points: `TAGS.POINTSET`, `TAGS.POINTDEL`, `TAGS.POINTS`.

use super::store::{change, read};
use crate::tags::error::Error;
use crate::tags::expression::{Bounds, Clause, Resolver};
use crate::tags::point::{NAME_BYTES, Point, Points};
use crawlspace_host::reply::Reply;
use crawlspace_host::server::command::{Answer, Arg, Call, Command, Spec};

/// A point is set.
pub struct PointSet;

impl Command for PointSet {
    const SPEC: Spec = Spec {
        name: "tags.pointset",
        flags: "write deny-oom",
        arity: 4,
        summary: "Sets an access point: an expression with a name, or with a pattern of names.",
        complexity: "O(N) where N is the length of the expression",
        args: &[Arg::key(), Arg::text("name"), Arg::text("expression")],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let name = call.args.bytes("name", NAME_BYTES)?;
        let expression = call.args.next("expression")?;
        call.args.end()?;
        let point = Point::new(name, expression).map_err(|error| error.to_string())?;
        change(call, true, c"tags.pointset", |space| {
            let known = space.points().set_as(name).map(Point::text) == Some(expression);
            if !known {
                space.set_point(point)?;
            }
            Ok(((), !known))
        })?;
        Ok(Answer::Reply(Reply::Ok))
    }
}

/// A point is removed.
pub struct PointDel;

impl Command for PointDel {
    const SPEC: Spec = Spec {
        name: "tags.pointdel",
        flags: "write fast",
        arity: 3,
        summary: "Removes an access point.",
        complexity: "O(log N) where N is the number of access points",
        args: &[Arg::key(), Arg::text("name")],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let name = call.args.bytes("name", NAME_BYTES)?;
        call.args.end()?;
        let removed = change(call, false, c"tags.pointdel", |space| {
            let removed = space.remove_point(name);
            Ok((removed, removed))
        })?;
        Ok(Answer::Reply(Reply::Int(i64::from(removed == Some(true)))))
    }
}

/// The points, or what one name means.
pub struct List;

impl Command for List {
    const SPEC: Spec = Spec {
        name: "tags.points",
        flags: "readonly",
        arity: -2,
        summary: "Lists the access points, or tells what a name means.",
        complexity: "O(N) where N is the number of access points; with a name, of those that are patterns",
        args: &[Arg::key(), Arg::text("name").optional()],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let name = match call.args.left() {
            0 => None,
            _ => Some(call.args.next("name")?),
        };
        call.args.end()?;
        let none = Points::default();
        let points = read(call)?.map_or(&none, |space| space.points());
        let shown = match name {
            None => points.iter().map(|p| pair(p.name(), p.text())).collect(),
            Some(name) => vec![meant(points, name).map_err(|error| error.to_string())?],
        };
        Ok(Answer::Reply(Reply::Array(shown)))
    }
}

fn pair(name: &[u8], expression: &[u8]) -> Reply {
    Reply::Array(vec![Reply::bulk(name), Reply::bulk(expression)])
}

/// The point that a name means: the one set so, else the one that a request would get.
fn meant(points: &Points, name: &[u8]) -> Result<Reply, Error> {
    if let Some(point) = points.set_as(name) {
        return Ok(pair(point.name(), point.text()));
    }
    let point = points.named(name)?.point;
    let clause = Resolver::new(points, Bounds::NARROW).point(name)?;
    let meaning = match &clause {
        Clause::Point(_, inner) => inner.written(),
        other => other.written(),
    };
    Ok(pair(point.name(), &meaning))
}
