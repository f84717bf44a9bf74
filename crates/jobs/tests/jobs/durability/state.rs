//! Reads and checks the state of a cache folder.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use crawlspace_index::zipnum::Blocks;
use crawlspace_jobs::operations::{LAYERS, collect};
use crawlspace_jobs::{Form, Limits, Manifest, Work};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use xxhash_rust::xxh3::xxh3_128;

/// Entries by folder and name, each with a checksum of its lines, which does not depend on how the entry was built.
pub type State = BTreeMap<String, u128>;

/// Returns the existing entries. Each entry must equal its manifest to the last byte.
pub fn state(cache_dir: &Path) -> State {
    let mut state = State::new();
    for layer in LAYERS {
        for name in names(&cache_dir.join(layer.folder)) {
            let path = cache_dir.join(layer.folder).join(&name);
            if !name.ends_with("-cache") || name.starts_with('.') {
                continue;
            }
            let manifest = match layer.form {
                Form::File => path.with_file_name(format!("{name}.manifest.json")),
                Form::Folder => path.join("manifest.json"),
            };
            // The file of an entry appears before its manifest.
            if layer.form == Form::File && !manifest.exists() {
                continue;
            }
            let bytes = fs::read(&manifest).unwrap_or_else(|e| panic!("{name}: {e}"));
            let manifest = Manifest::parse(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
            for file in &manifest.files {
                let of_folder = path.join(&file.name);
                let bytes = match layer.form {
                    Form::File => fs::read(&path),
                    Form::Folder => fs::read(of_folder),
                };
                let bytes = bytes.unwrap_or_else(|e| panic!("{name}/{}: {e}", file.name));
                assert_eq!(bytes.len() as u64, file.size, "{name}/{}", file.name);
                assert_eq!(format!("{:032x}", xxh3_128(&bytes)), file.xxh128, "{name}");
            }
            let key = format!("{}/{name}", layer.folder);
            state.insert(key, checksum(&path, layer.form));
        }
    }
    state
}

/// Returns the checksum of an entry's lines in all its orders.
pub fn checksum(entry: &Path, form: Form) -> u128 {
    match form {
        Form::File => xxh3_128(&fs::read(entry).expect("a file")),
        Form::Folder => {
            let mut text = Vec::new();
            for stem in ["url", "digest"] {
                let mut blocks = Blocks::open(entry, stem).expect("blocks");
                let begin = text.len();
                while let Some(block) = blocks.next().expect("a block") {
                    text.extend_from_slice(block);
                }
                let lines: Vec<_> = text[begin..].split(|byte| *byte == b'\n').collect();
                assert!(lines[..lines.len().saturating_sub(1)].is_sorted());
            }
            xxh3_128(&text)
        }
    }
}

/// Returns the names in a folder; empty if the folder does not exist.
pub fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten();
    let name = |file: std::io::Result<fs::DirEntry>| {
        file.expect("a file")
            .file_name()
            .into_string()
            .expect("text")
    };
    files.map(name).collect()
}

/// Iterates over the files and folders in the folders of the caches.
fn all(cache_dir: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    LAYERS.iter().flat_map(|layer| {
        let folder = cache_dir.join(layer.folder);
        names(&folder)
            .into_iter()
            .map(move |name| folder.join(name))
    })
}

/// Counts the files and folders, whose number grows as the work progresses.
pub fn how_many(cache_dir: &Path) -> usize {
    all(cache_dir).count()
}

/// Asserts that no file is locked, and that all lock files are empty.
pub fn assert_unlocked(cache_dir: &Path) {
    for path in all(cache_dir).filter(|path| path.is_file()) {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) => panic!("{}: {error}", path.display()),
        };
        if path
            .extension()
            .is_some_and(|extension| extension == "working")
        {
            assert_eq!(file.metadata().expect("metadata").len(), 0);
        }
        let mut held = libc::flock {
            l_type: libc::F_WRLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        fcntl(file.as_fd(), FcntlArg::F_OFD_GETLK(&mut held)).expect("a look");
        assert_eq!(
            i32::from(held.l_type),
            libc::F_UNLCK,
            "{} is locked",
            path.display()
        );
    }
}

/// Returns unfinished files of builders, which are neither entries nor files that belong to an
/// entry.
pub fn leftovers(cache_dir: &Path) -> Vec<PathBuf> {
    let is_left = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with('.') || name.ends_with(".owner")
    };
    all(cache_dir).filter(is_left).collect()
}

/// Asserts that a failed builder has removed the files that it created.
pub fn assert_no_leftovers(cache_dir: &Path) {
    let left = leftovers(cache_dir);
    assert!(left.is_empty(), "{left:?}");
}

/// Asserts that nothing is left over after a collection that removes no entry.
pub fn assert_clean(cache_dir: &Path) {
    let limits = Limits::default();
    collect(cache_dir, &limits, false, &Work::default()).expect("a collection");
    assert_no_leftovers(cache_dir);
}
