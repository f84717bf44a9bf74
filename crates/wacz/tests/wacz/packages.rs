//! Tests packages that require other packages.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crawlspace_wacz::package::{self, Known, Presence, Report, Required, Signature, check};
use crawlspace_wacz::{Index, Location, Options, Problem, Wacz};
use redis_tests::{FileHost, Manners, assert_contains, assert_starts, but, rows, with};
use sha2::{Digest, Sha256};

use crate::writing::{lines, required, write};
use crate::zipped::{Ending, Part, zip, zip_with};
use crate::{all_lines, open, saved};

fn set(path: &Path, list: &[Required]) -> Result<bool, crawlspace_wacz::Error> {
    package::set_requires(path, list, Signature::Refuse, &Options::default())
}

fn requires(path: &Path) -> Vec<Required> {
    package::requires(&open(path).unwrap()).unwrap()
}

fn hash(bytes: &[u8]) -> String {
    let digits: String = Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{digits}")
}

/// Reads all members with their bytes, using a third-party zip reader.
pub fn members(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut zip = zip::ZipArchive::new(fs::File::open(path).unwrap()).unwrap();
    (0..zip.len())
        .map(|i| {
            let mut member = zip.by_index(i).unwrap();
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut member, &mut bytes).unwrap();
            (member.name().unwrap().into_owned(), bytes)
        })
        .collect()
}

#[test]
fn only_the_list_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wacz");
    write(&path, Index::Blocks(100), &lines(500), &[]).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let before = members(&path);
    for list in [vec![required(1), required(2)], vec![required(3)], vec![]] {
        let unfinished = but!(required(9), hash: None, size: None);
        let list = [list, vec![unfinished]].concat();
        assert!(set(&path, &list).unwrap());
        assert_eq!(requires(&path), list);
        let after = members(&path);
        for ((name, old), (new_name, new)) in before.iter().zip(&after) {
            assert_eq!(name, new_name);
            if !name.starts_with("datapackage") {
                assert_eq!(old, new, "{name}");
            }
        }
        assert_eq!(before.len(), after.len());
        let member = |wanted: &str| &after.iter().find(|(name, _)| name == wanted).unwrap().1;
        let digest = String::from_utf8(member("datapackage-digest.json").clone()).unwrap();
        assert_contains(&digest, hash(member("datapackage.json")));
        assert_eq!(all_lines(&open(&path).unwrap()).unwrap(), lines(500));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

        // Setting the same list again leaves the file unchanged.
        let about = fs::metadata(&path).unwrap();
        assert!(!set(&path, &list).unwrap());
        let now = fs::metadata(&path).unwrap();
        assert_eq!(about.ino(), now.ino());
        assert_eq!(about.mtime_nsec(), now.mtime_nsec());
    }
}

/// Returns a package with unusual features of zip files: comments, unknown fields and methods, sizes after the data,
/// gaps between members, folders, and members in a different order than in the directory.
fn strange() -> Vec<u8> {
    let datapackage = b"{\"b\": 1,\n \"a\": 1.50}";
    let digest = format!("{{\"hash\":\"{}\"}}", hash(datapackage));
    zip_with(
        &[
            but!(Part::deflated("datapackage.json", datapackage), descriptor: true),
            but!(Part::stored("archive/data.warc.zst", b"zstd, perhaps"), method: 93),
            but!(Part::stored("archive/", b""), zip64: true),
            but!(Part::stored("secret", b"encrypted"), flags: 1),
            but!(Part::stored("indexes/a.cdx", b"a 2026 {}"), descriptor: true, zip64: true),
            but!(Part::stored("datapackage-digest.json", digest.as_bytes()), zip64: true),
            Part::stored("last", b"bytes"),
        ],
        &with!(Ending, zip64: true, comment: b"made by hand".to_vec()),
    )
}

#[test]
fn unreadable_members_are_copied_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let old = strange();
    let path = saved(folder.path(), "a.wacz", &old);
    assert!(set(&path, &[required(1)]).unwrap());
    let new = fs::read(&path).unwrap();
    let wacz = open(&path).unwrap();
    assert_eq!(package::requires(&wacz).unwrap(), [required(1)]);
    assert_starts(wacz.datapackage().unwrap(), "{\"b\": 1,\n \"a\": 1.50,");
    assert_eq!(all_lines(&wacz).unwrap(), ["a 2026 {}"]);
    let place = |file: &[u8], text: &[u8]| file.windows(text.len()).position(|bytes| bytes == text);
    // Compare the bytes from the second member to the digest.
    let from = place(&old, b"archive/data.warc.zst").unwrap() - 30;
    let to = place(&old, b"datapackage-digest.json").unwrap() - 30;
    assert!(place(&new, &old[from..to]).is_some());
    assert!(new.ends_with(b"\x0c\0made by hand"));
    // After restoring the list, only the encoding of the two members differs.
    assert!(set(&path, &[]).unwrap());
    assert_eq!(requires(&path), []);
}

#[test]
fn signed_package_is_changed_only_without_its_signature() {
    let folder = tempfile::tempdir().unwrap();
    let datapackage = b"{\"relation\":{\"requires\":[]}}";
    let digest = format!(
        "{{\"hash\":\"{}\",\"signedData\":{{\"signature\":\"x\"}}}}",
        hash(datapackage)
    );
    let file = zip(&[
        Part::deflated("datapackage.json", datapackage),
        Part::deflated("datapackage-digest.json", digest.as_bytes()),
    ]);
    let path = saved(folder.path(), "a.wacz", &file);
    let error = set(&path, &[required(1)]).unwrap_err();
    assert!(matches!(error.problem, Problem::Signed), "{error}");
    assert_contains(&error, "--drop-signature");
    assert_eq!(fs::read(&path).unwrap(), file);
    assert!(
        !set(&path, &[]).unwrap(),
        "nothing changes, so nothing is refused"
    );
    assert!(
        package::set_requires(&path, &[required(1)], Signature::Drop, &Options::default()).unwrap()
    );
    assert_eq!(requires(&path), [required(1)]);
    assert!(
        !String::from_utf8(members(&path)[1].1.clone())
            .unwrap()
            .contains("signedData")
    );
}

#[test]
fn inconsistent_package_is_not_made_to_look_valid() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = format!("{{\"hash\":\"{}\"}}", hash(b"another"));
    for (parts, told) in rows![
        vec![Part::stored("datapackage.json", b"{}"), Part::stored("datapackage-digest.json", wrong.as_bytes())],
            "does not match datapackage.json";
        vec![
            Part::stored("datapackage.json", b"{}"),
            Part::stored("datapackage-digest.json", b"{\"hash\":\"md5:00\"}"),
        ],
            "make the package again with sha256";
        vec![Part::stored("datapackage.json", b"[]")], "invalid type";
        vec![Part::stored("datapackage.json", b"\xff")], "not UTF-8";
        vec![Part::stored("other", b"{}")], "it contains no datapackage.json";
    ] {
        let file = zip(&parts);
        let path = saved(folder.path(), "a.wacz", &file);
        let error = set(&path, &[required(1)]).unwrap_err();
        assert_contains(&error, told);
        assert_eq!(fs::read(&path).unwrap(), file);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn link_still_leads_to_the_package_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(
        folder.path(),
        "a.wacz",
        &zip(&[Part::stored("datapackage.json", b"{}")]),
    );
    let link = folder.path().join("link.wacz");
    std::os::unix::fs::symlink("a.wacz", &link).unwrap();
    assert!(set(&link, &[required(1)]).unwrap());
    assert!(link.is_symlink());
    assert_eq!(requires(&path), [required(1)]);
}

/// A folder of packages, each with its requirements.
struct Collection {
    folder: tempfile::TempDir,
}

impl Collection {
    fn new() -> Collection {
        Collection {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn add(&self, name: &str, requires: &[Required]) -> Required {
        let path = self.folder.path().join(name);
        let list = serde_json::to_string(requires).unwrap();
        let text = format!("{{\"relation\": {{\"requires\": {list}}}}}");
        let file = zip(&[
            Part::stored("name", name.as_bytes()),
            Part::stored("datapackage.json", text.as_bytes()),
        ]);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &file).unwrap();
        Required {
            filename: path.file_name().unwrap().to_str().unwrap().to_owned(),
            hash: Some(hash(&file)),
            size: Some(file.len() as u64),
            crawl: None,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn check(&self) -> Report {
        check_all(&Location::from(self.folder.path()))
    }
}

fn check_all(location: &Location) -> Report {
    let options = Options::default();
    let (mut known, mut errors) = (Vec::new(), Vec::new());
    for one in Known::all(location, &options) {
        match one {
            Ok(one) => known.push(one),
            Err(error) => errors.push(error.to_string()),
        }
    }
    let mut report = check(&known, &options, |_| ());
    report.errors.extend(errors);
    report
}

/// Returns the states of a package's requirements.
fn states<'r>(report: &'r Report, name: &str) -> Vec<&'r Presence> {
    let package = report
        .packages
        .iter()
        .find(|package| package.name == name)
        .unwrap();
    package.requires.iter().map(|one| &one.state).collect()
}

fn by_name(filename: &str) -> Required {
    Required {
        filename: filename.to_owned(),
        hash: None,
        size: None,
        crawl: None,
    }
}

#[test]
fn set_is_complete_if_all_requirements_are_present() {
    let set = Collection::new();
    let a = set.add("a.wacz", &[]);
    let b = set.add("deeper/b.wacz", std::slice::from_ref(&a));
    set.add("c.wacz", &[a, b, by_name("a.wacz")]);
    let report = set.check();
    assert!(report.complete, "{report:?}");
    assert_eq!(report.packages.len(), 3);
    assert_eq!(states(&report, "c.wacz").len(), 3);
    assert!(report.packages.iter().all(|package| package.complete));
}

#[test]
fn missing_package_makes_all_its_dependents_incomplete() {
    let set = Collection::new();
    let a = set.add("a.wacz", &[]);
    let b = set.add("b.wacz", &[a.clone(), required(7)]);
    let c = set.add("c.wacz", std::slice::from_ref(&b));
    let d = set.add("d.wacz", std::slice::from_ref(&c));
    let report = set.check();
    assert!(!report.complete);
    assert!(matches!(
        states(&report, "b.wacz")[..],
        [Presence::Present { complete: true, .. }, Presence::Missing]
    ));
    assert!(matches!(
        states(&report, "d.wacz")[..],
        [Presence::Present {
            complete: false,
            ..
        }]
    ));
    let complete: Vec<bool> = report
        .packages
        .iter()
        .map(|package| package.complete)
        .collect();
    assert_eq!(complete, [true, false, false, false]);
    assert!(report.errors.is_empty());
    drop(d);
}

#[test]
fn matching_file_name_is_not_sufficient() {
    let set = Collection::new();
    let a = set.add("a.wacz", &[]);
    let larger = but!(a.clone(), size: a.size.map(|size| size + 1));
    let other = but!(a.clone(), hash: Some(hash(b"other")));
    let upper = Required {
        hash: a
            .hash
            .as_ref()
            .map(|hash| hash.to_uppercase().replace("SHA256:", "")),
        size: None,
        ..a.clone()
    };
    let md5 = but!(a.clone(), hash: Some("md5:00".to_owned()));
    let renamed = but!(a.clone(), filename: "gone.wacz".to_owned());
    set.add(
        "b.wacz",
        &[larger, other, upper, md5, renamed, by_name("gone.wacz")],
    );
    let report = set.check();
    let found = states(&report, "b.wacz");
    assert!(
        matches!(found[0], Presence::WrongSize { found, .. } if Some(*found) == a.size),
        "{report:?}"
    );
    assert!(
        matches!(found[1], Presence::WrongHash { found, .. } if Some(found) == a.hash.as_ref()),
        "{report:?}"
    );
    for present in &found[2..5] {
        assert!(matches!(present, Presence::Present { .. }), "{present:?}");
    }
    assert_eq!(found[5], &Presence::Missing);
}

#[test]
fn right_one_of_two_files_with_one_name_is_found() {
    let set = Collection::new();
    let right = set.add("old/a.wacz", &[]);
    let wrong = set.add("a.wacz", &[by_name("old/a.wacz")]);
    assert_ne!(right.hash, wrong.hash);
    set.add("b.wacz", &[right, wrong]);
    assert!(matches!(
        states(&set.check(), "b.wacz")[..],
        [Presence::Present { .. }, Presence::Present { .. }]
    ));
}

#[test]
fn cycles_are_reported_and_harmless() {
    let set = Collection::new();
    set.add("a.wacz", &[by_name("b.wacz")]);
    set.add("b.wacz", &[by_name("c.wacz")]);
    set.add("c.wacz", &[by_name("a.wacz")]);
    set.add("d.wacz", &[by_name("d.wacz"), by_name("a.wacz")]);
    let report = set.check();
    assert!(report.complete);
    let expected = [vec!["a.wacz", "b.wacz", "c.wacz"], vec!["d.wacz"]];
    assert_eq!(report.cycles, expected);
    set.add("c.wacz", &[by_name("a.wacz"), by_name("x.wacz")]);
    let report = set.check();
    assert!(report.packages.iter().all(|package| !package.complete));
}

#[test]
fn unreadable_package_is_an_error_and_counts_as_missing() {
    let set = Collection::new();
    set.add("a.wacz", &[by_name("b.wacz")]);
    fs::write(set.path("b.wacz"), "no zip file").unwrap();
    fs::write(set.path("notes.txt"), "not looked at").unwrap();
    std::os::unix::fs::symlink(".", set.path("cycle")).unwrap();
    let report = set.check();
    assert!(!report.complete);
    assert_eq!(report.packages.len(), 1);
    assert_eq!(states(&report, "a.wacz"), [&Presence::Missing]);
    assert_contains(&report.errors[0], "b.wacz: this is not a WACZ file");
    assert!(check_all(&Location::from(set.path("none").as_path())).errors[0].contains("none: "));
}

#[test]
fn package_with_unindexed_warc_files_is_an_error() {
    let set = Collection::new();
    let about: &[u8] = b"{\"profile\": \"data-package\", \"resources\": []}";
    let members = [("datapackage.json", about), ("archive/a.warc.gz", b"")];
    redis_tests::archive::store_in(&set.path("a.wacz"), &members);
    let report = set.check();
    assert!(!report.complete);
    assert_contains(&report.errors[0], "a.wacz: it has no index");
}

#[test]
fn local_list_has_names_and_a_remote_one_hashes() {
    let set = Collection::new();
    let a = set.add("3f2a.wacz", &[]);
    let b = set.add("b.wacz", &[but!(a.clone(), filename: "a.wacz".to_owned())]);
    let list = format!(
        r#"{{"resources": [{{"name": "a.wacz", "path": "3f2a.wacz", "hash": "{}"}}, {{"path": "b.wacz"}}, {{"name": "x"}}]}}"#,
        a.hash.as_ref().unwrap()
    );
    let path = saved(set.folder.path(), "all.json", list.as_bytes());
    let report = check_all(&Location::from(path.as_path()));
    assert!(matches!(
        states(&report, "b.wacz")[..],
        [Presence::Present { .. }]
    ));
    assert_contains(&report.errors[0], "\"x\" cannot be used: it has no path");

    let host = FileHost::start();
    host.put("/all.json", list.as_bytes(), Manners::default());
    for name in ["3f2a.wacz", "b.wacz"] {
        host.put(
            &format!("/{name}"),
            &fs::read(set.path(name)).unwrap(),
            Manners::default(),
        );
    }
    let report = check_all(&Location::parse(&host.url("/all.json")).unwrap());
    assert!(matches!(
        states(&report, "b.wacz")[..],
        [Presence::Present { .. }]
    ));
    // The hash of the package is known, so only its beginning, its end and its datapackage were downloaded.
    let asked = host
        .requests()
        .iter()
        .filter(|request| request.path == "/3f2a.wacz")
        .count();
    assert_eq!(asked, 3);
    assert!(
        Wacz::open(
            &Location::parse(&host.url("/b.wacz")).unwrap(),
            &Options::default()
        )
        .unwrap()
        .size()
            > 0
    );
    drop(b);
}
