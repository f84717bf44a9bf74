//! Parsing of sizes on the command line.

/// Parses a size in bytes: a number with a unit (`500MB`, `100GB`, `1.5TB`, `4GiB`), or without
/// one.
pub(crate) fn size(given: &str) -> Result<u64, String> {
    let wrong =
        || "write a number of bytes, or one with a unit: 500MB, 100GB, 1.5TB, 4GiB".to_owned();
    let given = given.trim();
    let digits = given.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = given.get(digits.len()..).unwrap_or_default();
    let unit: u64 = match &unit.to_ascii_lowercase()[..] {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return Err(wrong()),
    };
    let (whole, part) = match digits.trim_end().split_once('.') {
        Some((whole, part)) => (whole, part),
        None => (digits.trim_end(), ""),
    };
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || part.len() > 6 || !is_number(whole) || !is_number(part) {
        return Err(wrong());
    }
    let tenth = 10_u64.pow(part.len() as u32);
    let number: u64 = format!("{whole}{part}").parse().map_err(|_| wrong())?;
    let bytes = u128::from(number) * u128::from(unit) / u128::from(tenth);
    u64::try_from(bytes).map_err(|_| "too much".to_owned())
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_may_have_a_unit() {
        assert_eq!(size("0"), Ok(0));
        assert_eq!(size("4711"), Ok(4711));
        assert_eq!(size("100GB"), Ok(100_000_000_000));
        assert_eq!(size("100 GB"), Ok(100_000_000_000));
        assert_eq!(size("1.5k"), Ok(1500));
        assert_eq!(size("4GiB"), Ok(4 << 30));
        assert_eq!(size("0.5MiB"), Ok(1 << 19));
        for wrong in [
            "",
            "GB",
            "-1",
            "1x",
            "1e9",
            "1.2.3",
            "99999999TB",
            ".5GB",
            "\u{663}",
        ] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
