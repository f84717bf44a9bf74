//! Checks the names of members. This crate never uses member names as local paths, but programs that unpack packages
//! do.

/// Returns the name, or the reason why it is invalid.
pub(crate) fn check(bytes: &[u8]) -> Result<&str, String> {
    let name = std::str::from_utf8(bytes).map_err(|_| "its name is not UTF-8".to_owned())?;
    if name.is_empty() {
        return Err("it has no name".to_owned());
    }
    if name.contains(|c: char| c.is_control()) {
        return Err("its name contains a control character".to_owned());
    }
    if name.contains('\\') {
        return Err("its name contains a backslash".to_owned());
    }
    let drive = name.as_bytes();
    if name.starts_with('/')
        || (drive.len() > 1 && drive[1] == b':' && drive[0].is_ascii_alphabetic())
    {
        return Err("its name is an absolute path".to_owned());
    }
    // Folders are members too; their names end in a slash.
    let path = name.strip_suffix('/').unwrap_or(name);
    match path
        .split('/')
        .find(|part| matches!(*part, "" | "." | ".."))
    {
        Some("..") => Err("its name points outside the package".to_owned()),
        Some(_) => Err("its name has an empty part".to_owned()),
        None => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn name_is_a_path_within_the_package() {
        for name in [
            "a",
            "archive/data.warc.gz",
            "archive/",
            "a..b/c",
            "ü/…",
            "a b",
            "..a",
        ] {
            assert_eq!(check(name.as_bytes()), Ok(name));
        }
        let others: [&[u8]; 13] = [
            b"",
            b"/",
            b"/etc/passwd",
            b"..",
            b"../a",
            b"a/../../b",
            b"a/..",
            b"a//b",
            b"./a",
            b"a\\b",
            b"C:/a",
            b"a\0b",
            b"\xff",
        ];
        for name in others {
            assert!(check(name).is_err(), "{}", name.escape_ascii());
        }
    }
}
