use proptest::prelude::*;

use super::*;

/// Matches regexes of literal bytes, `.` and `|` by comparing bytes.
fn matches(pattern: &str, text: &str, whole: bool) -> bool {
    pattern.split('|').any(|one| {
        (text.len() == one.len() || !whole && text.len() > one.len())
            && one
                .bytes()
                .zip(text.bytes())
                .all(|(p, t)| p == b'.' || p == t)
    })
}

/// Evaluates a spec according to the table in the module documentation, operator by operator.
fn naive(
    operators: &str,
    field: Option<&str>,
    value: &str,
    dialect: Dialect,
    line: &str,
) -> Option<bool> {
    let columns: Vec<&str> = line.split(' ').collect();
    let known = |name: &str| match name {
        "url" | "original" => Some(columns[2]),
        "status" => Some(columns[4]),
        "redirect" => Some("-"),
        _ => None,
    };
    if let (Dialect::Ia, "" | "!" | "~" | "~!", Some("8")) = (dialect, operators, field) {
        return None;
    }
    let known = |name: &str| match (dialect, operators, name) {
        (Dialect::Ia, "" | "!" | "~" | "~!", "4") => Some(columns[4]),
        _ => known(name),
    };
    let own = field.and_then(known);
    match (dialect, operators, field) {
        (Dialect::Outback, "" | "!" | "~" | "~!", Some(_)) => {
            let text = own?;
            let found = if operators.starts_with('~') {
                text.contains(value)
            } else {
                matches(value, text, true)
            };
            Some(found != operators.ends_with('!'))
        }
        (Dialect::Outback, _, _) => None,
        (Dialect::Ia, "" | "!" | "~" | "~!", _) => {
            let text = own.unwrap_or(line);
            let found = if operators.starts_with('~') {
                text.contains(value)
            } else {
                matches(value, text, true)
            };
            Some(found != operators.ends_with('!'))
        }
        // An operator other than `!` belongs to the unknown field name or, if there is no name, to
        // the pattern.
        (Dialect::Ia, _, Some(_)) => Some(matches(value, line, true) != operators.starts_with('!')),
        (Dialect::Ia, _, None) => {
            let rest = operators.strip_prefix('!').unwrap_or(operators);
            let found = matches(&format!("{rest}{value}"), line, true);
            Some(found != operators.starts_with('!'))
        }
        (Dialect::Pywb, "~!" | "=!", Some(_)) => Some(if operators == "=!" {
            value.is_empty()
        } else {
            matches(value, "", false)
        }),
        (Dialect::Pywb, _, _) => {
            let negated = operators.starts_with('!');
            let rest = operators.strip_prefix('!').unwrap_or(operators);
            let text = match field {
                None => line,
                Some(_) => own.unwrap_or(""),
            };
            let (test, more) = rest.split_at(rest.len().min(1));
            let value = format!("{more}{value}");
            let found = match test {
                "=" => value == text,
                "~" => matches(&value, text, false),
                _ => text.contains(&value),
            };
            Some(found != negated)
        }
    }
}

proptest! {
    #[test]
    fn verdicts_equal_those_of_the_naive_evaluator(
        operators in prop::sample::select(&["", "!", "~", "=", "!=", "!~", "~!", "=!"][..]),
        field in prop::sample::select(&[None, Some("url"), Some("original"), Some("status"), Some("redirect"), Some("nosuch"), Some("4"), Some("8")][..]),
        value in prop_oneof!["[ab.|-]{0,4}", "a 2 [ab.]{2} mime [.]{2} [.]{2} 7"],
        url in "[ab]{1,3}",
        status in "[ab]{1,3}",
    ) {
        // Only the PYWB dialect treats `=!` like `~!` in the table; the other dialects parse `=!`
        // as two operators.
        let line = format!("a 2 {url} mime {status} - 7");
        let spec = match field {
            Some(field) => format!("{operators}{field}:{value}"),
            None => format!("{operators}{value}"),
        };
        prop_assume!(!spec.is_empty());
        for dialect in DIALECTS {
            let wanted = naive(operators, field, &value, dialect, &line);
            let found = parse(&spec, dialect).ok().and_then(|filter| verdict(&filter, &line, &[]).ok());
            prop_assert_eq!(found, wanted, "{} {:?} {}", spec, dialect, line);
        }
    }

    #[test]
    fn no_spec_causes_a_panic(
        spec in prop::collection::vec(prop_oneof![
            4 => prop::sample::select(&b"!~=:|.tag()[]{}*\\f9"[..]), 1 => any::<u8>()], 0..24),
        lead in prop::sample::select(&["", "tag.", "tag:", "!tag", "url:", "~!", "timestamp:"][..]),
    ) {
        let spec = [lead.as_bytes(), &spec].concat();
        Filter::is_heavy(&spec);
        let _ = crate::Collapse::parse(&spec);
        for dialect in DIALECTS {
            match Filter::parse(&spec, dialect, Limits::default()) {
                Ok(filter) => {
                    for raw in [&b"a 2 u m s d 7"[..], b"a 2 {\"f\":\"\"}"] {
                        let Ok(Read::Capture(line)) = Line::read(raw, Format::Auto) else { panic!() };
                        let _ = filter.passes(&line, &mut |_| false);
                    }
                }
                Err(FilterError::Syntax { at, .. }) => prop_assert!(at <= spec.len()),
                Err(error) => prop_assert!(!error.to_string().contains('\n')),
            }
        }
    }
}
