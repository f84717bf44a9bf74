//! Cluster slots of keys.

use redis::{Arg, Cmd};

pub(crate) use crawlspace_compact::limits::every::SLOTS;

/// Returns the slot of a key: the slot of its hash tag, if it has one.
pub(crate) fn of(key: &[u8]) -> u16 {
    crc16(hash_tag(key).unwrap_or(key)) % SLOTS
}

/// Returns the text between the first `{` and the next `}`, if it is not empty.
fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')? + 1;
    let length = key[open..].iter().position(|&byte| byte == b'}')?;
    (length > 0).then(|| &key[open..open + length])
}

/// Returns the slot of the first key of a command. All commands of the module have a key or a prefix as their
/// first argument.
pub(super) fn of_command(command: &Cmd) -> Option<u16> {
    let mut words = command.args_iter().map(|word| match word {
        Arg::Simple(word) => word,
        _ => b"0",
    });
    let name = words.next()?.to_ascii_uppercase();
    let first = words.next()?;
    let key = match &name[..] {
        // The arguments of a script are the script, the number of its keys, and the keys.
        b"EVAL" | b"EVALSHA" | b"EVAL_RO" | b"EVALSHA_RO" | b"FCALL" | b"FCALL_RO" => {
            match words.next()? {
                b"0" => return None,
                _ => words.next()?,
            }
        }
        _ => first,
    };
    Some(of(key))
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        crc << 8 ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)]
    })
}

/// Lookup table of CRC-16/XMODEM, one entry per byte value.
const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                crc << 1 ^ 0x1021
            };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_match_the_specification() {
        // The check value of CRC-16/XMODEM for the string `123456789`.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        // Expected values from `CLUSTER KEYSLOT`.
        assert_eq!(of(b""), 0);
        assert_eq!(of(b"foo"), 12182);
        assert_eq!(of(b"somekey"), 11058);
        assert_eq!(of(b"foo{hash_tag}"), 2515);
    }

    #[test]
    fn only_the_first_hash_tag_counts_unless_it_is_empty() {
        assert_eq!(of(b"{user1000}.following"), of(b"user1000"));
        assert_eq!(of(b"foo{bar}{zap}"), of(b"bar"));
        assert_eq!(of(b"foo{{bar}}zap"), of(b"{bar"));
        assert_eq!(hash_tag(b"foo{}{bar}"), None);
        assert_eq!(hash_tag(b"foo{bar"), None);
    }

    #[test]
    fn slot_of_a_script_is_that_of_its_first_key() {
        let mut eval = redis::cmd("eval");
        eval.arg("return 1").arg(2).arg("a").arg("b").arg("c");
        assert_eq!(of_command(&eval), Some(of(b"a")));
        let mut eval = redis::cmd("EVAL");
        eval.arg("return 1").arg(0);
        assert_eq!(of_command(&eval), None);
        assert_eq!(of_command(redis::cmd("GET").arg("a")), Some(of(b"a")));
        assert_eq!(of_command(&redis::cmd("PING")), None);
    }
}
