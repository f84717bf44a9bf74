//! Access points: named expressions.

use redis::{FromRedisValue, ParsingError, Value};

use super::TagSpace;
use crate::server::{Ask, Call};

/// An access point.
#[derive(Clone, PartialEq, Eq)]
pub struct Point {
    /// Name of the access point. The name may be a pattern, such as `org-(\d+)`.
    pub name: Vec<u8>,
    /// Expression that a capture must satisfy, such as `org:$1 & !private`.
    pub expression: Vec<u8>,
}

debug_as_text! { Point { name: text, expression: text } }

impl FromRedisValue for Point {
    fn from_redis_value(value: Value) -> Result<Point, ParsingError> {
        let (name, expression) = FromRedisValue::from_redis_value(value)?;
        Ok(Point { name, expression })
    }
}

impl<S: Ask> TagSpace<S> {
    /// Creates or replaces an access point (`TAGS.POINTSET`). Captures that satisfy the expression
    /// pass the access point.
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// space.point_set(b"all", b"coll:* & !private")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `SYNTAX`, `BADRE` or `CYCLE` when an argument is invalid; or another server or connection
    /// error.
    pub fn point_set(&self, name: impl AsRef<[u8]>, expression: impl AsRef<[u8]>) -> S::Answer<()> {
        let (name, expression) = (name.as_ref(), expression.as_ref());
        let mut set = self.command("TAGS.POINTSET");
        set.arg(name).arg(expression);
        self.repeat(set)
    }

    /// Deletes an access point (`TAGS.POINTDEL`). Returns true if the access point existed. After a
    /// retry, returns true if the second attempt deleted it.
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// space.point_delete(b"all")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn point_delete(&self, name: impl AsRef<[u8]>) -> S::Answer<bool> {
        let name = name.as_ref();
        let mut delete = self.command("TAGS.POINTDEL");
        delete.arg(name);
        self.repeat(delete)
    }

    /// Lists all access points, in the order in which they were set (`TAGS.POINTS`).
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// println!("{} access points", space.points()?.len());
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn points(&self) -> S::Answer<Vec<Point>> {
        let points = self.command("TAGS.POINTS");
        self.repeat(points)
    }

    /// Returns the access point to which this name resolves, with the groups of its pattern filled
    /// in (`TAGS.POINTS name`).
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// let point = space.point(b"org-77")?;
    /// println!("{}", String::from_utf8_lossy(&point.expression));
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOPOINT` when the name resolves to no access point, or another server or connection error.
    pub fn point(&self, name: impl AsRef<[u8]>) -> S::Answer<Point> {
        let name = name.as_ref();
        let mut points = self.command("TAGS.POINTS");
        points.arg(name);
        let points = Call::<(Point,)>::new(points).repeatable();
        self.server.ask(points.map(|(point,)| point))
    }
}
