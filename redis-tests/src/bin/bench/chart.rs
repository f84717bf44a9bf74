//! Line charts as SVG, next to the tables of the report.

use std::fmt::Write as _;

/// Width and height of a chart in pixels.
const SIZE: (f64, f64) = (760.0, 360.0);
/// Space around the lines: left, top, right, bottom. The names of the lines are on the right.
const MARGIN: (f64, f64, f64, f64) = (70.0, 30.0, 190.0, 50.0);
/// Colors that people with color blindness can distinguish.
const COLOURS: [&str; 5] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#555555"];

/// A line chart.
pub struct Chart {
    /// Name of the file, without its extension.
    pub name: &'static str,
    /// Title of the chart.
    pub title: String,
    /// Label of the vertical axis, with its unit.
    pub unit: &'static str,
    /// Labels of the horizontal axis, evenly spaced.
    pub places: Vec<String>,
    /// Name of each line, and its positive value at each label.
    pub lines: Vec<(String, Vec<f64>)>,
    /// True for a logarithmic vertical axis.
    pub is_logarithmic: bool,
}

impl Chart {
    /// Returns the picture as Markdown.
    pub fn link(&self) -> String {
        format!("![{}]({}.svg)\n", self.title, self.name)
    }

    /// Returns the minimum and maximum of the scale.
    fn scale(&self) -> (f64, f64) {
        let figures = || {
            self.lines
                .iter()
                .flat_map(|(_, figures)| figures.iter().copied())
        };
        let high = figures().fold(f64::MIN_POSITIVE, f64::max);
        if !self.is_logarithmic {
            let step = 10f64.powf(high.log10().floor()) / 2.0;
            return (0.0, (high / step).ceil() * step);
        }
        let low = figures().fold(high, f64::min);
        let power = |exponent: f64| 10f64.powf(exponent);
        (
            power(low.log10().floor()),
            power(high.log10().ceil().max(low.log10().floor() + 1.0)),
        )
    }

    /// Returns the vertical position of a value, from 0 at the bottom to 1 at the top.
    fn height(&self, figure: f64) -> f64 {
        let (low, high) = self.scale();
        if self.is_logarithmic {
            (figure / low).log10() / (high / low).log10()
        } else {
            (figure - low) / (high - low)
        }
    }

    /// Returns the values that get a grid line.
    fn marks(&self) -> Vec<f64> {
        let (low, high) = self.scale();
        if self.is_logarithmic {
            let powers = std::iter::successors(Some(low), |mark| Some(mark * 10.0));
            powers.take_while(|mark| *mark <= high * 1.01).collect()
        } else {
            (0..=5).map(|n| high * f64::from(n) / 5.0).collect()
        }
    }

    /// Returns the chart as SVG.
    pub fn svg(&self) -> String {
        let (width, height) = (SIZE.0 - MARGIN.0 - MARGIN.2, SIZE.1 - MARGIN.1 - MARGIN.3);
        let y = |figure: f64| MARGIN.1 + height * (1.0 - self.height(figure));
        let steps = self.places.len().saturating_sub(1).max(1) as f64;
        let x = |place: usize| MARGIN.0 + width * place as f64 / steps;
        let (right, bottom) = (MARGIN.0 + width, MARGIN.1 + height);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{}\" y=\"18\" font-weight=\"bold\">{}, {}</text>\n",
            SIZE.0,
            SIZE.1,
            MARGIN.0,
            escaped(&self.title),
            self.unit
        );
        for mark in self.marks() {
            let y = y(mark);
            let _ = writeln!(
                out,
                "<path d=\"M{} {y:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{mark}</text>",
                MARGIN.0,
                MARGIN.0 - 6.0,
                y + 4.0
            );
        }
        for (number, place) in self.places.iter().enumerate() {
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                x(number),
                bottom + 20.0,
                escaped(place)
            );
        }
        for (number, (name, figures)) in self.lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let points = figures.iter().enumerate();
            let points: Vec<_> = points
                .map(|(place, &figure)| format!("{:.1},{:.1}", x(place), y(figure)))
                .collect();
            let _ = writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n\
                 <text x=\"{}\" y=\"{}\" fill=\"{colour}\">{}</text>",
                points.join(" "),
                right + 10.0,
                MARGIN.1 + 12.0 + 18.0 * number as f64,
                escaped(name)
            );
        }
        out + "</svg>\n"
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(is_logarithmic: bool) -> Chart {
        Chart {
            name: "a",
            title: "a < b".into(),
            unit: "ms",
            places: vec!["half".into(), "all".into()],
            lines: vec![
                ("ours".into(), vec![0.02, 3.0]),
                ("theirs".into(), vec![40.0, 700.0]),
            ],
            is_logarithmic,
        }
    }

    #[test]
    fn a_scale_holds_every_figure() {
        assert_eq!(chart(false).scale(), (0.0, 700.0));
        let (low, high) = chart(true).scale();
        assert!((low - 0.01).abs() < 1e-9 && (high - 1000.0).abs() < 1e-9);
        assert_eq!(chart(true).marks().len(), 6);
        for chart in [chart(false), chart(true)] {
            let heights = [0.02, 3.0, 40.0, 700.0].map(|figure| chart.height(figure));
            assert!(heights.is_sorted() && heights[0] >= 0.0 && heights[3] <= 1.0);
        }
    }

    #[test]
    fn a_chart_has_each_line_and_place() {
        let svg = chart(true).svg();
        assert_eq!(svg.matches("<polyline").count(), 2);
        for text in ["a &lt; b, ms", ">half<", ">all<", ">ours<", ">theirs<"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }
}
