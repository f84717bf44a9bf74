//! Requirements between packages: a revisit in one package may refer to a payload in another package, and
//! cannot be replayed without that package. `datapackage.json` lists the required packages in
//! `relation.requires`.

mod check;
mod cycles;
mod json;
mod rewrite;
mod set;

use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use self::check::{Checked, Known, Presence, Report, Requirement, check};
use self::json::{Object, Style};
use super::reader::{DATAPACKAGE, sha256_text};
use super::{Error, Location, Options, Problem, Wacz};

const DIGEST: &str = "datapackage-digest.json";

/// A package that another package requires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Required {
    /// The name of the file of the package.
    pub filename: String,
    /// The hash of the file, as `sha256:` and hexadecimal digits; `None` if the package was unfinished when the list
    /// was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The size of the file in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The crawl to which the file belongs.
    #[serde(default, rename = "crawlId", skip_serializing_if = "Option::is_none")]
    pub crawl: Option<String>,
}

/// The handling of a signature that a change would invalidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    /// The change is refused, and the package is not modified.
    Refuse,
    /// The signature is removed.
    Drop,
}

/// The fields of `datapackage.json` that describe requirements; other fields are ignored.
#[derive(Deserialize)]
struct Datapackage {
    #[serde(default)]
    relation: Option<Relation>,
}

#[derive(Deserialize)]
struct Relation {
    #[serde(default)]
    requires: Option<Vec<Required>>,
}

/// Returns the packages that a package requires, in the order of its list. Returns an empty list if
/// the package has none.
///
/// ```no_run
/// use crawlspace_wacz::{package, Location, Options, Wacz};
/// let wacz = Wacz::open(&Location::parse("crawl-2.wacz")?, &Options::default())?;
/// for required in package::requires(&wacz)? {
///     println!("{}", required.filename);
/// }
/// # Ok::<(), crawlspace_wacz::Error>(())
/// ```
///
/// # Errors
/// Fails if the package has no `datapackage.json`, or an invalid one.
pub fn requires(wacz: &Wacz) -> Result<Vec<Required>, Error> {
    required_in(&wacz.datapackage()?).map_err(|how| of_datapackage(wacz, how))
}

fn of_datapackage(wacz: &Wacz, problem: Problem) -> Error {
    Error::of_member(wacz.file(), DATAPACKAGE, problem)
}

fn required_in(text: &str) -> Result<Vec<Required>, Problem> {
    let datapackage: Datapackage =
        serde_json::from_str(text).map_err(|error| Problem::Json(error.to_string()))?;
    Ok(datapackage
        .relation
        .and_then(|relation| relation.requires)
        .unwrap_or_default())
}

/// Replaces the list of packages that this package requires, and returns whether it changed.
///
/// The new file is written next to the old one, synced to the disk, and then replaces the old file atomically. If
/// an error occurs before the replacement, the old file is intact. During the replacement, the disk needs room for
/// both files. All other members and the rest of `datapackage.json` are preserved byte by byte and in order; the
/// hash in `datapackage-digest.json` is updated. If the list is unchanged, the file is not touched.
///
/// ```no_run
/// use crawlspace_wacz::package::{set_requires, Required, Signature};
/// let original = Required {
///     filename: "crawl-1.wacz".into(),
///     hash: Some("sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752".into()),
///     size: Some(1_048_576),
///     crawl: Some("crawl-1".into()),
/// };
/// set_requires("crawl-2.wacz".as_ref(), &[original], Signature::Refuse, &Default::default())?;
/// # Ok::<(), crawlspace_wacz::Error>(())
/// ```
///
/// # Errors
/// [`Problem::Signed`] if the package is signed and `signature` is [`Signature::Refuse`]. Also fails if the package is
/// inconsistent, or cannot be written. After an error, the file is unchanged.
pub fn set_requires(
    path: &Path,
    required: &[Required],
    signature: Signature,
    options: &Options,
) -> Result<bool, Error> {
    let wacz = Wacz::open(&Location::from(path), options)?;
    let old = wacz.datapackage()?;
    let now = required_in(&old).map_err(|problem| of_datapackage(&wacz, problem))?;
    if now == required {
        return Ok(false);
    }
    let new = with_requires(&old, required).map_err(|problem| of_datapackage(&wacz, problem))?;
    let mut changes = vec![(DATAPACKAGE, new.into_bytes())];
    if wacz.has(DIGEST) {
        let digest = wacz.text(DIGEST)?;
        let digest = with_hash(&digest, old.as_bytes(), &changes[0].1, signature);
        let digest = digest.map_err(|problem| Error::of_member(wacz.file(), DIGEST, problem))?;
        changes.push((DIGEST, digest.into_bytes()));
    }
    rewrite::rewrite(&wacz, path, &changes).map_err(|problem| Error::new(wacz.file(), problem))?;
    Ok(true)
}

/// Returns the text of `datapackage.json` with its list of required packages replaced.
fn with_requires(text: &str, required: &[Required]) -> Result<String, Problem> {
    let whole = Object::read(text)?;
    let style = Style::of(&whole);
    let Some(relation) = whole.value("relation").filter(|value| *value != "null") else {
        let relation = style.render(&serde_json::json!({ "requires": required }), 1);
        return Ok(whole.with("relation", &relation, &style, 0));
    };
    let inner = Object::read(relation)?;
    let list = style.render(&required, 2);
    let relation = inner.with("requires", &list, &style, 1);
    Ok(whole.with("relation", &relation, &style, 0))
}

/// Returns the text of `datapackage-digest.json` for a changed `datapackage.json`.
fn with_hash(text: &str, old: &[u8], new: &[u8], signature: Signature) -> Result<String, Problem> {
    let mut text = text.to_owned();
    let digest = Object::read(&text)?;
    let style = Style::of(&digest);
    // If the hash is already wrong, another program has changed the file. Do not hide that change
    // by correcting the hash.
    let declared: Option<String> = digest
        .value("hash")
        .and_then(|hash| serde_json::from_str(hash).ok());
    let Some(declared) = declared else {
        return Err(Problem::Json("it has no \"hash\"".to_owned()));
    };
    if !declared.starts_with("sha256:") {
        let why = format!(
            "it has a hash that cannot be computed here ({declared}); make the package again with sha256"
        );
        return Err(Problem::Refused(why));
    }
    if declared != sha256_text(&Sha256::digest(old)) {
        return Err(Problem::Damaged(
            "its hash does not match datapackage.json".to_owned(),
        ));
    }
    if digest
        .value("signedData")
        .is_some_and(|data| data != "null")
    {
        match signature {
            Signature::Refuse => return Err(Problem::Signed),
            Signature::Drop => text = digest.without("signedData"),
        }
    }
    let hash = format!("\"{}\"", sha256_text(&Sha256::digest(new)));
    Ok(Object::read(&text)?.with("hash", &hash, &style, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(filename: &str) -> Required {
        Required {
            filename: filename.to_owned(),
            hash: Some("sha256:00".to_owned()),
            size: Some(7),
            crawl: None,
        }
    }

    fn with(text: &str, filenames: &[&str]) -> String {
        let list: Vec<Required> = filenames.iter().map(|name| required(name)).collect();
        let new = with_requires(text, &list).unwrap();
        assert_eq!(required_in(&new).unwrap(), list, "{new}");
        new
    }

    #[test]
    fn list_is_inserted_and_the_rest_is_unchanged() {
        let list = r#"[{"filename":"x","hash":"sha256:00","size":7}]"#;
        for (before, after) in [
            (
                r#"{"z":1,"a":2}"#,
                r#"{"z":1,"a":2,"relation":{"requires":LIST}}"#,
            ),
            (
                r#"{"relation":null,"a":2}"#,
                r#"{"relation":{"requires":LIST},"a":2}"#,
            ),
            (
                r#"{"relation":{},"a" : 2 }"#,
                r#"{"relation":{"requires":LIST},"a" : 2 }"#,
            ),
            (
                r#"{"relation":{"b":[1, 2]}}"#,
                r#"{"relation":{"b":[1, 2],"requires":LIST}}"#,
            ),
            (
                r#" {"relation": { "requires" : [ ] , "c": 1.50}} "#,
                r#" {"relation": { "requires" : LIST , "c": 1.50}} "#,
            ),
            (
                r#"{"\u0072elation":{"requires":null}}"#,
                r#"{"\u0072elation":{"requires":LIST}}"#,
            ),
            ("{}", r#"{"relation":{"requires":LIST}}"#),
        ] {
            assert_eq!(
                with(before, &["x"]),
                after.replace("LIST", list),
                "{before}"
            );
        }
    }

    #[test]
    fn list_is_formatted_like_the_rest() {
        let before = "{\n  \"z\": 1,\n  \"a\": [\n    2\n  ]\n}\n";
        let list = "[\n      {\n        \"filename\": \"x\",\n        \"hash\": \"sha256:00\",\n        \"size\": 7\n      }\n    ]";
        let after = format!(
            "{{\n  \"z\": 1,\n  \"a\": [\n    2\n  ],\n  \"relation\": {{\n    \"requires\": {list}\n  }}\n}}\n"
        );
        assert_eq!(with(before, &["x"]), after);
        // Replace the list by a shorter list.
        assert_eq!(with(&after, &[]), after.replace(list, "[]"));
        let tabs = "{\n\t\"relation\": {\n\t\t\"b\": 1\n\t}\n}";
        assert_eq!(
            with(tabs, &[]),
            "{\n\t\"relation\": {\n\t\t\"b\": 1,\n\t\t\"requires\": []\n\t}\n}"
        );
    }

    #[test]
    fn invalid_datapackage_is_refused() {
        for text in [
            "",
            "[]",
            "1",
            "{",
            r#"{"relation": 1}"#,
            r#"{"relation": {"requires": 1}}"#,
            r#"{"a": 1, "a": 2}"#,
        ] {
            let outcome = required_in(text).and_then(|_| with_requires(text, &[required("x")]));
            assert!(matches!(outcome, Err(Problem::Json(_))), "{text}");
        }
    }

    #[test]
    fn signature_is_removed_only_if_allowed() {
        let (old, new) = (&b"old"[..], &b"new"[..]);
        let hash = |text: &[u8]| sha256_text(&Sha256::digest(text));
        for (before, after) in [
            (
                r#"{"path":"datapackage.json","hash":"OLD"}"#,
                r#"{"path":"datapackage.json","hash":"NEW"}"#,
            ),
            (
                r#"{"hash" : "OLD" , "signedData":{"hash":"OLD"}}"#,
                r#"{"hash" : "NEW"}"#,
            ),
            (
                r#"{ "signedData": {"hash":"OLD"}, "hash":"OLD"}"#,
                r#"{ "hash":"NEW"}"#,
            ),
            (
                r#"{"hash":"OLD","signedData":[],"more":1}"#,
                r#"{"hash":"NEW","more":1}"#,
            ),
            (
                r#"{"hash":"OLD","signedData":null}"#,
                r#"{"hash":"NEW","signedData":null}"#,
            ),
        ] {
            let before = before.replace("OLD", &hash(old));
            let after = after.replace("NEW", &hash(new));
            assert_eq!(
                with_hash(&before, old, new, Signature::Drop).unwrap(),
                after
            );
            let refused = matches!(
                with_hash(&before, old, new, Signature::Refuse),
                Err(Problem::Signed)
            );
            assert_eq!(
                refused,
                before.contains("signedData") && !before.contains("null")
            );
        }
        for wrong in [
            r#"{"hash":"sha256:00"}"#,
            r#"{"hash":"md5:00"}"#,
            r#"{"hash":7}"#,
            "{}",
            "[]",
        ] {
            assert!(
                with_hash(wrong, old, new, Signature::Drop).is_err(),
                "{wrong}"
            );
        }
    }
}
