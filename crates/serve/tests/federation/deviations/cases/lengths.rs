//! Cases of incorrect lengths and of different endings of records.

use super::records::{Case, Indexed, both, case};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for off in [-16, -4, -3, -2, -1, 1, 2, 3, 4] {
        let source = match off {
            -1 | 1 => "wget 1.19, reported to jwarc",
            2 | 4 => "line ends that count, reported to node-warc and archive-commons",
            _ => "records not followed by a line end, reported to warcio many times",
        };
        for (proof, fields, states) in [
            ("digests", both(), [true, true]),
            ("nothing", Vec::new(), [false, false]),
        ] {
            cases.push(Case {
                off,
                fields,
                states,
                ..case(format!("length off by {off}, proven by {proof}"), source)
            });
        }
    }
    for off in [-20, 200] {
        cases.push(Case {
            off,
            fields: both(),
            right: None,
            indexed: Some(Indexed::Unread),
            ..case(
                format!("length off by {off}"),
                "lengths of WARCreate and zimit, reported to both",
            )
        });
    }
    for (name, source, off, end) in [
        ("CR LF", "ArchiveSpark, reported to warcio", 0, &b"\r\n"[..]),
        (
            "CR LF that counts",
            "the WAT extractor, reported to archive-commons",
            2,
            b"\r\n",
        ),
        ("LF LF", "constructed: a script on Unix", 0, b"\n\n"),
        ("LF", "constructed: a script on Unix", 0, b"\n"),
        ("nothing", "constructed: a recorder that was killed", 0, b""),
        (
            "three line ends",
            "too many line ends, reported to node-warc",
            0,
            b"\r\n\r\n\r\n",
        ),
        (
            "four line ends",
            "constructed: as many as two records have",
            0,
            b"\r\n\r\n\r\n\r\n",
        ),
        ("zeros", "found in use: padding", 0, &[0; 32]),
        (
            "line ends and zeros",
            "found in use: padding",
            0,
            b"\r\n\r\n\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        ),
    ] {
        cases.push(Case {
            off,
            end,
            fields: both(),
            states: [true, true],
            ..case(format!("closed by {name}"), source)
        });
    }
    cases
}
