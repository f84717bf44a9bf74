//! Parses the names of metadata files.

use super::super::JobId;

/// The parts of the name of a metadata file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// The numbers in the name, any of which may be the number of the job. In NetarchiveSuite, the order of
    /// job, harvest and collection is configurable.
    pub(super) candidates: Vec<JobId>,
    /// The number of the file within its job.
    pub(super) number: u64,
}

impl Name {
    /// Parses `[<words and numbers>-]<job>[-<words and numbers>]-metadata-<number>.(w)arc[.gz]`. Returns `None` for
    /// files with other names.
    pub(super) fn parse(name: &str) -> Option<Name> {
        let (before, number) = stem(name)?.rsplit_once("-metadata-")?;
        let number = decimal(number)?;
        let mut candidates: Vec<JobId> = before.split('-').filter_map(decimal).map(JobId).collect();
        candidates.sort_unstable();
        candidates.dedup();
        (!candidates.is_empty()).then_some(Name { candidates, number })
    }
}

/// Returns whether a name is the name of a WARC or ARC file.
pub(super) fn is_archive_file(name: &str) -> bool {
    stem(name).is_some()
}

/// Removes `.gz` from the name of a file, so that a compressed file and the uncompressed one have the same name.
pub(crate) fn unpacked(name: &str) -> &str {
    without_end(name, ".gz").unwrap_or(name)
}

fn stem(name: &str) -> Option<&str> {
    let name = unpacked(name);
    without_end(name, ".warc").or_else(|| without_end(name, ".arc"))
}

fn without_end<'a>(name: &'a str, end: &str) -> Option<&'a str> {
    let (before, last) = name.split_at_checked(name.len().checked_sub(end.len())?)?;
    last.eq_ignore_ascii_case(end).then_some(before)
}

fn decimal(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {

        #[test]
        fn job_is_found_at_any_position(
            before in "([a-z0-9_.]{1,6}-){0,3}",
            job: u64,
            after in "(-[a-z0-9_.]{1,6}){0,3}",
            number in 0u64..1000,
            ending in proptest::sample::select(&[".warc", ".arc", ".warc.gz", ".ARC.GZ"][..]),
        ) {
            let name = format!("{before}{job}{after}-metadata-{number}{ending}");
            let parsed = Name::parse(&name).expect("a name");
            prop_assert!(parsed.candidates.contains(&JobId(job)));
            prop_assert_eq!(parsed.number, number);
            prop_assert!(is_archive_file(&name));
            prop_assert!(name.starts_with(unpacked(&name)));
            let harvested = name.replace("-metadata-", "-");
            prop_assert_eq!(Name::parse(&harvested), None);
        }

        #[test]
        fn any_text_may_be_a_name(name in "\\PC{0,20}(-metadata-)?[0-9x]{0,3}(\\.w?arc)?(\\.gz)?") {
            if let Some(parsed) = Name::parse(&name) {
                prop_assert!(!parsed.candidates.is_empty());
            }
        }
    }

    #[test]
    fn every_number_before_the_word_may_be_the_job() {
        for (name, candidates, number) in [
            ("117-metadata-1.warc.gz", &[117][..], 1),
            ("coll-117-3-metadata-2.warc", &[3, 117], 2),
            ("12-harvest-117-metadata-1.arc.gz", &[12, 117], 1),
            ("117-metadata-10.ARC", &[117], 10),
            ("a-metadata-b-7-7-metadata-0.warc", &[7], 0),
            ("007-metadata-1.warc", &[7], 1),
            ("netarkivet-4x-5-metadata-1.warc", &[5], 1),
            ("18446744073709551615-metadata-1.warc", &[u64::MAX], 1),
        ] {
            let candidates = candidates.iter().copied().map(JobId).collect();
            assert_eq!(
                Name::parse(name),
                Some(Name { candidates, number }),
                "{name}"
            );
        }
    }

    #[test]
    fn other_files_are_ignored() {
        for name in [
            "",
            "117-metadata-1",
            "117-metadata-1.warc.gz.open",
            "117-metadata-.warc",
            "117-metadata-x.warc",
            "117-metadata-1-2.warc",
            "metadata-1.warc",
            "-metadata-1.warc",
            "coll-metadata-1.warc",
            "117-3-20130522000000-00000-host.warc.gz",
            "117-metadata-1.cdx",
            ".warc",
            "18446744073709551616-metadata-1.warc",
            "é-metadata-1.warc",
        ] {
            assert_eq!(Name::parse(name), None, "{name}");
        }
    }
}
