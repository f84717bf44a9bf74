//! Runs of digits and letters that look random, such as hashes, numbers and ids. Symbols do not
//! compress runs, but a run has few different characters, so each character takes only a few bits.

use super::bits::{Bits, Writer};

/// The alphabet of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    /// `0` to `9`.
    Decimal,
    /// `0` to `9`, `a` to `f`.
    Hex,
    /// `0` to `9`, `A` to `F`.
    UpperHex,
    /// ASCII letters and digits.
    Alphanumeric,
}

/// A run in a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub alphabet: Alphabet,
    pub start: usize,
    pub end: usize,
}

impl Run {
    /// Returns an empty run.
    pub fn empty(at: usize) -> Run {
        Run {
            alphabet: Alphabet::Decimal,
            start: at,
            end: at,
        }
    }

    pub fn len(&self) -> usize {
        self.end - self.start
    }
}

/// Maximum length of a run, in bytes.
pub const MAX_BYTES: usize = 63;
/// Minimum lengths of a run, by alphabet.
const DECIMAL: usize = 5;
const HEX: usize = 6;
const ALPHANUMERIC: usize = 10;

/// Number of bytes that are examined on either side of the first digit of a word.
const FORESEEN: usize = 4 * MAX_BYTES;

const DIGIT: u8 = 1;
const LOWER_HEX: u8 = 2;
const LOWER: u8 = 4;
const UPPER_HEX: u8 = 8;
const UPPER: u8 = 16;

/// The class of each byte; 0 for bytes that end a word.
const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut c = 0;
    while c < 256 {
        class[c] = match c as u8 {
            b'0'..=b'9' => DIGIT,
            b'a'..=b'f' => LOWER_HEX,
            b'g'..=b'z' => LOWER,
            b'A'..=b'F' => UPPER_HEX,
            b'G'..=b'Z' => UPPER,
            _ => 0,
        };
        c += 1;
    }
    class
};

/// Number of bits of a *lane*, the counter of one class. A lane can count all bytes of a word.
const LANE: u32 = 12;

/// Counter values by class: the number 1 in the lane of that class.
const ONE: [u64; UPPER as usize + 1] = {
    let mut one = [0; UPPER as usize + 1];
    let mut n = 0;
    while n < 5 {
        one[1 << n] = 1 << (n as u32 * LANE);
        n += 1;
    }
    one
};

/// The kind of each class: digits, lower case or upper case. A kind is a set of classes.
const KIND: [u8; UPPER as usize + 1] = {
    let mut kind = [0; UPPER as usize + 1];
    kind[DIGIT as usize] = DIGIT;
    kind[LOWER_HEX as usize] = LOWER | LOWER_HEX;
    kind[LOWER as usize] = LOWER | LOWER_HEX;
    kind[UPPER_HEX as usize] = UPPER | UPPER_HEX;
    kind[UPPER as usize] = UPPER | UPPER_HEX;
    kind
};

/// Number of characters that are read or written at once, except for decimal digits.
const PART: usize = 9;

const DIGITS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
const UPPER_DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// Number of bits needed for each number of decimal digits.
const DECIMAL_BITS: [u32; 17] = [
    0, 4, 7, 10, 14, 17, 20, 24, 27, 30, 34, 37, 40, 44, 47, 50, 54,
];

/// Finds the runs of a string one after the other, in linear time. Counts the bytes of a long word
/// once, and then updates the counts while it consumes the word.
pub struct Runs<'a> {
    text: &'a [u8],
    word: Word,
    /// Number of bytes examined so far.
    #[cfg(test)]
    work: usize,
}

/// The rest of a word that contains digits.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    start: usize,
    end: usize,
    /// Number of bytes of each class. The lane of the class contains the count.
    classes: u64,
    /// Number of changes from one kind of byte to another.
    changes: u16,
    /// Position up to which no sequence of decimal digits is long enough for a run.
    scanned: usize,
}

impl<'a> Runs<'a> {
    pub fn new(text: &'a [u8]) -> Runs<'a> {
        Runs {
            text,
            word: Word::default(),
            #[cfg(test)]
            work: 0,
        }
    }

    /// Returns the first run that begins at `from` or later. `from` must not decrease between calls.
    pub fn next(&mut self, mut from: usize) -> Option<Run> {
        loop {
            if from < self.word.end {
                self.shorten(from);
            } else {
                self.begin(from)?;
            }
            if let Some(run) = self.in_word() {
                return Some(run);
            }
            from = self.word.end;
        }
    }

    /// Begins the word that contains the next digit.
    fn begin(&mut self, from: usize) -> Option<()> {
        // Every run contains a digit, and most words contain none.
        let digit = first_digit(self.text, from);
        self.looked_at(digit.unwrap_or(self.text.len()) - from);
        let digit = digit?;
        let is_word = |c: &&u8| CLASS[usize::from(**c)] != 0;
        let before = self.text[from..digit].iter().rev().take(FORESEEN);
        let start = digit - before.take_while(is_word).count();
        let rest = self.text[digit..].iter().take(FORESEEN);
        let end = digit + rest.take_while(is_word).count();
        self.looked_at(2 * (end - start));
        self.word = Word {
            start,
            end,
            scanned: start,
            ..Word::default()
        };
        if self.word.is_short() {
            return Some(());
        }
        let mut kind = u8::MAX;
        for &c in &self.text[start..end] {
            let class = CLASS[usize::from(c)];
            self.word.classes += ONE[usize::from(class)];
            self.word.changes += u16::from(class & kind == 0);
            kind = KIND[usize::from(class)];
        }
        Some(())
    }

    /// Removes the part before `from` from the word.
    fn shorten(&mut self, from: usize) {
        if self.word.is_short() {
            return;
        }
        let Some(used) = self.text.get(self.word.start..=from) else {
            return;
        };
        self.looked_at(used.len() - 1);
        for pair in self.text[self.word.start..=from].windows(2) {
            let (class, next) = (CLASS[usize::from(pair[0])], CLASS[usize::from(pair[1])]);
            self.word.classes -= ONE[usize::from(class)];
            self.word.changes -= u16::from(next & KIND[usize::from(class)] == 0);
        }
        self.word.start = from;
        self.word.scanned = self.word.scanned.max(from);
    }

    /// Returns the first run in the remaining word.
    fn in_word(&mut self) -> Option<Run> {
        let word = self.word;
        if word.is_short() {
            return None;
        }
        let len = word.end - word.start;
        if let Some(alphabet) = word.alphabet() {
            return Some(Run {
                alphabet,
                start: word.start,
                end: word.start + len.min(MAX_BYTES),
            });
        }
        // The word may still contain enough decimal digits in a row.
        let mut at = word.scanned;
        while at + DECIMAL <= word.end {
            let rest = self.text[at..word.end].iter().take(MAX_BYTES);
            let digits = rest.take_while(|c| c.is_ascii_digit()).count();
            self.looked_at(digits + 1);
            if digits >= DECIMAL {
                self.word.scanned = at;
                return Some(Run {
                    alphabet: Alphabet::Decimal,
                    start: at,
                    end: at + digits,
                });
            }
            at += digits + 1;
        }
        None
    }

    #[inline]
    fn looked_at(&mut self, _bytes: usize) {
        #[cfg(test)]
        {
            self.work += _bytes;
        }
    }
}

impl Word {
    /// Returns true if the word cannot contain a run. The bytes of such a word are not counted.
    fn is_short(&self) -> bool {
        self.end - self.start < DECIMAL
    }

    /// Returns the alphabet of a run that consists of the whole remaining word.
    fn alphabet(&self) -> Option<Alphabet> {
        let len = self.end - self.start;
        let lane = |n: u32| self.classes >> (n * LANE) & ((1 << LANE) - 1);
        let classes = (0..5).fold(0, |all, n| all | u8::from(lane(n) > 0) << n);
        let has = |some: u8| classes & some != 0;
        match classes {
            DIGIT => Some(Alphabet::Decimal),
            _ if len >= HEX && classes == DIGIT | LOWER_HEX => Some(Alphabet::Hex),
            _ if len >= HEX && classes == DIGIT | UPPER_HEX => Some(Alphabet::UpperHex),
            _ if len >= ALPHANUMERIC
                && has(LOWER | LOWER_HEX)
                && has(UPPER | UPPER_HEX)
                // The first byte counts as a change of kind.
                && (usize::from(self.changes) + 1) * 5 >= len * 2 =>
            {
                Some(Alphabet::Alphanumeric)
            }
            _ => None,
        }
    }
}

/// Returns the position of the first decimal digit at or after `from`.
fn first_digit(text: &[u8], mut from: usize) -> Option<usize> {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    while let Some(word) = text.get(from..from + 8) {
        // Process eight bytes at a time. The subtraction turns digits into 0 to 9; adding 0x76 then
        // sets the highest bit of all other values.
        let word =
            u64::from_le_bytes(word.try_into().expect("eight bytes")) ^ 0x3030_3030_3030_3030;
        let others = ((word & !HIGH) + 0x7676_7676_7676_7676) | word;
        let digits = !others & HIGH;
        if digits != 0 {
            return Some(from + digits.trailing_zeros() as usize / 8);
        }
        from += 8;
    }
    let rest = text.get(from..)?.iter();
    Some(from + rest.take_while(|c| !c.is_ascii_digit()).count()).filter(|&at| at < text.len())
}

/// The position of each ASCII letter or digit in [`DIGITS`]. Tables avoid branches, which random input makes
/// unpredictable.
const PLACES: [u8; 256] = places(DIGITS);
const UPPER_PLACES: [u8; 256] = places(UPPER_DIGITS);

const fn places(digits: &[u8]) -> [u8; 256] {
    let mut places = [0; 256];
    let mut place = 0;
    while place < digits.len() {
        places[digits[place] as usize] = place as u8;
        place += 1;
    }
    places
}

impl Alphabet {
    /// All alphabets, in the order of their numbers.
    pub const ALL: [Alphabet; 4] = [
        Alphabet::Decimal,
        Alphabet::Hex,
        Alphabet::UpperHex,
        Alphabet::Alphanumeric,
    ];

    /// Returns the encoded size of a run of this length, in bits.
    pub fn bits(self, len: usize) -> u32 {
        let len = len as u32;
        match self {
            Alphabet::Decimal => len / 16 * 54 + DECIMAL_BITS[len as usize % 16],
            Alphabet::Hex | Alphabet::UpperHex => len * 4,
            Alphabet::Alphanumeric => len * 6,
        }
    }

    /// Appends the characters of a run.
    pub fn write(self, run: &[u8], out: &mut Writer<'_>) {
        let (each, places) = match self {
            Alphabet::Decimal => {
                for part in run.chunks(16) {
                    let digit = |n: u64, &c: &u8| n * 10 + u64::from(c.wrapping_sub(b'0'));
                    let number = part.iter().fold(0, digit);
                    out.put_long(number, DECIMAL_BITS[part.len()]);
                }
                return;
            }
            Alphabet::Hex => (4, &PLACES),
            Alphabet::UpperHex => (4, &UPPER_PLACES),
            Alphabet::Alphanumeric => (6, &PLACES),
        };
        for part in run.chunks(PART) {
            let digit = |word: u64, &c: &u8| word << each | u64::from(places[usize::from(c)]);
            let word = part.iter().rev().fold(0, digit);
            out.put_long(word, each * part.len() as u32);
        }
    }

    /// Reads the characters of a run into `run`. Returns `None` if the input ends too early.
    pub fn read(self, bits: &mut Bits<'_>, run: &mut [u8]) -> Option<()> {
        let (each, digits): (u32, &[u8]) = match self {
            Alphabet::Decimal => {
                for part in run.chunks_mut(16) {
                    let mut number = bits.take(DECIMAL_BITS[part.len()])?;
                    for c in part.iter_mut().rev() {
                        *c = b'0' + (number % 10) as u8;
                        number /= 10;
                    }
                }
                return Some(());
            }
            Alphabet::Hex => (4, DIGITS),
            Alphabet::UpperHex => (4, UPPER_DIGITS),
            Alphabet::Alphanumeric => (6, DIGITS),
        };
        for part in run.chunks_mut(PART) {
            let mut word = bits.take(each * part.len() as u32)?;
            for c in part {
                *c = digits[word as usize & ((1 << each) - 1)];
                word >>= each;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
