//! Mutates samples.

use std::io::{Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::rng::Rng;

/// Maximum length of an input, in bytes.
const MAX_BYTES: usize = 256 << 10;

/// Byte strings that often break parsers.
const WORDS: [&[u8]; 34] = rows![
    b""; b" "; b"  "; b"\t"; b"\n"; b"\r\n"; b"\r\n\r\n"; b"\0"; b"\xff"; b"\xc3\x28"; b"\xef\xbb\xbf"; b"{";
    b"}"; b"\""; b"\\"; b"\\u"; b"\\ud800"; b"<"; b">"; b";"; b","; b":"; b"="; b"&"; b"%"; b"%zz"; b"..";
    b"/"; b"*"; b"null"; b"[[[[[[[["; b"{\"a\":{\"a\":{\"a\":"; b"\x1f\x8b\x08\0"; b"e\xcc\x81";
];

const NUMBERS: [&str; 18] = rows![
    "0"; "-1"; "1"; "255"; "256"; "65535"; "65536"; "2147483647"; "2147483648"; "4294967295"; "4294967296";
    "9223372036854775807"; "9223372036854775808"; "18446744073709551615"; "18446744073709551616"; "1e999";
    "00000000000000001"; "NaN";
];

/// Mutates samples. The same seed results in the same mutations.
pub struct Mutator<'a> {
    rng: Rng,
    words: &'a [&'a str],
}

impl<'a> Mutator<'a> {
    /// Creates a mutator with words that the target understands.
    pub fn new(seed: u64, words: &'a [&'a str]) -> Mutator<'a> {
        let mut rng = Rng::seeded(seed);
        // Consecutive seeds have similar first values, so skip one.
        rng.bits();
        Mutator { rng, words }
    }

    /// Returns one of the samples with one or a few changes. Usually decompresses gzip data before
    /// the change and compresses them again, because their checksum would reveal any change to the
    /// compressed bytes.
    pub fn mutate(&mut self, samples: &[Vec<u8>]) -> Vec<u8> {
        let mut input = self.rng.pick(samples).clone();
        let mut plain = Vec::new();
        let is_gzip = input.starts_with(b"\x1f\x8b")
            && self.rng.chance(60)
            && MultiGzDecoder::new(&input[..])
                .take(MAX_BYTES as u64)
                .read_to_end(&mut plain)
                .is_ok();
        if is_gzip {
            input = plain;
        }
        let times = 1 + self.rng.below(4) * self.rng.below(3);
        for _ in 0..times {
            self.change(&mut input, samples);
        }
        input.truncate(MAX_BYTES);
        if is_gzip {
            let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::fast());
            let written = packed.write_all(&input).and_then(|()| packed.finish());
            written.expect("writing to memory cannot fail")
        } else {
            input
        }
    }

    fn at(&mut self, length: usize) -> usize {
        self.rng.below(length as u64 + 1) as usize
    }

    /// Returns a range of at most `most` bytes.
    fn part(&mut self, length: usize, most: usize) -> std::ops::Range<usize> {
        let from = self.at(length);
        let more = self.rng.below((length - from).min(most) as u64 + 1) as usize;
        from..from + more
    }

    fn change(&mut self, input: &mut Vec<u8>, samples: &[Vec<u8>]) {
        match self.rng.below(12) {
            0 if !input.is_empty() => {
                let at = self.at(input.len() - 1);
                input[at] ^= 1 << self.rng.below(8);
            }
            1 if !input.is_empty() => {
                let at = self.at(input.len() - 1);
                input[at] = self.rng.bits() as u8;
            }
            2 => {
                let part = self.part(input.len(), 64);
                input.drain(part);
            }
            3 => {
                let at = self.at(input.len());
                input.truncate(at);
            }
            4 => {
                let part = self.part(input.len(), 200);
                let copy = input[part].to_vec();
                let power = self.rng.below(10);
                let times = 1 + self.rng.below(1 << power) as usize;
                let at = self.at(input.len());
                let times = times.min(MAX_BYTES / copy.len().max(1));
                input.splice(at..at, copy.repeat(times));
            }
            5 => {
                let other = self.rng.pick(samples).clone();
                let part = self.part(other.len(), 400);
                let at = self.part(input.len(), 100);
                input.splice(at, other[part].iter().copied());
            }
            6 | 7 => self.number(input),
            8 | 9 if !self.words.is_empty() => {
                let word = self.rng.pick(self.words).as_bytes().to_vec();
                let at = self.part(input.len(), 12);
                input.splice(at, word);
            }
            10 => self.line(input),
            _ => {
                let word = self.rng.pick(&WORDS).to_vec();
                let at = self.part(input.len(), 3);
                input.splice(at, word);
            }
        }
    }

    /// Replaces a number with another number.
    fn number(&mut self, input: &mut Vec<u8>) {
        let from = self.at(input.len());
        let Some(begin) = input[from..].iter().position(u8::is_ascii_digit) else {
            return;
        };
        let begin = from + begin;
        let digits = input[begin..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let number = if self.rng.chance(70) {
            (*self.rng.pick(&NUMBERS)).to_owned()
        } else {
            let power = self.rng.below(40);
            self.rng.below(1 << power).to_string()
        };
        input.splice(begin..begin + digits, number.into_bytes());
    }

    /// Moves, removes or duplicates a line.
    fn line(&mut self, input: &mut Vec<u8>) {
        let mut lines: Vec<Vec<u8>> = input
            .split_inclusive(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect();
        if lines.is_empty() {
            return;
        }
        let [a, b] = [0, 1].map(|_| self.rng.below(lines.len() as u64) as usize);
        match self.rng.below(3) {
            0 => lines.swap(a, b),
            1 => _ = lines.remove(a),
            _ => lines.insert(b, lines[a].clone()),
        }
        *input = lines.concat();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_change() {
        let samples = [b"one 1\ntwo 2\n".to_vec(), b"three\n".to_vec()];
        let mutate = |seed| Mutator::new(seed, &["word"]).mutate(&samples);
        let mut changed = 0;
        for seed in 0..500 {
            assert_eq!(mutate(seed), mutate(seed));
            changed += usize::from(!samples.contains(&mutate(seed)));
        }
        assert!(changed > 400, "{changed}");
    }
}
