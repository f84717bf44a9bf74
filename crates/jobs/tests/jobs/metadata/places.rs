//! Tests folders and lists of files.

use redis_tests::but;
use std::fs;
use std::os::unix::fs::symlink;

use redis_tests::metadata::{Form, write_metadata};

use super::*;

fn put(path: &Path, job: u64) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    write_metadata(path, job, 3, CRAWL_LOG, Some(CDX), Form::Warc);
}

fn found(archive: &Archive, job: u64) -> bool {
    read(archive, job).unwrap().1 == both()
}

#[test]
fn nested_folders_are_searched() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    put(&root.join("7-metadata-1.warc"), 7);
    put(&root.join("a/b/c/8-metadata-1.warc"), 8);
    put(&root.join("a/b.warc/9-metadata-1.warc"), 9);
    fs::create_dir(root.join("10-metadata-1.warc")).unwrap();
    fs::write(root.join("7-3-20130522-00000-host.warc.gz"), "x").unwrap();
    fs::write(root.join("11-metadata-1.warc.gz.open"), "x").unwrap();
    let archive = archive_at(root);
    for job in [7, 8, 9] {
        assert!(found(&archive, job), "{job}");
    }
    for job in [10, 11, 3] {
        assert!(!found(&archive, job), "{job}");
    }
}

#[test]
fn links_are_followed_once() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    let elsewhere = folder.path().join("elsewhere");
    put(&root.join("a/7-metadata-1.warc"), 7);
    put(&elsewhere.join("8-metadata-1.warc"), 8);
    put(&elsewhere.join("file"), 9);
    symlink(&root, root.join("a/up")).unwrap();
    symlink(".", root.join("a/here")).unwrap();
    symlink(&elsewhere, root.join("b")).unwrap();
    symlink(&elsewhere, root.join("c")).unwrap();
    symlink(elsewhere.join("file"), root.join("9-metadata-1.warc")).unwrap();
    symlink("itself", root.join("itself")).unwrap();
    symlink("gone", root.join("nowhere")).unwrap();
    symlink("gone", root.join("10-metadata-1.warc")).unwrap();
    let archive = archive_at(&root);
    for job in [7, 8, 9] {
        assert!(found(&archive, job), "{job}");
        assert_eq!(read(&archive, job).unwrap().0.notes, [""; 0], "{job}");
    }
    // A listed file is missing: this is an error, not a missing job.
    assert_says(
        &failure(&archive, 10),
        &["10-metadata-1.warc", "No such file"],
    );
}

#[test]
fn unreadable_location_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    put(&root.join("7-metadata-1.warc"), 7);
    let root = root.to_str().unwrap();
    for place in ["gone", "gone/7-metadata-1.warc", "7-metadata-1.warc/x"] {
        let place = format!("{root}/{place}");
        let archive = archive(&[root, &place]);
        assert_says(&failure(&archive, 7), &[&place]);
    }
    assert_says(
        &failure(&archive(&["/dev/null"]), 7),
        &["/dev/null", "a device"],
    );
    let link = format!("{root}/8-metadata-1.warc");
    symlink("/dev/null", &link).unwrap();
    assert_says(&failure(&archive(&[root]), 8), &[&link, "a device"]);
}

#[test]
fn unreadable_nested_folder_is_reported() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let closed = folder.path().join("closed");
    put(&closed.join("7-metadata-1.warc"), 7);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read_dir(&closed).is_ok() {
        eprintln!("this user may read everything");
    } else {
        let text = failure(&archive_at(folder.path()), 7);
        assert_says(&text, &[closed.to_str().unwrap(), "cannot read the folder"]);
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn list_paths_are_relative_to_the_list() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    put(&root.join("a/7-metadata-1.warc"), 7);
    put(&root.join("b/c/8-metadata-1.warc"), 8);
    put(&root.join("d.e/9-metadata-1.warc"), 9);
    put(&root.join("f/10-metadata-1.warc"), 10);
    put(&root.join("g/11-metadata-1.warc"), 11);
    let absolute = root.join("f/10-metadata-1.warc");
    let list = root.join("list.txt");
    let text = format!(
        "# all of them\n\na/7-metadata-1.warc\r\nb\n  d.e/  \n{}\na/7-3-2013-0.warc.gz\nlist.txt\n",
        absolute.display()
    );
    fs::write(&list, text).unwrap();
    let archive = archive_at(&list);
    for job in [7, 8, 9, 10] {
        assert!(found(&archive, job), "{job}");
    }
    assert!(!found(&archive, 11));

    fs::write(&list, "gone/7-metadata-1.warc\n").unwrap();
    assert_says(&failure(&archive_at(&list), 7), &["gone/7-metadata-1.warc"]);
    fs::write(&list, "a/7-metadata-1.warc\ngone\n").unwrap();
    assert_says(&failure(&archive_at(&list), 7), &["/gone", "No such file"]);
    fs::write(&list, "ftp://a/7-metadata-1.warc\n").unwrap();
    assert_says(&failure(&archive_at(&list), 7), &["list.txt", "ftp"]);
    fs::write(&list, b"\x1f\x8b\x08\0\xff").unwrap();
    assert_says(&failure(&archive_at(&list), 7), &["list.txt", "line 1"]);
}

#[test]
fn single_file_is_a_location_if_its_name_has_a_job() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    put(&root.join("7-metadata-1.warc"), 7);
    put(&root.join("mine.warc"), 8);
    assert!(found(&archive_at(&root.join("7-metadata-1.warc")), 7));
    let text = failure(&archive_at(&root.join("mine.warc")), 8);
    assert_says(&text, &["mine.warc", "117-metadata-1.warc.gz"]);
    let refused = Archive::open(&["ftp://a.example/".to_owned()]).unwrap_err();
    assert_says(&refused.to_string(), &["ftp"]);
}

#[test]
fn file_in_two_locations_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    put(&root.join("a/7-metadata-1.warc"), 7);
    put(&root.join("b/7-metadata-1.warc"), 7);
    let path = root.join("b/7-metadata-1.warc.gz");
    write_metadata(&path, 7, 3, CRAWL_LOG, Some(CDX), Form::WarcGz);
    let (a, b) = (root.join("a"), root.join("b"));
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let (found, records) = read(&archive(&[b, a, b]), 7).unwrap();
    assert_eq!(records, both());
    assert_eq!(found.files.len(), 1);
    let notes = found.notes.join("\n");
    assert_says(
        &notes,
        &[
            "7-metadata-1.warc is skipped",
            "7-metadata-1.warc.gz of an earlier place",
        ],
    );
    assert!(!notes.contains(['/', '\n']), "{notes}");
    // Naming the same place twice causes no note.
    let (found, _) = read(&archive(&[a, a]), 7).unwrap();
    assert_eq!(found.notes, [""; 0]);
}

#[test]
fn new_files_are_found_at_the_next_scan() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let places = [root.to_str().unwrap().to_owned()];
    let seldom = but!(options(), rescan: Duration::from_secs(3600));
    let seldom = Archive::open_with(&places, seldom).unwrap();
    let often = archive_at(root);
    assert!(!found(&often, 7) && !found(&seldom, 7));
    put(&root.join("7-metadata-1.warc"), 7);
    assert!(found(&often, 7));
    assert!(!found(&seldom, 7));
}

#[test]
fn moved_file_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    put(&root.join("a/7-metadata-1.warc"), 7);
    let archive = archive_at(root);
    assert!(found(&archive, 7));
    fs::rename(root.join("a"), root.join("b")).unwrap();
    assert_says(&failure(&archive, 7), &["a/7-metadata-1.warc"]);
    assert!(found(&archive, 7));
    fs::remove_dir_all(root.join("b")).unwrap();
    failure(&archive, 7);
    assert!(!found(&archive, 7));
}

#[test]
fn location_that_fails_later_removes_no_known_job() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    put(&a.join("7-metadata-1.warc"), 7);
    put(&b.join("8-metadata-1.warc"), 8);
    let archive = archive(&[a.to_str().unwrap(), b.to_str().unwrap()]);
    assert!(found(&archive, 7));
    fs::remove_dir_all(&b).unwrap();
    assert_says(&failure(&archive, 9), &[b.to_str().unwrap()]);
    assert!(found(&archive, 7));
}

#[test]
fn failure_is_repeated_until_the_next_scan() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("later");
    let places = [place.to_str().unwrap().to_owned()];
    let seldom = but!(options(), rescan: Duration::from_secs(3600));
    let seldom = Archive::open_with(&places, seldom).unwrap();
    let often = archive_at(&place);
    let first = failure(&seldom, 7);
    assert_eq!(first, failure(&often, 7));
    put(&place.join("7-metadata-1.warc"), 7);
    assert_eq!(first, failure(&seldom, 7));
    assert!(found(&often, 7));
}
