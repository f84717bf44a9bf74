//! Tables of symbols, that is, of frequent parts of strings and their codes.
//!
//! Reading and writing are in one file because they must agree on every symbol.

use super::bits::{Bits, PEEK};
use super::prefix;
use super::runs::{self, Alphabet};
use super::sink::TextSink;

/// Maximum length of a symbol, in bytes.
pub const TEXT: usize = 15;
/// Maximum number of symbols in a table; a power of two.
pub const SYMBOLS: usize = 1 << 10;

/// A part of a string: literal bytes, a run of a given length, or the escape, which precedes a byte
/// that has no symbol. The last byte of this array tells which kind it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol([u8; TEXT + 1]);

/// The meaning of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning<'a> {
    Text(&'a [u8]),
    /// A run of this length. If the length is 0, the actual length follows the symbol.
    Run(Alphabet, usize),
    /// The escape: the byte itself follows the symbol.
    Escape,
}

/// Last byte of a symbol for a run: this value plus the number of the alphabet.
const RUN: u8 = 16;

/// Number of bits of the length of a run, if the length follows the symbol.
pub const RUN_BITS: u32 = 6;

impl Symbol {
    pub const ESCAPE: Symbol = Symbol([0; TEXT + 1]);

    /// Creates a symbol of 1 to [`TEXT`] bytes.
    pub fn text(text: &[u8]) -> Symbol {
        let mut symbol = [0; TEXT + 1];
        symbol[..text.len()].copy_from_slice(text);
        symbol[TEXT] = text.len() as u8;
        Symbol(symbol)
    }

    pub fn run(alphabet: Alphabet, len: usize) -> Symbol {
        let mut symbol = [0; TEXT + 1];
        symbol[0] = len as u8;
        symbol[TEXT] = RUN + alphabet as u8;
        Symbol(symbol)
    }

    pub fn meaning(&self) -> Meaning<'_> {
        match self.0[TEXT] {
            0 => Meaning::Escape,
            len @ 1..RUN => Meaning::Text(&self.0[..usize::from(len)]),
            run => {
                let alphabet = Alphabet::ALL[usize::from(run - RUN) % Alphabet::ALL.len()];
                Meaning::Run(alphabet, usize::from(self.0[0]))
            }
        }
    }

    /// Returns the symbol as a number: the first byte of the string is the lowest byte, and the
    /// length is the highest.
    pub fn bits(&self) -> u128 {
        u128::from_le_bytes(self.0)
    }
}

/// Maximum class of a number.
pub const MAX_CLASS: u8 = 48;

/// Codes for classes of numbers. The class of a number is its length in bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    /// Classes and the lengths of their codes, in ascending order of classes; the last class is
    /// [`OTHER`].
    lengths: Vec<(u8, u8)>,
    /// Class and code length for every value of the next [`CLASS_BITS`] bits.
    index: Box<[(u8, u8); 1 << CLASS_BITS]>,
    /// Code and code length of each class; length 0 for classes without a code.
    codes: Vec<(u8, u8)>,
}

/// Maximum code length of a class, in bits.
const CLASS_BITS: u32 = 8;
/// Code entry for all classes without a code of their own. The class follows the code in seven
/// bits.
const OTHER: u8 = 127;

impl Classes {
    /// Creates codes for classes below [`OTHER`] with these counts.
    pub fn new(counts: &[u32]) -> Classes {
        let used = (0u8..).zip(counts).filter(|&(_, &count)| count > 0);
        let (mut classes, mut counts): (Vec<u8>, Vec<u32>) = used.unzip();
        classes.push(OTHER);
        counts.push(1);
        if classes.len() == 1 {
            classes.insert(0, 0);
            counts.push(1);
        }
        let lengths = prefix::lengths(&counts, CLASS_BITS);
        Classes::with(classes.into_iter().zip(lengths).collect())
    }

    fn with(lengths: Vec<(u8, u8)>) -> Classes {
        let bits: Vec<u8> = lengths.iter().map(|&(_, length)| length).collect();
        let mut index = Box::new([(0, 0); 1 << CLASS_BITS]);
        let mut codes = vec![(0, 0); usize::from(OTHER) + 1];
        for (&(class, length), code) in lengths.iter().zip(prefix::codes(&bits)) {
            codes[usize::from(class)] = (code as u8, length);
            for at in (usize::from(code)..index.len()).step_by(1 << length) {
                index[at] = (class, length);
            }
        }
        Classes {
            lengths,
            index,
            codes,
        }
    }

    /// Reads a number: its class, followed by all of its bits except the highest.
    #[inline]
    pub fn read(&self, bits: &mut Bits<'_>) -> Option<u64> {
        let (class, length, word) = self.next(bits.peek());
        let rest = u32::from(class.saturating_sub(1));
        let highest = u64::from(class > 0);
        if length + rest <= PEEK {
            let number = highest << rest | word & ((1 << rest) - 1);
            return bits.skip(length + rest).then_some(number);
        }
        if class > MAX_CLASS || !bits.skip(length) {
            return None;
        }
        Some(highest << rest | bits.take(rest)?)
    }

    /// Reads a class that is itself the value, instead of the length of a number that follows.
    #[inline]
    pub fn read_class(&self, bits: &mut Bits<'_>) -> Option<u8> {
        let (class, length, _) = self.next(bits.peek());
        bits.skip(length).then_some(class)
    }

    /// Returns the class at the beginning of `word`, the length of its code, and the bits after the
    /// code.
    #[inline]
    fn next(&self, word: u64) -> (u8, u32, u64) {
        let (class, length) = self.index[word as usize % (1 << CLASS_BITS)];
        let (length, word) = (u32::from(length), word >> length);
        if class == OTHER {
            return (word as u8 & OTHER, length + 7, word >> 7);
        }
        (class, length, word)
    }

    /// Returns the code of a class, and its length of at most 15 bits.
    #[inline]
    pub fn code(&self, class: u8) -> (u32, u32) {
        let (code, length) = self.codes[usize::from(class)];
        if length > 0 && class != OTHER {
            return (code.into(), length.into());
        }
        let (code, length) = self.codes[usize::from(OTHER)];
        let code = u32::from(code) | u32::from(class) << length;
        (code, u32::from(length) + 7)
    }

    fn save(&self, out: &mut Vec<u8>) {
        out.push(self.lengths.len() as u8);
        for &(class, length) in &self.lengths {
            out.extend_from_slice(&[class, length]);
        }
    }

    fn load(bytes: &mut &[u8]) -> Option<Classes> {
        let count = usize::from(*bytes.split_off_first()?);
        let list = bytes.split_off(..2 * count)?;
        let lengths: Vec<(u8, u8)> = list.chunks_exact(2).map(|of| (of[0], of[1])).collect();
        let bits: Vec<u8> = lengths.iter().map(|&(_, length)| length).collect();
        let is_sound = lengths.is_sorted_by(|a, b| a.0 < b.0)
            && lengths.last().is_some_and(|last| last.0 == OTHER)
            && prefix::is_complete(&bits, CLASS_BITS);
        is_sound.then(|| Classes::with(lengths))
    }

    fn memory(&self) -> usize {
        self.lengths.capacity() * 2 + self.codes.capacity() * 2 + (2 << CLASS_BITS)
    }
}

/// The numeric fields of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// The date format and the WACZ index.
    Head,
    Date,
    Size,
    Host,
}

/// Number of variants of [`Number`].
pub const NUMBERS: usize = 4;

/// Symbols and classes with their codes.
#[derive(Clone)]
pub struct Table {
    symbols: Vec<Symbol>,
    /// Code lengths of the symbols. The last symbol is the escape. No symbol has a longer code than
    /// the escape, so the code of the escape consists of ones. The bits that fill the last byte of
    /// a record are ones, too.
    lengths: Vec<u8>,
    /// Symbol for every value of the next [`prefix::MAX_BITS`] bits. The lowest four bits contain
    /// the code length.
    index: Box<[u16; 1 << prefix::MAX_BITS]>,
    classes: [Classes; NUMBERS],
}

impl Table {
    /// Creates a table of symbols with these counts. Adds the escape and the symbols for runs of
    /// any length, which `symbols` must not contain.
    pub fn new(symbols: &[(Symbol, u32)], classes: [Classes; NUMBERS]) -> Table {
        let runs = Alphabet::ALL.map(|alphabet| (Symbol::run(alphabet, 0), 1));
        let kept = symbols.len().min(SYMBOLS - runs.len() - 1);
        let all = || symbols[..kept].iter().chain(&runs);
        // Double the counts, so that the escape is rarer than every other symbol.
        let mut counts: Vec<u32> = all().map(|s| s.1.max(1).saturating_mul(2)).collect();
        let mut symbols: Vec<Symbol> = all().map(|s| s.0).collect();
        symbols.push(Symbol::ESCAPE);
        counts.push(1);
        let mut lengths = prefix::lengths(&counts, prefix::MAX_BITS);
        let escape = lengths.len() - 1;
        if let Some(longest) = (0..escape).max_by_key(|&at| lengths[at])
            && lengths[longest] > lengths[escape]
        {
            lengths.swap(longest, escape);
        }
        Table::with(symbols, lengths, classes)
    }

    fn with(symbols: Vec<Symbol>, lengths: Vec<u8>, classes: [Classes; NUMBERS]) -> Table {
        let mut index = Box::new([0; 1 << prefix::MAX_BITS]);
        let codes = prefix::codes(&lengths);
        for (symbol, (&code, &length)) in codes.iter().zip(&lengths).enumerate() {
            for at in (usize::from(code)..index.len()).step_by(1 << length) {
                index[at] = (symbol as u16) << 4 | u16::from(length);
            }
        }
        Table {
            symbols,
            lengths,
            index,
            classes,
        }
    }

    #[inline]
    pub fn classes(&self, of: Number) -> &Classes {
        &self.classes[of as usize]
    }

    /// Returns the symbols, their codes and the lengths of the codes in bits.
    pub fn codes(&self) -> impl Iterator<Item = (&Symbol, u16, u8)> {
        let codes = prefix::codes(&self.lengths);
        let symbols = self.symbols.iter().zip(&self.lengths);
        symbols
            .zip(codes)
            .map(|((symbol, &length), code)| (symbol, code, length))
    }

    /// Decodes the remaining bits and appends the string. Returns `None` if the bits are invalid.
    pub fn decode(&self, bits: &mut Bits<'_>, text: &mut impl TextSink) -> Option<()> {
        loop {
            let mut word = bits.peek();
            // Decode as many symbols as one word is guaranteed to contain.
            for _ in 0..PEEK / prefix::MAX_BITS {
                let entry = self.index[word as usize % self.index.len()];
                let length = u32::from(entry & 15);
                let symbol = &self.symbols[usize::from(entry >> 4)];
                if !bits.skip(length) {
                    return (bits.left() < 8).then_some(());
                }
                word >>= length;
                let len = symbol.0[TEXT];
                if (1..RUN).contains(&len) {
                    text.push_some(&symbol.0, len.into())?;
                    continue;
                }
                if len == 0 {
                    if bits.left() < 8 {
                        return Some(());
                    }
                    text.push(&[bits.take(8)? as u8])?;
                } else if let Meaning::Run(alphabet, len) = symbol.meaning() {
                    let len = match len {
                        0 => bits.take(RUN_BITS)? as usize,
                        len => len,
                    };
                    text.push_run(alphabet, len, bits)?;
                }
                break;
            }
        }
    }

    /// Serializes the table.
    pub fn save(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for classes in &self.classes {
            classes.save(&mut out);
        }
        for (symbol, &length) in self.symbols.iter().zip(&self.lengths) {
            out.push(length);
            match symbol.meaning() {
                Meaning::Escape => out.push(0),
                Meaning::Text(text) => {
                    out.push(text.len() as u8);
                    out.extend_from_slice(text);
                }
                Meaning::Run(alphabet, len) => {
                    out.extend_from_slice(&[RUN + alphabet as u8, len as u8]);
                }
            }
        }
        out
    }

    /// Parses a saved table. Returns `None` if it is invalid.
    pub fn load(mut bytes: &[u8]) -> Option<Table> {
        let bytes = &mut bytes;
        let classes = [(); NUMBERS].map(|()| Classes::load(bytes));
        let [Some(head), Some(date), Some(size), Some(host)] = classes else {
            return None;
        };
        let (mut symbols, mut lengths) = (Vec::new(), Vec::new());
        while !bytes.is_empty() && symbols.len() < SYMBOLS {
            lengths.push(*bytes.split_off_first()?);
            symbols.push(match *bytes.split_off_first()? {
                0 => Symbol::ESCAPE,
                len @ 1..RUN => Symbol::text(bytes.split_off(..usize::from(len))?),
                run => {
                    let alphabet = *Alphabet::ALL.get(usize::from(run - RUN))?;
                    let len = usize::from(*bytes.split_off_first()?);
                    (len <= runs::MAX_BYTES).then(|| Symbol::run(alphabet, len))?
                }
            });
        }
        let any_run = Alphabet::ALL.map(|alphabet| Symbol::run(alphabet, 0));
        let mut sorted = symbols.clone();
        sorted.sort_unstable();
        let is_sound = bytes.is_empty()
            && prefix::is_complete(&lengths, prefix::MAX_BITS)
            && symbols.last() == Some(&Symbol::ESCAPE)
            && lengths.last() == lengths.iter().max()
            && sorted.windows(2).all(|pair| pair[0] != pair[1])
            && any_run.iter().all(|run| symbols.contains(run));
        is_sound.then(|| Table::with(symbols, lengths, [head, date, size, host]))
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        size_of::<Table>()
            + self.symbols.capacity() * size_of::<Symbol>()
            + self.lengths.capacity()
            + size_of_val(&*self.index)
            + self.classes.iter().map(Classes::memory).sum::<usize>()
    }
}
