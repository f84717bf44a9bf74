//! Calendar of captures: years, the months of a year, the days of a month.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crawlspace_index::timestamp::Timestamp;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const SECONDS_A_DAY: i64 = 86_400;

/// A span of time, identified by its digits: everything, a year, a month or a day.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span(String);

impl Span {
    /// Parses 0, 4, 6 or 8 digits of an existing month or day.
    pub(crate) fn parse(digits: &str) -> Option<Span> {
        let shaped = matches!(digits.len(), 0 | 4 | 6 | 8)
            && digits.bytes().all(|byte| byte.is_ascii_digit());
        // `earliest` may replace an invalid day by the last one of its month.
        let first = Timestamp::earliest(digits.as_bytes()).map(|first| first.to_string());
        let there = digits.is_empty() || first.is_some_and(|first| first.starts_with(digits));
        (shaped && there).then(|| Span(digits.to_owned()))
    }

    /// Returns the next smaller span that contains a capture of this time.
    pub(crate) fn part(&self, timestamp: &[u8]) -> Option<Span> {
        let digits = match self.0.len() {
            0 => 4,
            length => length + 2,
        };
        let digits = timestamp.get(..digits.min(8))?;
        Span::parse(std::str::from_utf8(digits).ok()?)
    }

    /// Returns the digits of the span.
    pub(crate) fn digits(&self) -> &str {
        &self.0
    }

    /// Returns whether the span is a day, which cannot be narrowed down.
    pub(crate) fn is_day(&self) -> bool {
        self.0.len() == 8
    }

    /// Returns the enclosing spans, from everything to the span itself.
    fn path(&self) -> impl Iterator<Item = Span> + '_ {
        [0, 4, 6, 8]
            .into_iter()
            .filter_map(|end| self.0.get(..end))
            .map(|digits| Span(digits.to_owned()))
    }

    fn number(&self, from: usize, to: usize) -> Option<usize> {
        self.0.get(from..to)?.parse().ok()
    }

    /// Returns a short name: `All years`, `2014`, `March`, `5`.
    pub(crate) fn short(&self) -> String {
        match (self.number(6, 8), self.number(4, 6)) {
            (Some(day), _) => day.to_string(),
            (None, Some(month)) => {
                let name = MONTHS.get(month.saturating_sub(1)).copied();
                name.unwrap_or_default().to_owned()
            }
            (None, None) if self.0.is_empty() => "All years".to_owned(),
            (None, None) => self.0.clone(),
        }
    }

    /// Returns the full name: `2014`, `March 2014`, `5 March 2014`.
    pub(crate) fn long(&self) -> String {
        let mut words: Vec<String> = self.path().skip(1).map(|span| span.short()).collect();
        words.reverse();
        if words.is_empty() {
            self.short()
        } else {
            words.join(" ")
        }
    }
}

/// Number of captures in each part of a span.
pub(super) type Counts = BTreeMap<Span, u64>;

/// Renders the enclosing spans as a breadcrumb. `link` returns the URL of a span.
pub(crate) fn path(shown: &Span, link: impl Fn(&Span) -> String) -> Markup {
    let last = shown.digits().len();
    html! {
        nav aria-label="Time" {
            ol class="path" {
                @for span in shown.path() {
                    li {
                        @if span.digits().len() == last {
                            span aria-current="true" { (span.short()) }
                        } @else {
                            a href=(link(&span)) { (span.short()) }
                        }
                    }
                }
            }
        }
    }
}

/// Renders the parts of a span that have captures, as links to them.
pub(crate) fn calendar(shown: &Span, counts: &Counts, link: impl Fn(&Span) -> String) -> Markup {
    match shown.digits().len() {
        6 => month(shown, counts, link),
        8 => html! {},
        _ => {
            let most = counts.values().copied().max().unwrap_or(1).max(1);
            html! {
                ul class="spans" {
                    @for (span, count) in counts {
                        li {
                            a href=(link(span)) { (span.short()) }
                            // Hidden from screen readers, since the number has the same
                            // information.
                            meter min="0" max=(most) value=(count) aria-hidden="true" {}
                            span class="count" { (super::counted(*count, "capture")) }
                        }
                    }
                }
            }
        }
    }
}

/// Renders a month with its weeks.
fn month(shown: &Span, counts: &Counts, link: impl Fn(&Span) -> String) -> Markup {
    let Some((before, days)) = shape(shown) else {
        return html! {};
    };
    let cells = (0..before).map(|_| None).chain((1..=days).map(Some));
    let cells: Vec<Option<i64>> = cells.collect();
    html! {
        table class="month" {
            caption { "Captures of " (shown.long()) }
            thead {
                tr { @for day in WEEKDAYS { th scope="col" { (day) } } }
            }
            tbody {
                @for week in cells.chunks(WEEKDAYS.len()) {
                    tr {
                        @for cell in week {
                            @let day = cell.map(|day| Span(format!("{}{day:02}", shown.digits())));
                            @let count = day.as_ref().and_then(|day| counts.get(day));
                            @match (day, count) {
                                (Some(day), Some(count)) => {
                                    td class="has" {
                                        a href=(link(&day)) { (day.short()) }
                                        " "
                                        span class="count" { (count) }
                                    }
                                }
                                (Some(day), None) => td { (day.short()) },
                                (None, _) => td {},
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the number of days between the start of the week and the first day of a month, and the
/// length of the month.
fn shape(month: &Span) -> Option<(i64, i64)> {
    let first = Timestamp::earliest(month.digits().as_bytes())?.seconds();
    let last = Timestamp::latest(month.digits().as_bytes())?.seconds();
    let days = (last - first) / SECONDS_A_DAY + 1;
    // 1970 began on a Thursday.
    Some(((first.div_euclid(SECONDS_A_DAY) + 3).rem_euclid(7), days))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(digits: &str) -> Span {
        Span::parse(digits).unwrap()
    }

    #[test]
    fn spans_are_years_months_and_days() {
        for wrong in [
            "2",
            "20",
            "201",
            "20141",
            "201413",
            "20140230",
            "2014 1",
            "-201",
            "2014é",
            "20140101000000",
        ] {
            assert_eq!(Span::parse(wrong), None, "{wrong}");
        }
        assert_eq!(span("").long(), "All years");
        assert_eq!(span("2014").long(), "2014");
        assert_eq!(span("201403").long(), "March 2014");
        assert_eq!(span("20140305").long(), "5 March 2014");
        assert_eq!(span("").part(b"20140305000000"), Some(span("2014")));
        assert_eq!(span("2014").part(b"20140305000000"), Some(span("201403")));
        assert_eq!(
            span("201403").part(b"20140305000000"),
            Some(span("20140305"))
        );
        assert_eq!(span("2014").part(b"2014"), None);
        assert_eq!(span("").part(b"\xff\xff\xff\xff"), None);
    }

    #[test]
    fn months_have_their_days_in_weeks() {
        for (month, expected) in [
            ("197001", (3, 31)),
            ("202402", (3, 29)),
            ("202302", (2, 28)),
            ("201609", (3, 30)),
            ("196912", (0, 31)),
        ] {
            assert_eq!(shape(&span(month)), Some(expected), "{month}");
        }
    }
}
