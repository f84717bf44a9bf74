//! Takes texts apart into the symbols of a table.

use super::bits::Writer;
use super::prefix;
use super::runs::{self, Alphabet, Run};
use super::table::{Meaning, Symbol, Table, RUN_BITS, TEXT};

/// Zeros that must follow a text.
pub const PADDING: usize = 16;

/// Finds symbols in texts. It is large, so there are only few at a time.
pub struct Matcher {
    /// By the hash of three bytes, lengths of symbols that begin with them, as bits; by the hash of two
    /// bytes, whether they are a symbol.
    lengths: Box<[u16; 1 << START_BITS]>,
    /// By the hash of a text: other bits of that hash, and the number of a symbol plus one.
    slots: Vec<(u16, u16)>,
    texts: Vec<u128>,
    /// Numbers of symbols of one byte, plus one.
    bytes: [u16; 256],
    /// Numbers of those of runs.
    runs: [[u16; runs::LONGEST + 1]; Alphabet::ALL.len()],
    escape: u16,
    /// Code and its length by number.
    codes: Vec<(u16, u8)>,
}

const START_BITS: u32 = 12;
/// The length two as a bit.
const PAIR: u16 = 1 << 2;

/// A part of a text.
#[derive(Clone, Copy, Debug)]
pub enum Token {
    /// A symbol of that number.
    Text(u16),
    /// A run, by the symbol of that number. It says the length unless the flag is set.
    Run(u16, Run, bool),
    /// A byte that has no symbol.
    Escape(u8),
}

/// A hash of the first bytes of a text: of two or three.
fn start(text: u128, bytes: u32) -> usize {
    let start = (text as u32) << (32 - 8 * bytes);
    (start.wrapping_mul(0x9e37_79b1) >> (32 - START_BITS)) as usize
}

fn hash(text: u128) -> u64 {
    let (low, high) = (text as u64, (text >> 64) as u64);
    let mixed = low.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ high.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 32)
}

impl Matcher {
    pub fn new(table: &Table) -> Matcher {
        let symbols: Vec<Symbol> = table.codes().map(|(symbol, ..)| *symbol).collect();
        let codes = table.codes().map(|(_, code, length)| (code, length));
        Matcher::of(&symbols, codes.collect())
    }

    /// Of symbols without codes: for counting.
    pub fn of(symbols: &[Symbol], codes: Vec<(u16, u8)>) -> Matcher {
        let slots = (symbols.len() * 3).next_power_of_two();
        let mut matcher = Matcher {
            lengths: Box::new([0; 1 << START_BITS]),
            slots: vec![(0, 0); slots],
            texts: vec![0; symbols.len()],
            bytes: [0; 256],
            runs: [[0; runs::LONGEST + 1]; Alphabet::ALL.len()],
            escape: 0,
            codes,
        };
        for (number, symbol) in (0u16..).zip(symbols) {
            match symbol.meaning() {
                Meaning::Escape => matcher.escape = number,
                Meaning::Run(alphabet, len) => matcher.runs[alphabet as usize][len] = number,
                Meaning::Text(&[byte]) => matcher.bytes[usize::from(byte)] = number + 1,
                Meaning::Text(text) => matcher.add(number, symbol.bits(), text.len()),
            }
        }
        matcher
    }

    fn add(&mut self, number: u16, text: u128, len: usize) {
        let bytes = len.min(3) as u32;
        self.lengths[start(text, bytes)] |= 1 << len;
        self.texts[usize::from(number)] = text;
        let hash = hash(text);
        let mut at = self.home(hash);
        while self.slots[at].1 != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = (tag(hash), number + 1);
    }

    fn home(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    fn find(&self, text: u128) -> Option<u16> {
        let hash = hash(text);
        let mut at = self.home(hash);
        loop {
            let (tag_there, number) = self.slots[at];
            if number == 0 {
                return None;
            }
            if tag_there == tag(hash) && self.texts[usize::from(number) - 1] == text {
                return Some(number - 1);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// The parts of a text, which is what is in front of the padding.
    pub fn tokens(&self, padded: &[u8], mut each: impl FnMut(Token)) {
        let text = &padded[..padded.len() - PADDING];
        let mut at = 0;
        while at < text.len() {
            let run = runs::next(text, at);
            let end = run.map_or(text.len(), |run| run.start);
            while at < end {
                at += self.token(padded, at, end - at, &mut each);
            }
            let Some(run) = run else {
                return;
            };
            // A symbol that has all of it is better still.
            let len = run.end - run.start;
            let longer = self.longest(padded, at, text.len() - at);
            if let Some((number, longer)) = longer.filter(|&(_, longer)| longer >= len) {
                each(Token::Text(number));
                at += longer;
                continue;
            }
            let of_alphabet = &self.runs[run.alphabet as usize];
            match of_alphabet[len] {
                0 => each(Token::Run(of_alphabet[0], run, true)),
                number => each(Token::Run(number, run, false)),
            }
            at = run.end;
        }
    }

    /// Bytes of the one that comes next.
    fn token(&self, padded: &[u8], at: usize, most: usize, each: &mut impl FnMut(Token)) -> usize {
        if let Some((number, len)) = self.longest(padded, at, most) {
            each(Token::Text(number));
            return len;
        }
        let byte = padded[at];
        match self.bytes[usize::from(byte)] {
            0 => each(Token::Escape(byte)),
            number => each(Token::Text(number - 1)),
        }
        1
    }

    /// The longest symbol of two bytes or more, and its length.
    fn longest(&self, padded: &[u8], at: usize, most: usize) -> Option<(u16, usize)> {
        let text = padded[at..at + PADDING].try_into().expect("padding");
        let text = u128::from_le_bytes(text);
        let mut lengths = self.lengths[start(text, 3)] & !(2 * PAIR - 1);
        lengths |= self.lengths[start(text, 2)] & PAIR;
        if most < TEXT {
            lengths &= (2 << most) - 1;
        }
        while lengths != 0 {
            let len = lengths.ilog2();
            let part = text & ((1 << (8 * len)) - 1);
            let found = self.find(part | u128::from(len) << (8 * TEXT));
            if let Some(number) = found {
                return Some((number, len as usize));
            }
            lengths ^= 1 << len;
        }
        None
    }

    /// Writes the symbols of a text, which is what is in front of the padding.
    pub fn encode(&self, padded: &[u8], out: &mut Writer<'_>) {
        self.tokens(padded, |token| {
            let number = match token {
                Token::Text(number) | Token::Run(number, ..) => number,
                Token::Escape(_) => self.escape,
            };
            let (code, length) = self.codes[usize::from(number)];
            out.put(code.into(), length.into());
            match token {
                Token::Text(..) => {}
                Token::Escape(byte) => out.put(byte.into(), 8),
                Token::Run(_, run, is_any) => {
                    let text = &padded[run.start..run.end];
                    if is_any {
                        out.put(text.len() as u32, RUN_BITS);
                    }
                    run.alphabet.write(text, out);
                }
            }
        });
    }

    /// Bits that a text takes.
    pub fn bits(&self, padded: &[u8]) -> u32 {
        let mut bits = 0;
        self.tokens(padded, |token| {
            let (number, more) = match token {
                Token::Text(number) => (number, 0),
                Token::Escape(_) => (self.escape, 8),
                Token::Run(number, run, is_any) => {
                    let more = run.alphabet.bits(run.end - run.start);
                    (number, more + if is_any { RUN_BITS } else { 0 })
                }
            };
            bits += more + u32::from(self.codes[usize::from(number)].1);
        });
        bits
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        size_of::<Matcher>()
            + size_of_val(&*self.lengths)
            + self.slots.capacity() * size_of::<(u16, u16)>()
            + self.texts.capacity() * size_of::<u128>()
            + self.codes.capacity() * size_of::<(u16, u8)>()
    }
}

fn tag(hash: u64) -> u16 {
    (hash >> 48) as u16
}

/// Longest code of a symbol, with what follows it, fits what a writer takes at once.
const _: () = assert!(prefix::LONGEST + RUN_BITS <= 32);
