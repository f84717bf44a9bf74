//! Names of the keys that a packed frontier implements.

use crawlspace_host::names::join;
use smallvec::SmallVec;

use super::super::keys::{GATE, GATED, GROUP, OF, SEQUENCE, URIS};

/// The part of a packed frontier to which a key name refers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `chg_wait`.
    Wait,
    /// `chg_busy`.
    Busy,
    /// `chg_ready`.
    Ready,
    /// `EIDC`.
    Executions,
    /// `QCT`.
    Total,
    /// `chg_idle`.
    Idle,
    /// The hash of a group.
    Group,
    /// The URIs kept for a group.
    Uris,
    /// The groups that have URIs of an execution.
    Of,
    /// A part that is small or rarely used, and is stored in the form of the plain key.
    Other,
    /// A field of a hash instead of a key.
    Field,
}

/// The name of a key.
#[derive(Debug)]
pub struct Name {
    bytes: SmallVec<[u8; 64]>,
    /// Offset of the name after the prefix.
    prefix: u16,
    /// Offset of the id of a group, gate or execution.
    id: u16,
    pub(super) part: Part,
}

impl Clone for Name {
    fn clone(&self) -> Name {
        Name {
            // Copy all bytes at once, because `clone` of a small vector would copy them one by one.
            bytes: SmallVec::from_slice(&self.bytes),
            ..*self
        }
    }
}

impl Name {
    /// Creates the name of a key from its prefix, its kind and an id, or the name of a field from other parts.
    pub fn new(parts: &[&[u8]]) -> Name {
        let (prefix, part) = match parts {
            [prefix, name] => (prefix.len(), once(name)),
            [prefix, before, _] => (prefix.len(), each(before)),
            _ => (0, Part::Field),
        };
        let id = match parts {
            [prefix, before, _] => prefix.len() + before.len(),
            _ => 0,
        };
        Name {
            bytes: join(parts),
            prefix: prefix as u16,
            id: id as u16,
            part,
        }
    }

    /// Returns true if plain clients know the key. A marker then takes its place.
    pub fn has_marker(&self) -> bool {
        use Part::{Busy, Executions, Ready, Total, Wait};
        matches!(self.part, Wait | Busy | Ready | Executions | Total)
    }

    /// Returns the id of a group, gate or execution.
    pub(super) fn id(&self) -> &[u8] {
        &self.bytes[usize::from(self.id)..]
    }

    /// Returns the name after the prefix.
    pub(super) fn own(&self) -> &[u8] {
        &self.bytes[usize::from(self.prefix)..]
    }
}

impl AsRef<[u8]> for Name {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn once(name: &[u8]) -> Part {
    match name {
        b"chg_wait" => Part::Wait,
        b"chg_busy" => Part::Busy,
        b"chg_ready" => Part::Ready,
        b"EIDC" => Part::Executions,
        b"QCT" => Part::Total,
        b"chg_idle" => Part::Idle,
        _ => Part::Other,
    }
}

fn each(before: &[u8]) -> Part {
    match before {
        _ if before == GROUP.before => Part::Group,
        _ if before == URIS.before => Part::Uris,
        _ if before == OF.before => Part::Of,
        _ => {
            debug_assert!(
                [GATE, GATED, SEQUENCE]
                    .iter()
                    .any(|each| each.before == before)
            );
            Part::Other
        }
    }
}
