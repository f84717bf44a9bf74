//! Commands for access points: `TAGS.POINTSET`, `TAGS.POINTDEL`, `TAGS.POINTS`.

use super::store::{change, read};
use crate::tags::error::Error;
use crate::tags::expression::{Bounds, Clause};
use crate::tags::grammar::{PointDel, PointSet, Points as Listing};
use crate::tags::point::{Point, Points};
use crate::tags::resolve::Resolver;
use crawlspace_host::reply::Reply;
use crawlspace_host::server::command::{Act, Answer, Call};

impl Act for PointSet<'static> {
    fn act(asked: PointSet<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let PointSet { name, expression } = asked;
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

impl Act for PointDel<'static> {
    fn act(asked: PointDel<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let removed = change(call, false, c"tags.pointdel", |space| {
            let removed = space.remove_point(asked.name);
            Ok((removed, removed))
        })?;
        Ok(Answer::Reply(Reply::Int(i64::from(removed == Some(true)))))
    }
}

impl Act for Listing<'static> {
    fn act(asked: Listing<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let none = Points::default();
        let points = read(call)?.map_or(&none, |space| space.points());
        let shown = match asked.name {
            None => points.iter().map(|p| pair(p.name(), p.text())).collect(),
            Some(name) => vec![meant(points, name).map_err(|error| error.to_string())?],
        };
        Ok(Answer::Reply(Reply::Array(shown)))
    }
}

fn pair(name: &[u8], expression: &[u8]) -> Reply {
    Reply::Array(vec![Reply::bulk(name), Reply::bulk(expression)])
}

/// Returns the access point that was set under exactly this name. If no access point has exactly
/// this name, returns the access point that a request with this name would use.
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
