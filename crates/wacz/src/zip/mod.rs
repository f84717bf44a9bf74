//! The subset of the zip format that WACZ files need. The files are untrusted.
//!
//! [`Directory`] is the directory of a zip file, which is checked against the rest of the file. [`member`] reads the
//! content of a member and verifies it. [`write`] writes zip files.

mod directory;
pub(super) mod member;
mod name;
mod number;
pub(super) mod record;
pub(super) mod write;

pub(super) use directory::{Directory, DirectoryEntry};
pub(super) use name::check as check_name;

use super::Problem;

/// A problem, and the affected member.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) member: Option<String>,
    pub(super) problem: Problem,
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Fault {
        Fault {
            member: None,
            problem,
        }
    }
}

impl Fault {
    fn of(member: &str, problem: Problem) -> Fault {
        Fault {
            member: Some(member.to_owned()),
            problem,
        }
    }
}

/// Compression methods that WACZ files may use.
pub(crate) const STORED: u16 = 0;
pub(super) const DEFLATED: u16 = 8;

/// Flags of a member.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
/// The sizes and the checksum follow the data.
const DESCRIPTOR: u16 = 1 << 3;
/// Placeholders in 16-bit and 32-bit fields whose actual value is in a zip64 field.
const IN_ZIP64_16: u16 = u16::MAX;
const IN_ZIP64_32: u32 = u32::MAX;
const ZIP64_EXTRA: u16 = 1;

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END64: u32 = 0x0606_4b50;
const END64_LOCATOR: u32 = 0x0706_4b50;
