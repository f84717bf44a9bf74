//! Access points: expressions with a name.

use redis::{FromRedisValue, ParsingError, Value};

use super::{Error, TagSpace};

/// An access point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its name, which may be a pattern: `org-(\d+)`.
    pub name: Vec<u8>,
    /// What a capture must be like: `org:$1 & !private`.
    pub expression: Vec<u8>,
}

impl FromRedisValue for Point {
    fn from_redis_value(value: Value) -> Result<Point, ParsingError> {
        let (name, expression) = FromRedisValue::from_redis_value(value)?;
        Ok(Point { name, expression })
    }
}

impl TagSpace {
    /// `TAGS.POINTSET`: who asks for this access point gets what passes the expression. One of the same
    /// name is replaced.
    ///
    /// # Errors
    /// `SYNTAX`, `BADRE` or `CYCLE` when a part of it is malformed; or when the server refuses or cannot be
    /// reached.
    pub fn point_set(&mut self, name: &[u8], expression: &[u8]) -> Result<(), Error> {
        let mut set = self.command("TAGS.POINTSET");
        set.arg(name).arg(expression);
        self.retry("TAGS.POINTSET", &set)
    }

    /// `TAGS.POINTDEL`: whether there was such a point; after a connection that broke, whether there was
    /// one for the second time.
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn point_delete(&mut self, name: &[u8]) -> Result<bool, Error> {
        let mut delete = self.command("TAGS.POINTDEL");
        delete.arg(name);
        self.retry("TAGS.POINTDEL", &delete)
    }

    /// `TAGS.POINTS`: all points, in the order in which they were set.
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn points(&mut self) -> Result<Vec<Point>, Error> {
        let points = self.command("TAGS.POINTS");
        self.retry("TAGS.POINTS", &points)
    }

    /// `TAGS.POINTS name`: the point that this name leads to, with what a pattern caught filled in.
    ///
    /// # Errors
    /// `NOPOINT` when it leads to none; or when the server refuses or cannot be reached.
    pub fn point(&mut self, name: &[u8]) -> Result<Point, Error> {
        let mut points = self.command("TAGS.POINTS");
        points.arg(name);
        let (point,) = self.retry("TAGS.POINTS", &points)?;
        Ok(point)
    }
}
