//! Access points: expressions with a name.

use redis::{FromRedisValue, ParsingError, Value};

use super::TagSpace;
use crate::server::{Ask, Call};

/// An access point.
#[derive(Clone, PartialEq, Eq)]
pub struct Point {
    /// The name of the access point, which may be a pattern: `org-(\d+)`.
    pub name: Vec<u8>,
    /// What a capture must be like: `org:$1 & !private`.
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
    /// `TAGS.POINTSET`: who asks for this access point gets what passes the expression. One of the same
    /// name is replaced.
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// space.point_set(b"all", b"coll:* & !private")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `SYNTAX`, `BADRE` or `CYCLE` when a part of it is malformed; or when the server refuses or cannot be
    /// reached.
    pub fn point_set(&self, name: impl AsRef<[u8]>, expression: impl AsRef<[u8]>) -> S::Answer<()> {
        let (name, expression) = (name.as_ref(), expression.as_ref());
        let mut set = self.command("TAGS.POINTSET");
        set.arg(name).arg(expression);
        self.repeat(set)
    }

    /// `TAGS.POINTDEL`: whether there was such a point; after a connection that broke, whether there was
    /// one for the second time.
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// space.point_delete(b"all")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn point_delete(&self, name: impl AsRef<[u8]>) -> S::Answer<bool> {
        let name = name.as_ref();
        let mut delete = self.command("TAGS.POINTDEL");
        delete.arg(name);
        self.repeat(delete)
    }

    /// `TAGS.POINTS`: all points, in the order in which they were set.
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// println!("{} access points", space.points()?.len());
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn points(&self) -> S::Answer<Vec<Point>> {
        let points = self.command("TAGS.POINTS");
        self.repeat(points)
    }

    /// `TAGS.POINTS name`: the point that this name leads to, with what a pattern caught filled in.
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
    /// `NOPOINT` when it leads to none; or when the server refuses or cannot be reached.
    pub fn point(&self, name: impl AsRef<[u8]>) -> S::Answer<Point> {
        let name = name.as_ref();
        let mut points = self.command("TAGS.POINTS");
        points.arg(name);
        let points = Call::<(Point,)>::new(points).repeatable();
        self.server.ask(points.map(|(point,)| point))
    }
}
