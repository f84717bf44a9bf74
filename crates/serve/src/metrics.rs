//! Metrics in the text format of Prometheus, version 0.0.4.

use std::fmt::Write as _;

/// The media type of the text.
pub const MEDIA: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Text of a metrics endpoint.
#[derive(Debug, Default)]
pub struct Metrics {
    text: String,
}

// Writing to a string cannot fail.
impl Metrics {
    /// Starts a metric family; the name is given without `crawlspace_`.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP crawlspace_{name} {help}");
        let _ = writeln!(self.text, "# TYPE crawlspace_{name} {kind}");
    }

    /// Adds a sample.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let _ = write!(self.text, "crawlspace_{name}{{");
        for (index, (label, of)) in labels.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(self.text, "{comma}{label}=\"");
            for c in of.chars() {
                match c {
                    '"' | '\\' => self.text.extend(['\\', c]),
                    '\n' => self.text.push_str("\\n"),
                    c => self.text.push(c),
                }
            }
            self.text.push('"');
        }
        let _ = writeln!(self.text, "}} {value}");
    }

    /// Returns the text.
    pub fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_metrics_are_escaped() {
        let mut out = Metrics::default();
        out.family("x", "gauge", "What it is.");
        out.sample("x", &[("a", "q\"b\\c\nd"), ("b", "é")], 1.5);
        out.sample("x", &[], 2.0);
        assert_eq!(
            out.into_text(),
            "# HELP crawlspace_x What it is.\n# TYPE crawlspace_x gauge\n\
             crawlspace_x{a=\"q\\\"b\\\\c\\nd\",b=\"é\"} 1.5\ncrawlspace_x{} 2\n"
        );
    }
}
