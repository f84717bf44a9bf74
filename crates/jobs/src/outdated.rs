//! Detects entries that are older than their inputs.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::cache::{manifest_of, read_manifest};
use super::{Form, IndexKind, JobId, Manifest};
use crate::metadata::{Kind, unpacked};

/// Checksums of the entries of a cache folder, read once each.
pub(crate) struct Contents<'a> {
    cache_dir: &'a Path,
    checksums: HashMap<PathBuf, Option<String>>,
}

impl<'a> Contents<'a> {
    pub(crate) fn of(cache_dir: &'a Path) -> Contents<'a> {
        Contents {
            cache_dir,
            checksums: HashMap::new(),
        }
    }

    /// Returns whether an entry was built from the current contents of the caches. Removed inputs
    /// count as unchanged; added raw data count as a change.
    pub(crate) fn are_in(&mut self, manifest: &Manifest) -> bool {
        let Some(index) = IndexKind::ALL
            .into_iter()
            .find(|kind| kind.folder() == manifest.cache)
        else {
            return true;
        };
        let kinds = match index {
            IndexKind::Dedup | IndexKind::Full => &Kind::ALL[..],
            IndexKind::Cdx => &[Kind::Cdx],
        };
        let mut names = HashSet::new();
        for input in &manifest.inputs {
            let raw = Kind::ALL.into_iter().find(|kind| {
                let rest = input.name.strip_prefix(kind.folder());
                rest.is_some_and(|rest| rest.starts_with('-'))
            });
            let now = match raw {
                Some(kind) => self.checksum(kind.folder(), Form::File, &input.name),
                None => self.checksum(index.folder(), index.form(), &input.name),
            };
            if now.is_some() && *now != input.checksum {
                return false;
            }
            names.insert(&*input.name);
        }
        let is_known = |job: JobId, kind: &Kind, contents: &mut Contents<'_>| {
            let name = kind.entry_name(job);
            names.contains(&*name)
                || contents
                    .checksum(kind.folder(), Form::File, &name)
                    .is_none()
        };
        let mut jobs = manifest.jobs.iter();
        jobs.all(|job| kinds.iter().all(|kind| is_known(job, kind, self)))
    }

    /// Returns the checksum of an entry's contents; `None` if the entry does not exist.
    fn checksum(&mut self, folder: &str, form: Form, name: &str) -> &Option<String> {
        let path = self.cache_dir.join(folder).join(name);
        self.checksums.entry(path).or_insert_with_key(|path| {
            // Metadata files are inputs, too, but not entries.
            if !name.ends_with("-cache") {
                return None;
            }
            let manifest = read_manifest(&manifest_of(path, form))?.ok()?;
            manifest.as_input().checksum
        })
    }
}

/// The metadata files from which an entry was built.
pub(crate) struct MadeOf<'a> {
    sizes: HashMap<&'a str, u64>,
    unpacked: HashSet<&'a str>,
}

impl<'a> MadeOf<'a> {
    pub(crate) fn of(manifest: &'a Manifest) -> MadeOf<'a> {
        let inputs = manifest.inputs.iter();
        MadeOf {
            sizes: inputs
                .clone()
                .map(|input| (&*input.name, input.size))
                .collect(),
            unpacked: inputs.map(|input| unpacked(&input.name)).collect(),
        }
    }

    /// Returns whether all of these files are inputs, with the same sizes where both sizes are known.
    pub(crate) fn has(&self, files: &[(String, Option<u64>)]) -> bool {
        files
            .iter()
            .all(|(name, size)| match self.sizes.get(&**name) {
                Some(then) => size.is_none_or(|size| size == *then),
                // The file may have been compressed or decompressed after the build.
                None => self.unpacked.contains(unpacked(name)),
            })
    }
}
