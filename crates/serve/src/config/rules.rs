//! Parses the access rules of a collection: `acl_paths`, `default_access` and `embargo`, as in pywb.

use std::path::PathBuf;
use std::sync::Arc;

use super::Reader;
use super::errors::Position;
use super::fields::Fields;
use super::location::path;
use super::yaml::{Node, each};
use crate::rules::{Access, Dates, Embargo, Period, Rules};

/// Fields of a collection that hide captures.
pub(super) const ACCESS: [&str; 3] = ["acl_paths", "default_access", "embargo"];

/// Default access point of policies.
const PUBLIC: &str = "public";
/// Date conditions of an embargo.
const DATES: [&str; 4] = ["before", "after", "older", "newer"];
/// Units of a period.
const PARTS: [&str; 4] = ["years", "months", "weeks", "days"];

impl Reader<'_> {
    /// Parses the rules of a collection with that access point; `None` if nothing is hidden. Records errors.
    pub(super) fn rules(&mut self, fields: &Fields<'_>, point: Option<&str>) -> Option<Arc<Rules>> {
        let mut paths = Vec::new();
        for node in fields.get("acl_paths").map_or(&[][..], each) {
            let text = self.text(node, "acl_paths")?;
            paths.push(self.found.take(node.position, path(&text, self.folder))?);
        }
        let default = match fields.get("default_access") {
            Some(_) => self.needed(fields, "default_access", Access::parse)?,
            None => self.default_access,
        };
        let embargo = match fields.get("embargo") {
            Some(node) => Some(self.embargo(node)?),
            None => None,
        };
        if paths.is_empty() && embargo.is_none() && default <= Access::Allow {
            return None;
        }
        let position = fields
            .first(&ACCESS)
            .map_or(fields.position, |entry| entry.position);
        self.read_rules(position, paths, default, embargo, point)
    }

    /// Returns the rules of a collection that has none of its own: the top-level `default_access`, and the rules in
    /// `folder`, if given. Records errors.
    pub(super) fn default_rules(
        &mut self,
        position: Position,
        folder: Option<PathBuf>,
    ) -> Option<Arc<Rules>> {
        if folder.is_none() && self.default_access <= Access::Allow {
            return None;
        }
        let paths = folder.into_iter().collect();
        self.read_rules(position, paths, self.default_access, None, None)
    }

    fn read_rules(
        &mut self,
        position: Position,
        paths: Vec<PathBuf>,
        default: Access,
        embargo: Option<Embargo>,
        point: Option<&str>,
    ) -> Option<Arc<Rules>> {
        self.found.names(Rules::files_of(&paths));
        let rules = Rules::read(paths, default, embargo, point.unwrap_or(PUBLIC));
        self.found.take(position, rules).map(Arc::new)
    }

    fn embargo(&mut self, node: &Node) -> Option<Embargo> {
        let fields = self.fields(node, "an embargo")?;
        self.only(&fields, &[&DATES[..], &["access"]].concat(), "an embargo");
        let access = match fields.get("access") {
            Some(_) => self.needed(&fields, "access", Access::parse)?,
            None => Access::Exclude,
        };
        let said = DATES.map(|name| fields.entry(name).is_some());
        if said.into_iter().filter(|&said| said).count() != 1 {
            let what = "an embargo needs exactly one of before, after, older and newer";
            self.found.error(node.position, what);
            return None;
        }
        let entry = fields.first(&DATES)?;
        let dates = match &*entry.key {
            "before" => Dates::Before(self.needed(&fields, "before", Dates::moment)?),
            "after" => Dates::After(self.needed(&fields, "after", Dates::moment)?),
            "older" => Dates::Older(self.period(&entry.value)?),
            _ => Dates::Newer(self.period(&entry.value)?),
        };
        Some(Embargo { dates, access })
    }

    fn period(&mut self, node: &Node) -> Option<Period> {
        let fields = self.fields(node, "the age of captures under an embargo")?;
        self.only(&fields, &PARTS, "the age of captures under an embargo");
        let mut part = |name: &str| match fields.get(name) {
            Some(_) => self.needed(&fields, name, count),
            None => Some(0),
        };
        let [years, months, weeks, days] = PARTS.map(&mut part);
        let period = Period {
            years: years?,
            months: months?,
            weeks: weeks?,
            days: days?,
        };
        self.found.take(node.position, period.some())
    }
}

fn count(text: &str) -> Result<u32, String> {
    let count = text.parse().ok().filter(|&count| count <= 9999);
    count.ok_or_else(|| format!("{text:?} is invalid; allowed values are whole numbers up to 9999"))
}
