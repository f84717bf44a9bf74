//! `indexes`: configuration of the cache of job indexes, which the server offers at `/_indexes`.

use std::time::Duration;

use super::fields::Fields;
use super::location::{one_of, path, template};
use super::source::prefix;
use super::yaml::Node;
use super::yaml::each;
use super::{Indexes, Reader};

const KEYS: [&str; 6] = [
    "cache_dir",
    "metadata",
    "wait",
    "retry_missing",
    "memory",
    "limits",
];
const LIMITS: [&str; 4] = ["max_size", "min_free", "max_age", "grace"];
/// Maximum duration, in seconds (a hundred years).
const MAX_SECONDS: f64 = 100.0 * 366.0 * 86_400.0;

impl Reader<'_> {
    /// Parses the value of `indexes`.
    pub(super) fn indexes(&mut self, node: &Node) -> Option<Indexes> {
        let fields = self.fields(node, "indexes")?;
        self.only(&fields, &KEYS, "indexes");
        let folder = self.folder;
        let cache_dir = self.needed(&fields, "cache_dir", |text| path(text, folder));
        let metadata = self.metadata(&fields);
        let limits = match fields.get("limits") {
            Some(node) => self.fields(node, "limits")?,
            None => Fields {
                entries: &[],
                position: node.position,
            },
        };
        self.only(&limits, &LIMITS, "limits");
        let indexes = Indexes {
            wait: self.span(&fields, "wait"),
            retry_missing: self.span(&fields, "retry_missing"),
            memory: self.size(&fields, "memory"),
            max_size: self.size(&limits, "max_size"),
            min_free: self.size(&limits, "min_free"),
            max_age: self.span(&limits, "max_age"),
            grace: self.span(&limits, "grace"),
            cache_dir: cache_dir?,
            metadata: metadata?,
        };
        Some(indexes)
    }

    /// Parses `metadata`: a list of folders, list files and URLs.
    fn metadata(&mut self, fields: &Fields<'_>) -> Option<Vec<String>> {
        let Some(node) = fields.get("metadata") else {
            let what = "the field metadata is missing: name folders, lists or URLs of the metadata files of jobs";
            self.found.error(fields.position, what);
            return None;
        };
        let nodes = each(node);
        if nodes.is_empty() {
            let what =
                "metadata is empty: name folders, lists or URLs of the metadata files of jobs";
            self.found.error(node.position, what);
        }
        let mut locations = Vec::new();
        for node in nodes {
            let text = self.text(node, "metadata")?;
            let location = self.location(&text);
            locations.extend(self.found.take(node.position, location));
        }
        (locations.len() == nodes.len() && !locations.is_empty()).then_some(locations)
    }

    fn location(&self, text: &str) -> Result<String, String> {
        if text.starts_with("http://") || text.starts_with("https://") {
            return template(text, &[]);
        }
        if let Some(prefix) = prefix(text).filter(|prefix| !prefix.starts_with("file:")) {
            return Err(format!(
                "invalid prefix {prefix:?}: it can be {}",
                one_of(&["http://", "https://", "file://"])
            ));
        }
        let path = path(text, self.folder)?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// Parses a field with a duration: `90d`, or a number of seconds.
    fn span(&mut self, fields: &Fields<'_>, name: &str) -> Option<Duration> {
        let node = fields.get(name)?;
        let text = self.text(node, name)?;
        let outcome = number_with(&text, &SPANS)
            .filter(|seconds| *seconds <= MAX_SECONDS)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .ok_or_else(|| {
                format!("{name} must be a duration such as 90d, 12h, 10m or 30s, or a number of seconds (got {text:?})")
            });
        self.found.take(node.position, outcome)
    }

    /// Parses a field with a size: `100GB`, or a number of bytes.
    fn size(&mut self, fields: &Fields<'_>, name: &str) -> Option<u64> {
        let node = fields.get(name)?;
        let text = self.text(node, name)?;
        // Parse numbers without a unit as integers, because a float would lose the last digits of large numbers.
        let plain = text.parse().ok();
        let with_unit = || {
            number_with(&text, &SIZES)
                .filter(|bytes| *bytes < u64::MAX as f64)
                .map(|bytes| bytes as u64)
        };
        let outcome = plain
            .or_else(with_unit)
            .filter(|bytes| *bytes > 0)
            .ok_or_else(|| {
                format!("{name} must be a size such as 100GB or 512MiB, or a number of bytes of at least 1 (got \
                 {text:?})")
            });
        self.found.take(node.position, outcome)
    }
}

/// Units of time, in seconds.
const SPANS: [(&str, f64); 6] = [
    ("", 1.0),
    ("s", 1.0),
    ("m", 60.0),
    ("min", 60.0),
    ("h", 3_600.0),
    ("d", 86_400.0),
];
/// Units of size, in bytes.
const SIZES: [(&str, f64); 9] = [
    ("b", 1.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("tb", 1e12),
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("tib", 1_099_511_627_776.0),
];

/// Parses a number with a unit (`1.5h`), and converts it to the base unit of the table.
fn number_with(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let unit = unit.trim_start();
    let (_, factor) = units
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(unit))?;
    Some(number.parse::<f64>().ok()? * factor)
}
