//! The zip format as far as WACZ files need it, read by people who did not write the file.
//!
//! [`Directory`] is what a zip file says about itself; nothing in it is believed before it has been held against
//! the rest. [`member`] gives a member's bytes and proves them. [`write`] makes zip files.

mod directory;
pub(super) mod member;
mod name;
mod number;
pub(super) mod record;
pub(super) mod write;

pub(super) use directory::{Directory, DirectoryEntry};
pub(super) use name::check as check_name;

use super::Problem;

/// A problem, and the member that has it.
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

/// Compression methods that WACZ files have.
pub(crate) const STORED: u16 = 0;
pub(super) const DEFLATED: u16 = 8;

/// Flags of a member.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
/// Its sizes and checksum come after its data.
const DESCRIPTOR: u16 = 1 << 3;
/// What stands in a field of 16 or 32 bits when the true value is elsewhere.
const IN_ZIP64_16: u16 = u16::MAX;
const IN_ZIP64_32: u32 = u32::MAX;
const ZIP64_EXTRA: u16 = 1;

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END64: u32 = 0x0606_4b50;
const END64_LOCATOR: u32 = 0x0706_4b50;
