//! Tests damaged and malicious files. Each damaged file causes an error that names the file and the member;
//! no file makes the reader use much memory or misinterpret data.

use crawlspace_wacz::{Error, Options, Problem, Wacz};
use proptest::prelude::*;
use redis_tests::fuzz::Heap;
use redis_tests::{assert_contains, but, rows, with};

use crate::zipped::{Ending, Part, deflate, gzip, zip, zip_with};
use crate::{open, read, saved};

const INDEX: &str = "indexes/index.cdx";
const LINE: &[u8] = b"com,example)/ 20260319102015 {}\n";
/// Maximum memory for any package, in bytes.
const LITTLE: usize = 6 << 20;

fn index(text: &[u8]) -> Part {
    Part::stored(INDEX, text)
}

fn deflated(text: &[u8]) -> Part {
    Part::deflated(INDEX, text)
}

/// Returns the error of reading these members, which must name the file and that member.
fn refused(parts: &[Part], member: Option<&str>) -> Error {
    refused_file(&zip(parts), member)
}

fn refused_file(bytes: &[u8], member: Option<&str>) -> Error {
    let (outcome, memory) = Heap::peak_of(|| counted(bytes, &Options::default()));
    let error = outcome.expect_err("an error");
    assert!(memory < LITTLE, "{memory} bytes of memory: {error}");
    assert!(error.file.ends_with("test.wacz"), "{error}");
    assert_eq!(error.member.as_deref(), member, "{error}");
    assert_contains(&error, "test.wacz: ");
    error
}

/// Counts the lines of all indexes without keeping them.
fn counted(bytes: &[u8], options: &Options) -> Result<u64, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(folder.path(), "test.wacz", bytes);
    let wacz = Wacz::open(&path.as_path().into(), options)?;
    let mut count = 0;
    for index in wacz.indexes() {
        let mut lines = wacz.lines(index)?;
        while lines.next()?.is_some() {}
        count += lines.number();
    }
    Ok(count)
}

fn too_large(error: &Error) -> &str {
    match &error.problem {
        Problem::TooLarge { option, .. } => option,
        _ => panic!("{error}"),
    }
}

#[test]
fn bombs_end_at_their_limits() {
    const MANY: u64 = 18 << 20;
    let line = [&[b'x'; 1023][..], b"\n"].concat();
    let many = line.repeat(MANY as usize >> 10);
    let packed = gzip(&many);
    for part in [deflated(&many), index(&packed), deflated(&packed)] {
        let file = zip(&[part]);
        let error = refused_file(&file, Some(INDEX));
        assert_eq!(too_large(&error), "ratio");
        assert_contains(&error, "200 times the");
        assert_contains(&error, "the limit `ratio`");
        let limits = |text| with!(Options, ratio: u64::MAX, text);
        assert_eq!(counted(&file, &limits(MANY)).unwrap(), MANY >> 10);
        assert_eq!(
            too_large(&counted(&file, &limits(MANY - 1)).unwrap_err()),
            "text"
        );
    }
    // Gzip within gzip is not an index, and is not decompressed.
    let twice = counted(&zip(&[index(&gzip(&packed))]), &Options::default());
    assert!(twice.unwrap() < 10_000);
    // The ratio is not limited for an index of usual size.
    let regular = zip(&[deflated(&many[..15 << 20])]);
    assert_eq!(counted(&regular, &Options::default()).unwrap(), 15 << 10);
}

#[test]
fn endless_line_ends_at_its_limit() {
    let limit = 1 << 20;
    let line = |n: usize| [&vec![b'x'; n][..], b"\nnext\n"].concat();
    for wrap in [index as fn(&[u8]) -> Part, deflated, |text| {
        index(&gzip(text))
    }] {
        assert_eq!(read(&zip(&[wrap(&line(limit))])).unwrap().len(), 2);
        assert_eq!(read(&zip(&[wrap(&line(limit)[..limit])])).unwrap().len(), 1);
        for too_long in [limit + 1, limit + 2, 5 * limit] {
            let text = [LINE, &line(too_long)].concat();
            let error = refused(&[wrap(&text)], Some(INDEX));
            assert_eq!(too_large(&error), "line");
            assert_contains(&error, "line 2 is larger than 1048576 bytes");
        }
    }
}

#[test]
fn names_outside_the_package_are_refused() {
    for (name, why) in [
        (&b"../indexes/index.cdx"[..], "points outside the package"),
        (b"indexes/../../etc/passwd", "points outside the package"),
        (b"/etc/passwd", "absolute path"),
        (b"C:/index.cdx", "absolute path"),
        (b"indexes\\index.cdx", "backslash"),
        (b"indexes/index.cdx\0.txt", "control character"),
        (b"indexes/\x1b[2Jindex.cdx", "control character"),
        (b"indexes//index.cdx", "empty part"),
        (b"./index.cdx", "empty part"),
        (b"", "no name"),
        (b"indexes/\xfc.cdx", "not UTF-8"),
    ] {
        let part = but!(index(LINE), name: name.to_vec());
        let error = refused(&[index(LINE), part], Some(&String::from_utf8_lossy(name)));
        assert!(matches!(error.problem, Problem::Name(_)), "{error}");
        let text = error.to_string();
        assert_contains(&text, why);
        assert_contains(&text, "do not use this file");
        assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
    }
    // Names may contain non-ASCII characters, with and without the UTF-8 flag.
    for flags in [0, 1 << 11] {
        let part = but!(index(LINE), flags, name: "indexes/ünïcödé-日本.cdx".into());
        assert_eq!(read(&zip(&[part])).unwrap().len(), 1);
    }
}

#[test]
fn two_members_with_one_name_are_both_refused() {
    let error = refused(&[index(LINE), index(b"another 2026 {}\n")], Some(INDEX));
    assert!(matches!(error.problem, Problem::Name(_)), "{error}");
    assert_contains(&error, "several members have this name");
}

#[test]
fn overlapping_members_are_refused() {
    let warc = Part::stored("archive/data.warc.gz", &[7; 500]);
    let text = [LINE; 20].concat();
    let first = zip(std::slice::from_ref(&warc)).len() as u64;
    for place in [0, 1, 30, first - 100] {
        let part = but!(index(&text), place: Some(place));
        let error = refused_file(&zip(&[warc.clone(), part]), Some("archive/data.warc.gz"));
        assert!(matches!(error.problem, Problem::Damaged(_)), "{error}");
        assert_contains(&error, "overlaps the next member or the directory");
    }
    // A member that extends into the directory.
    let part = but!(index(&text), compressed: 100_000, size: 100_000);
    refused(&[warc, part], Some(INDEX));
}

#[test]
fn member_that_contradicts_the_directory_is_refused() {
    let text = [LINE; 50].concat();
    let padded = |part: Part| vec![part, Part::stored("padding", &[0; 3000])];
    let (plain, packed) = (index(&text), deflated(&text));
    let (size, less) = (plain.size, packed.compressed);
    let cases: [(&str, Part); 16] = rows![
        "a larger text", but!(packed.clone(), size: size + 1);
        "a smaller text", but!(packed.clone(), size: size - 1);
        "no text", but!(packed.clone(), size: 0);
        "a larger stored text", but!(plain.clone(), size: size + 1);
        "a smaller stored text", but!(plain.clone(), size: size - 1);
        "less data", but!(packed.clone(), compressed: less - 1);
        "more data",
            but!(packed.clone(), compressed: less + 1, data: [&packed.data[..], b"x"].concat());
        "less stored data", but!(plain.clone(), compressed: size - 1);
        "another checksum", but!(plain.clone(), crc: 1);
        "another checksum, compressed", but!(packed.clone(), crc: 1);
        "another checksum, behind the data", but!(packed.clone(), crc: 1, descriptor: true);
        "no compressed text", but!(packed.clone(), data: vec![0xff; less as usize]);
        "plain text said to be compressed", but!(plain.clone(), method: 8);
        "compressed text said to be plain", but!(packed.clone(), method: 0, size: less);
        "another name of its own", but!(plain.clone(), local_name: Some(b"indexes/index.cdX".to_vec()));
        "another compression of its own", but!(plain.clone(), local_method: Some(8));
    ];
    for (name, part) in cases {
        let error = refused(&padded(part), Some(INDEX));
        assert!(
            matches!(error.problem, Problem::Damaged(_) | Problem::CutOff),
            "{name}: {error}"
        );
        assert!(
            error.to_string().contains("download the file again"),
            "{name}: {error}"
        );
    }
    // A header that is not at the offset that the directory states, or that differs from the
    // directory.
    let mut file = zip(&padded(plain.clone()));
    file[0] = b'Q';
    refused_file(&file, Some(INDEX));
    for at in [14, 18, 22, 26, 28] {
        let mut file = zip(&padded(plain.clone()));
        file[at] ^= 1;
        refused_file(&file, Some(INDEX));
    }
}

#[test]
fn encrypted_members_and_unknown_methods_are_refused() {
    for flag in [1, 1 << 6, 1 << 13] {
        let error = refused(&[but!(index(LINE), flags: flag)], Some(INDEX));
        assert!(matches!(error.problem, Problem::Encrypted), "{error}");
        assert_contains(&error, "without a password");
    }
    for method in [1, 9, 12, 14, 93, 95, 98, 99, u16::MAX] {
        let error = refused(&[but!(index(LINE), method)], Some(INDEX));
        assert!(
            matches!(error.problem, Problem::Method(m) if m == method),
            "{error}"
        );
        assert_contains(&error, format!("method {method}"));
    }
    // A member that is not read may use any compression method.
    let warc = but!(Part::stored("archive/data.warc.zst", b"x"), method: 93);
    assert_eq!(read(&zip(&[warc, index(LINE)])).unwrap().len(), 1);
}

#[test]
fn file_truncated_at_any_offset_is_refused() {
    for ending in [
        Ending::default(),
        with!(Ending, zip64: true, comment: b"end".to_vec()),
    ] {
        let file = zip_with(
            &[
                index(LINE),
                Part::deflated("archive/data.warc.gz", &[7; 200]),
            ],
            &ending,
        );
        for cut in 0..file.len() {
            let error = read(&file[..cut]).expect_err("cut off");
            assert!(
                matches!(error.problem, Problem::NotZip(_) | Problem::Directory(_)),
                "cut at {cut}: {error}"
            );
            assert!(read(&file[cut + 1..]).is_err(), "the end from {cut} on");
        }
        for more in [&b"x"[..], b"\0", &[0; 70_000]] {
            refused_file(&[&file[..], more].concat(), None);
            refused_file(&[more, &file[..]].concat(), None);
        }
    }
}

#[test]
fn end_record_that_contradicts_the_directory_is_refused() {
    let parts = [index(LINE), Part::stored("archive/data.warc.gz", &[7; 200])];
    let file = zip(&parts);
    let start = u64::from(u32::from_le_bytes(
        file[file.len() - 6..][..4].try_into().unwrap(),
    ));
    let length = file.len() as u64 - 22 - start;
    for zip64 in [false, true] {
        let with = |ending: Ending| zip_with(&parts, &Ending { zip64, ..ending });
        let mut wrong = vec![
            with!(Ending, entries: Some(0)),
            with!(Ending, entries: Some(1)),
            with!(Ending, entries: Some(3)),
            with!(Ending, length: Some(0)),
            with!(Ending, length: Some(length - 1)),
            with!(Ending, length: Some(length + 1)),
            with!(Ending, start: Some(start - 1)),
            with!(Ending, start: Some(start + 1)),
            with!(Ending, start: Some(0)),
            with!(Ending, start: Some(0), length: Some(0)),
        ];
        if zip64 {
            let huge = [u64::MAX, 1 << 63, u64::from(u32::MAX), 1 << 33];
            wrong.extend(huge.map(|n| with!(Ending, entries: Some(n))));
            wrong.extend(huge.map(|n| with!(Ending, length: Some(n))));
            wrong.extend(huge.map(|n| with!(Ending, start: Some(n))));
        }
        for (i, ending) in wrong.into_iter().enumerate() {
            let error = refused_file(&with(ending), None);
            assert!(
                matches!(error.problem, Problem::Directory(_)),
                "{zip64} {i}: {error}"
            );
            assert_contains(&error, "download it again");
        }
    }
    // Zip64 records that are missing or wrong.
    let file = zip_with(&parts, &with!(Ending, zip64: true));
    let (record, pointer) = (file.len() - 22 - 20 - 56, file.len() - 22 - 20);
    for at in [
        record,
        pointer,
        pointer + 4,
        pointer + 8,
        pointer + 12,
        pointer + 16,
        record + 16,
        record + 24,
        record + 32,
    ] {
        let mut file = file.clone();
        file[at] ^= 2;
        refused_file(&file, None);
    }
    // The comment of the end record contains a second end record.
    let comment = zip(&[Part::stored("indexes/other.cdx", LINE)]);
    refused_file(&zip_with(&parts, &with!(Ending, comment)), None);
    // A field contains the zip64 placeholder, but the zip64 number is missing.
    let mut part = but!(index(LINE), zip64: true);
    let mut file = zip(std::slice::from_ref(&part));
    let extra = file
        .windows(4)
        .rposition(|bytes| bytes == [1, 0, 24, 0])
        .unwrap();
    file[extra] = 9;
    refused_file(&file, None);
    part.place = Some(u64::MAX);
    refused_file(&zip(&[part]), None);
}

#[test]
fn huge_directory_is_refused_before_it_is_read() {
    let parts = (0..60_000).map(|i| Part::stored(&format!("archive/{i:050}"), b""));
    let parts: Vec<Part> = parts.collect();
    let file = zip(&parts);
    let error = refused_file(&file, None);
    assert_eq!(too_large(&error), "directory");
    let options = with!(Options, directory: 8 << 20);
    assert!(counted(&file, &options).unwrap() == 0);
    // The largest directory allowed by default, all of which is checked.
    let file = zip(&parts[..40_000]);
    let (outcome, memory) = Heap::peak_of(|| counted(&file, &Options::default()));
    assert_eq!(outcome.unwrap(), 0);
    assert!(memory < 2 * LITTLE, "{memory}");
}

#[test]
fn damaged_gzip_is_refused_at_any_offset() {
    let whole = [gzip(&[LINE; 20].concat()), gzip(&[LINE; 5].concat())].concat();
    let first = gzip(&[LINE; 20].concat()).len();
    let name = "indexes/index.cdx.gz";
    assert_eq!(read(&zip(&[Part::stored(name, &whole)])).unwrap().len(), 25);
    for cut in (3..whole.len()).filter(|&cut| cut != first) {
        let error = refused(&[Part::stored(name, &whole[..cut])], Some(name));
        assert!(
            matches!(error.problem, Problem::Gzip(_)),
            "cut at {cut}: {error}"
        );
        assert_contains(&error, "make the index again");
    }
    for garbage in [
        &b"x"[..],
        b"\0\0\0\0",
        b"\x1f",
        b"garbage of some length",
        &LINE.repeat(9000),
    ] {
        let error = refused(
            &[Part::stored(name, &[&whole[..], garbage].concat())],
            Some(name),
        );
        assert!(matches!(error.problem, Problem::Gzip(_)), "{error}");
    }
    for at in
        (0..whole.len()).filter(|at| !(4..10).contains(at) && !(first + 4..first + 10).contains(at))
    {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        match read(&zip(&[Part::stored(name, &damaged)])) {
            Err(error) => assert_eq!(error.member.as_deref(), Some(name)),
            // Without its first two bytes, the member contains neither gzip data nor index lines.
            Ok(lines) => {
                assert!(at < 2 && !lines.contains(&"com,example)/ 20260319102015 {}".to_owned()))
            }
        }
    }
}

#[test]
fn file_that_shrinks_during_a_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let text = LINE.repeat(50_000);
    let path = saved(folder.path(), "test.wacz", &zip(&[index(&text)]));
    let wacz = open(&path).unwrap();
    let mut lines = wacz.lines(&wacz.indexes()[0]).unwrap();
    lines.next().unwrap().unwrap();
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(200_000)
        .unwrap();
    let error = loop {
        match lines.next() {
            Ok(line) => assert!(line.is_some(), "the end"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error.problem, Problem::CutOff), "{error}");
}

/// Returns a small package with all kinds of members, and its lines.
fn good() -> (Vec<u8>, Vec<String>) {
    let lines = (0..12).map(|i| format!("com,example)/{i} 20260319102015 {{}}"));
    let lines: Vec<String> = lines.collect();
    let text = |lines: &[String]| lines.join("\n").into_bytes();
    let file = zip(&[
        Part::stored("archive/data.warc.gz", b"not read"),
        Part::stored("indexes/a.cdx", &text(&lines[..4])),
        but!(Part::deflated("indexes/b.cdxj", &text(&lines[4..8])), descriptor: true),
        but!(Part::stored("indexes/c.cdx.gz", &gzip(&text(&lines[8..]))), zip64: true),
        Part::stored(
            "indexes/c.idx",
            b"com,example)/8 20260319102015\tc.cdx.gz\t0\t99\n",
        ),
        Part::deflated("datapackage.json", b"{}"),
    ]);
    (file, lines)
}

/// Checks that lines read without error are lines of the valid package, though perhaps not all of them: a changed name
/// is detected only by reading that member.
fn believed_lines_are_true(bytes: &[u8], good: &[String]) {
    if let Ok(lines) = read(bytes) {
        for line in lines {
            assert!(good.contains(&line), "{line:?}");
        }
    }
}

#[test]
fn no_single_byte_change_makes_another_line() {
    let (file, lines) = good();
    for at in 0..file.len() {
        for change in [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff, 0x0a] {
            let mut changed = file.clone();
            changed[at] ^= change;
            believed_lines_are_true(&changed, &lines);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_no_package(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(read(&bytes).is_err());
    }

    #[test]
    fn random_bytes_between_valid_records_are_harmless(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        entries in any::<u16>(), length in any::<u16>(), start in any::<u16>(),
        name in prop::collection::vec(any::<u8>(), 0..30),
        numbers in prop::array::uniform3(any::<u32>()),
    ) {
        let part = Part {
            name,
            compressed: numbers[0].into(),
            size: numbers[1].into(),
            place: Some((numbers[2] % 300).into()),
            data: bytes,
            ..deflated(b"")
        };
        let ending = Ending {
            entries: Some((entries % 3).into()),
            length: (length % 2 == 0).then_some(length.into()),
            start: (start % 2 == 0).then_some((start % 600).into()),
            ..Ending::default()
        };
        let _ = read(&zip_with(&[part], &ending));
    }

    #[test]
    fn random_damage_makes_no_other_line(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..6),
    ) {
        let (mut file, lines) = good();
        for (at, byte, kind) in edits {
            let at = at.index(file.len());
            match kind {
                0 => file[at] = byte,
                1 => file.insert(at, byte),
                _ => drop(file.remove(at)),
            }
        }
        believed_lines_are_true(&file, &lines);
    }

    #[test]
    fn random_deflate_data_is_harmless(bytes in prop::collection::vec(any::<u8>(), 0..300), size in 0..2000_u64) {
        let part = Part { data: bytes.clone(), compressed: bytes.len() as u64, size, ..deflated(b"") };
        prop_assert!(read(&zip(&[part])).is_err() || size == 0);
        let gz = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..], &deflate(&bytes), &bytes].concat();
        let _ = read(&zip(&[Part::stored("indexes/a.cdx.gz", &gz)]));
    }
}
