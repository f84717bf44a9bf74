//! Normalizes the paths, URLs and keys of a configuration, so that each has a single form.

use std::path::{Component, Path, PathBuf};

use url::Url;

use crawlspace_fetch::Network;
use crawlspace_wacz::Location;

/// Parses a path: absolute, relative to `folder`, or a `file:` URL. Trailing slashes and `.` components do not matter.
pub(crate) fn path(text: &str, folder: &Path) -> Result<PathBuf, String> {
    let path = match text.strip_prefix("file:") {
        Some(rest) => of_file_url(rest)?,
        None => match text.split_once("://") {
            Some((scheme, _)) if !scheme.contains('/') => {
                return Err(
                    "a URL where a path is expected: write /folder/file or file:///folder/file"
                        .to_owned(),
                );
            }
            _ => text.to_owned(),
        },
    };
    if path.is_empty() {
        return Err("no path".to_owned());
    }
    printable(&path)?;
    let whole = folder.join(path);
    let steps = whole.components().filter(|step| *step != Component::CurDir);
    Ok(steps.collect())
}

/// Returns whether a string is the URL of a resource on a server or in an object store.
pub(crate) fn is_remote(text: &str) -> bool {
    ["http://", "https://", "s3://"]
        .iter()
        .any(|scheme| text.starts_with(scheme))
}

/// Parses a path, as [`path`] does, or the URL of a file.
pub(crate) fn place(text: &str, folder: &Path) -> Result<Location, String> {
    if !is_remote(text) {
        return path(text, folder).map(Location::File);
    }
    let whole = if text.starts_with("s3://") {
        object(text, &[])?
    } else {
        template(text, &[])?
    };
    if whole.ends_with('/') {
        return Err(format!(
            "{:?} is a folder, and servers do not list the files in it: name a file",
            masked(text)
        ));
    }
    let url = Url::parse(&whole).map_err(|error| format!("invalid URL: {error}"))?;
    Ok(Location::Url(url))
}

/// Parses `s3://bucket/key` or a key prefix; only these names are allowed in braces.
pub(crate) fn object(text: &str, names: &[&str]) -> Result<String, String> {
    // The bucket is validated as if it were a host name.
    let stand_in = text.replacen("s3://", "https://", 1);
    let whole = template(&stand_in, names)?;
    let url = Url::parse(&stand_in).map_err(|error| format!("invalid URL: {error}"))?;
    if url.query().is_some() || url.port().is_some() {
        return Err(format!(
            "{:?} is not an object: write s3://bucket/key, with %3F for a ? in the key; set the store with the \
             environment variable AWS_ENDPOINT_URL",
            masked(text)
        ));
    }
    Ok(whole.replacen("https://", "s3://", 1))
}

/// Decodes the part of a URL after `file:`. As in pywb, a path that is not absolute is relative.
fn of_file_url(rest: &str) -> Result<String, String> {
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest
            .strip_prefix("localhost")
            .filter(|path| path.starts_with('/'))
            .unwrap_or(rest),
        None => rest,
    };
    if !path.starts_with(['/', '.', '{']) {
        return Err(format!(
            "a file on another machine, {:?}: write file:///folder for an absolute path, or the path without file://",
            masked(path.split('/').next().unwrap_or_default())
        ));
    }
    let decoded = percent_encoding::percent_decode_str(path).decode_utf8();
    decoded.map(Into::into).map_err(|_| {
        "the percent-encoded path is not UTF-8: write the path without file://".to_owned()
    })
}

/// Returns the `file:` URL of an absolute path, which parses as the same path again.
pub(crate) fn file_url(path: &Path) -> String {
    format!("file://{}", path.to_string_lossy().replace('%', "%25"))
}

/// Parses a template of an `http` or `https` URL: only these names are allowed in braces, and only after the host. The
/// alias `{closest}` is replaced by `{timestamp}`.
pub(crate) fn template(text: &str, names: &[&str]) -> Result<String, String> {
    printable(text)?;
    for (c, instead) in [
        (' ', "write %20"),
        ('\\', "write /"),
        ('#', "remove the fragment, which is never sent"),
    ] {
        if text.contains(c) {
            return Err(format!(
                "{c:?} is not allowed in the URL {:?}: {instead}",
                masked(text)
            ));
        }
    }
    let text = text.replace("{closest}", "{timestamp}");
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else {
            return Err(format!("the closing }} is missing in {:?}", masked(&text)));
        };
        if !names.contains(&name) {
            // The name may be part of a password.
            let name = if text.contains('@') { "…" } else { name };
            let known: Vec<String> = names.iter().map(|name| format!("{{{name}}}")).collect();
            return Err(format!(
                "{{{name}}} is not a placeholder here: use {}",
                one_of(&known)
            ));
        }
        plain.push_str(before);
        let scheme = plain.find("://").map_or(0, |at| at + 3);
        if !plain.get(scheme..).is_some_and(|host| host.contains('/')) {
            return Err(format!(
                "{{{name}}} is not allowed before the path of the URL"
            ));
        }
        plain.push('x');
        rest = after;
    }
    plain.push_str(rest);
    let url =
        Url::parse(&plain).map_err(|error| format!("invalid URL {:?}: {error}", masked(&text)))?;
    if !url.username().is_empty() || url.password().is_some() {
        // The credentials would be part of `live_url`, which all readers see.
        return Err("readers would see the user name or password in this URL: logins to other servers are not \
         supported".to_owned());
    }
    match url.scheme() {
        "http" | "https" => with_path(text),
        scheme => Err(format!(
            "unsupported scheme {scheme}: the URL must begin with http:// or https://"
        )),
    }
}

/// Adds a slash to a URL with an empty path.
fn with_path(text: String) -> Result<String, String> {
    let (scheme, rest) = text
        .split_once("://")
        .ok_or_else(|| format!("{text:?} lacks the // before the host"))?;
    let (host, after) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    Ok(if after.starts_with('/') {
        text
    } else {
        format!("{scheme}://{host}/{after}")
    })
}

/// Returns `redis://host:port/db/key` from a URL that may lack the port and the database number.
pub(crate) fn redis(text: &str) -> Result<String, String> {
    printable(text)?;
    escaped_login(text)?;
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    if !matches!(scheme, "redis" | "rediss") {
        return Err("not a Redis URL: write redis://host:port/db/key".to_owned());
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let url = Url::parse(&format!("{scheme}://{authority}/")).map_err(|error| {
        // If the host is empty, the error must not quote the login.
        match authority.rsplit_once('@') {
            Some((_, host)) => format!("invalid host and port {host:?}: {error}"),
            None => format!("invalid host or port in redis://host:port/db/key: {error}"),
        }
    })?;
    if authority.contains(['{', '?', '#', ' ']) || url.host_str().unwrap_or_default().is_empty() {
        return Err("no host: write redis://host:port/db/key".to_owned());
    }
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (db, key) = match path.split_once('/') {
        Some((db, key)) if digits(db) => (
            db.parse()
                .map_err(|_| format!("{db} is not a database number"))?,
            key,
        ),
        _ => (0_u32, path),
    };
    if key.is_empty() || digits(path) {
        return Err("no key: write redis://host:port/db/key".to_owned());
    }
    let end = authority.rfind('@').map_or(0, |at| at + 1);
    let login = authority.get(..end).unwrap_or_default();
    let host = url.host_str().unwrap_or_default();
    let port = url.port().unwrap_or(6379);
    Ok(format!("{scheme}://{login}{host}:{port}/{db}/{key}"))
}

/// Refuses a login with unescaped characters that end the host of a URL. Otherwise, the rest of the password would be
/// read as a key, and keys are not kept secret.
fn escaped_login(text: &str) -> Result<(), String> {
    let (_, rest) = text.split_once("://").unwrap_or_default();
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let after = rest.get(end..).unwrap_or_default();
    // Splits at the last `@` into userinfo and server.
    let Some((before, place)) = after.rsplit_once('@') else {
        return Ok(());
    };
    // An `@` after the number of the database belongs to the key. A host is followed by a port or a path.
    let is_host = |place: &str| match place.find(['/', ':']) {
        Some(at) if place.get(at..).is_some_and(|rest| rest.starts_with(':')) => {
            let port = place.get(at + 1..).unwrap_or_default();
            let port = port.split('/').next().unwrap_or_default();
            port.bytes().all(|byte| byte.is_ascii_digit())
        }
        Some(_) => true,
        None => false,
    };
    let number = before
        .strip_prefix('/')
        .and_then(|path| path.split_once('/'));
    let is_in_key = number.is_some_and(|(number, _)| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    if is_in_key && !is_host(place) {
        return Ok(());
    }
    Err(
        "the login in the URL is ambiguous: in a user name or password, write %2F, %3F, %23 and %40 for /, ?, # and @; \
         if the key contains an @, write the database number before the key, and no / or host:port after the @"
            .to_owned(),
    )
}

/// Returns `redis://host:port/db` from a URL that may lack the port and the database number.
pub(crate) fn database(text: &str) -> Result<String, String> {
    escaped_login(text)?;
    let (_, rest) = text.split_once("://").unwrap_or_default();
    let path = rest.split_once('/').map_or("", |(_, path)| path);
    if path.contains('@') {
        return Err(
            "the database is not a number: write redis://host:port/db, and %2F for a / in a password"
                .to_owned(),
        );
    }
    if !path.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "{path:?} is not a database number: write redis://host:port/db, and the key prefix as prefix"
        ));
    }
    let server = text
        .strip_suffix(path)
        .unwrap_or(text)
        .trim_end_matches('/');
    let number = if path.is_empty() { "0" } else { path };
    let whole = redis(&format!("{server}/{number}/_"))?;
    Ok(whole.trim_end_matches("/_").to_owned())
}

/// Returns `redis://host:port/db/prefix` from a URL that may lack the port; the prefix may be empty.
pub(crate) fn prefixed(text: &str) -> Result<String, String> {
    escaped_login(text)?;
    let path = text.splitn(4, '/').nth(3).unwrap_or_default();
    if !path.contains('/') {
        return Err(
            "no prefix: write redis://host:port/db/prefix, or end the URL in db/ for an empty prefix"
                .to_owned(),
        );
    }
    let whole = redis(&format!("{text}_"))?;
    Ok(whole.strip_suffix('_').unwrap_or(&whole).to_owned())
}

/// Masks the password in a URL, or the whole login if user name and password cannot be separated.
///
/// The login ends at the last `@`, even if an unescaped `/`, `?` or `#` in its password would end it earlier.
pub(crate) fn masked(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) if !scheme.contains([':', '@', '/']) => (Some(scheme), rest),
        _ => (None, url),
    };
    let Some((login, after)) = rest.rsplit_once('@') else {
        return url.to_owned();
    };
    let user = match login.split_once(':') {
        Some((user, _)) if !login.contains(['/', '?', '#', '@']) && scheme.is_some() => {
            format!("{user}:")
        }
        _ => String::new(),
    };
    let scheme = scheme.map(|scheme| format!("{scheme}://"));
    format!("{}{user}***@{after}", scheme.unwrap_or_default())
}

/// Parses an address or a network.
pub(crate) fn network(text: &str) -> Result<Network, String> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let address: std::net::IpAddr = address.parse().map_err(|_| {
        format!(
            "invalid address or network {text:?}: write 127.0.0.1, ::1 or 10.0.0.0/8; host names are not allowed"
        )
    })?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => most,
        Some(bits) => match bits.parse() {
            Ok(bits) if bits <= most => bits,
            _ => {
                return Err(format!(
                    "invalid prefix length {bits:?} for {address}: use 0 to {most}"
                ));
            }
        },
    };
    Ok(Network { address, bits })
}

/// Refuses control characters.
fn printable(text: &str) -> Result<(), String> {
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(format!("control characters are not allowed (got {c:?})")),
        None => Ok(()),
    }
}

/// Joins words as `a, b or c`.
pub(crate) fn one_of<T: AsRef<str>>(words: &[T]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => "nothing".to_owned(),
    }
}
