//! Splits strings into the symbols of a table.

use super::bits::Writer;
use super::prefix;
use super::runs::{self, Alphabet, Run, Runs};
use super::table::{Meaning, RUN_BITS, Symbol, TEXT, Table};

/// Number of zero bytes that must follow a string.
pub const PADDING: usize = 16;

/// Finds symbols in strings. A matcher takes much memory, so only a few exist at a time.
pub struct Matcher {
    /// Maps a hash of the first bytes of a symbol (three bytes, or two for a symbol of two bytes)
    /// to the position in `texts` of the first symbol with this hash, and the number of such
    /// symbols.
    starts: Box<[(u16, u16); 1 << START_BITS]>,
    /// All symbols of two bytes or more, and their numbers. Among symbols with the same first bytes, the
    /// longest come first.
    texts: Vec<(u128, u16)>,
    /// Number of the one-byte symbol for each byte, plus one; 0 if there is none.
    bytes: [u16; 256],
    /// Numbers of the symbols for runs.
    runs: [[u16; runs::MAX_BYTES + 1]; Alphabet::ALL.len()],
    escape: u16,
    /// Code and code length by symbol number.
    codes: Vec<(u16, u8)>,
}

const START_BITS: u32 = 12;

/// A part of a string.
#[derive(Clone, Copy, Debug)]
pub enum Token {
    /// The symbol with this number.
    Text(u16),
    /// A run, and the number of its symbol. The flag is true if the length of the run must follow
    /// the symbol.
    Run(u16, Run, bool),
    /// A byte that has no symbol.
    Escape(u8),
}

/// Returns a hash of the first two or three bytes of a string.
fn start(text: u128, bytes: u32) -> usize {
    let start = (text as u32) << (32 - 8 * bytes);
    (start.wrapping_mul(0x9e37_79b1) >> (32 - START_BITS)) as usize
}

/// Returns the length of a symbol in bytes.
fn len(text: u128) -> u32 {
    (text >> (8 * TEXT)) as u32
}

/// Masks of the first bytes of a string, by their number.
const PREFIXES: [u128; TEXT + 1] = {
    let mut prefixes = [0; TEXT + 1];
    let mut len = 1;
    while len <= TEXT {
        prefixes[len] = prefixes[len - 1] << 8 | 0xff;
        len += 1;
    }
    prefixes
};

impl Matcher {
    pub fn new(table: &Table) -> Matcher {
        let symbols: Vec<Symbol> = table.codes().map(|(symbol, ..)| *symbol).collect();
        let codes = table.codes().map(|(_, code, length)| (code, length));
        Matcher::of(&symbols, codes.collect())
    }

    /// Creates a matcher of symbols. A matcher without codes can only count symbols.
    pub fn of(symbols: &[Symbol], codes: Vec<(u16, u8)>) -> Matcher {
        let mut matcher = Matcher {
            starts: Box::new([(0, 0); 1 << START_BITS]),
            texts: Vec::new(),
            bytes: [0; 256],
            runs: [[0; runs::MAX_BYTES + 1]; Alphabet::ALL.len()],
            escape: 0,
            codes,
        };
        let mut longer = Vec::with_capacity(symbols.len());
        for (number, symbol) in (0u16..).zip(symbols) {
            match symbol.meaning() {
                Meaning::Escape => matcher.escape = number,
                Meaning::Run(alphabet, len) => matcher.runs[alphabet as usize][len] = number,
                Meaning::Text(&[byte]) => matcher.bytes[usize::from(byte)] = number + 1,
                Meaning::Text(text) => {
                    let start = start(symbol.bits(), text.len().min(3) as u32);
                    longer.push((start, std::cmp::Reverse(symbol.bits()), number));
                }
            }
        }
        // The highest bits of a symbol contain its length.
        longer.sort_unstable();
        for &(start, text, number) in &longer {
            let start = &mut matcher.starts[start];
            if start.1 == 0 {
                start.0 = matcher.texts.len() as u16;
            }
            start.1 += 1;
            matcher.texts.push((text.0, number));
        }
        matcher
    }

    /// Splits a string, without its padding, into tokens.
    #[inline]
    pub fn tokens(&self, padded: &[u8], mut each: impl FnMut(Token)) {
        let text = &padded[..padded.len() - PADDING];
        let mut runs = Runs::new(text);
        let mut next_run = |at| runs.next(at).unwrap_or(Run::empty(text.len()));
        let mut run = next_run(0);
        let mut at = 0;
        // There is only one call of `each`, so that the compiler inlines it.
        while at < text.len() {
            let is_run = at == run.start;
            let end = if is_run { text.len() } else { run.start };
            let (token, len) = match self.longest(padded, at, end - at) {
                // A single symbol that covers a whole run takes fewer bits than the encoded run.
                Some((number, len)) if !is_run || len >= run.len() => (Token::Text(number), len),
                _ if is_run => (self.run(run), run.len()),
                _ => (self.byte(padded[at]), 1),
            };
            each(token);
            at += len;
            if is_run {
                run = next_run(at);
            }
        }
    }

    fn run(&self, run: Run) -> Token {
        let of_alphabet = &self.runs[run.alphabet as usize];
        match of_alphabet[run.len()] {
            0 => Token::Run(of_alphabet[0], run, true),
            number => Token::Run(number, run, false),
        }
    }

    #[inline]
    fn byte(&self, byte: u8) -> Token {
        match self.bytes[usize::from(byte)] {
            0 => Token::Escape(byte),
            number => Token::Text(number - 1),
        }
    }

    /// Returns the longest symbol of two bytes or more, and its length.
    #[inline(always)]
    fn longest(&self, padded: &[u8], at: usize, most: usize) -> Option<(u16, usize)> {
        let text = padded[at..].first_chunk().expect("padding");
        let text = u128::from_le_bytes(*text);
        for bytes in [3, 2] {
            let (first, count) = self.starts[start(text, bytes)];
            if count == 0 {
                continue;
            }
            let first = usize::from(first);
            for &(symbol, number) in &self.texts[first..first + usize::from(count)] {
                let len = len(symbol) as usize;
                if (symbol ^ text) & PREFIXES[len % PREFIXES.len()] == 0 && len <= most {
                    return Some((number, len));
                }
            }
        }
        None
    }

    /// Writes the symbols of a string, without its padding.
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

    /// Returns the encoded size of a string, in bits.
    pub fn bits(&self, padded: &[u8]) -> u32 {
        let mut bits = 0;
        self.tokens(padded, |token| {
            let (number, more) = match token {
                Token::Text(number) => (number, 0),
                Token::Escape(_) => (self.escape, 8),
                Token::Run(number, run, is_any) => {
                    let more = run.alphabet.bits(run.len());
                    (number, more + if is_any { RUN_BITS } else { 0 })
                }
            };
            bits += more + u32::from(self.codes[usize::from(number)].1);
        });
        bits
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        size_of::<Matcher>()
            + size_of_val(&*self.starts)
            + self.texts.capacity() * size_of::<(u128, u16)>()
            + self.codes.capacity() * size_of::<(u16, u8)>()
    }
}

/// The longest code of a symbol and the bits after it must fit into one write.
const _: () = assert!(prefix::MAX_BITS + RUN_BITS <= 32);
