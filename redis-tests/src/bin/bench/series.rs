//! Repeated measurements and their statistics.

/// A quantity that was measured several times.
#[derive(Clone, Debug, Default)]
pub struct Series(pub Vec<f64>);

impl Series {
    /// Adds a measurement.
    pub fn push(&mut self, figure: f64) {
        self.0.push(figure);
    }

    /// Formats the median in a unit. Returns an empty string if there are no measurements.
    pub fn shown(&self, unit: impl Fn(f64) -> String) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        unit(self.median())
    }

    /// Returns the median.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Returns the smallest measurement.
    pub fn low(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Returns the largest measurement.
    pub fn high(&self) -> f64 {
        self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// Returns the `q`-quantile (0 for an empty series).
    pub fn quantile(&self, q: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1) as f64;
        let found = sorted.get((last * q).round() as usize);
        found.copied().unwrap_or(0.0)
    }

    /// Divides this series by another series, measurement by measurement. The two series were
    /// measured side by side, so a disturbance of the machine affects both.
    pub fn over(&self, other: &Series) -> Series {
        let pairs = self.0.iter().zip(&other.0);
        Series(pairs.map(|(a, b)| a / b).collect())
    }

    /// Divides each measurement by a fixed figure.
    pub fn over_fixed(&self, figure: f64) -> Series {
        self.0.iter().map(|measured| measured / figure).collect()
    }
}

impl FromIterator<f64> for Series {
    fn from_iter<I: IntoIterator<Item = f64>>(figures: I) -> Series {
        Series(figures.into_iter().collect())
    }
}

impl From<f64> for Series {
    fn from(figure: f64) -> Series {
        Series(vec![figure])
    }
}

impl From<&Series> for Series {
    fn from(series: &Series) -> Series {
        series.clone()
    }
}

/// Formats a rate: `2.06 M/s`, `315 k/s`.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 1e6 => format!("{:.2} M/s", r / 1e6),
        r if r >= 1e4 => format!("{:.0} k/s", r / 1e3),
        r => format!("{:.1} k/s", r / 1e3),
    }
}

/// Formats a duration: `12.3 s`, `650 ms`, `48 µs`.
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 10.0 => format!("{s:.1} s"),
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 0.01 => format!("{:.0} ms", s * 1e3),
        s if s >= 0.001 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.0} µs", s * 1e6),
    }
}

/// Formats a number with digit groups: `1 000 000`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_formatted_for_readers() {
        assert_eq!(grouped(1_000_000), "1 000 000");
        assert_eq!(grouped(999), "999");
        assert_eq!(rate(2_060_000.0), "2.06 M/s");
        assert_eq!(rate(315_400.0), "315 k/s");
        assert_eq!(time(0.0131), "13 ms");
        assert_eq!(time(0.000_048), "48 µs");
    }

    #[test]
    fn a_median_is_the_figure_in_the_middle() {
        let series = Series(vec![3.0, 1.0, 9.0]);
        let figures = [series.median(), series.low(), series.high()];
        assert_eq!(figures, [3.0, 1.0, 9.0]);
        assert_eq!(Series::default().median(), 0.0);
        assert_eq!(series.over(&Series(vec![1.0, 2.0, 3.0])).0, [3.0, 0.5, 3.0]);
    }
}
