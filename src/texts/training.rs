//! Trains a table: finds, in small steps, the symbols that compress similar strings best.
//!
//! Training starts with single bytes as symbols. Each round splits a sample into the current
//! symbols, and counts the symbols and the pairs of neighbours. The round keeps the symbols and
//! pairs that save the most bits; the pairs become new symbols. Therefore, the length of symbols
//! roughly doubles in each round.

use hashbrown::HashMap;

use super::matcher::{Matcher, PADDING, Token};
use super::runs::{self, Alphabet};
use super::table::{Classes, Meaning, NUMBERS, SYMBOLS, Symbol, TEXT, Table};

/// Approximate number of bytes that a step processes.
const STEP: usize = 2 << 10;
const ROUNDS: u32 = 6;
/// Number of symbols kept between rounds. This number exceeds the size of a table, because some
/// symbols become parts of later symbols.
const KEPT: usize = SYMBOLS + SYMBOLS / 2;
/// Minimum count of a pair that can become a symbol.
const RARE: u32 = 3;
/// Number of pairs that one step processes at the end of a round.
const PAIRS: usize = 2 << 10;

/// Counts of symbols or pairs. The map uses a random hash key per process, because the strings come
/// from untrusted sites.
type Counts<K> = HashMap<K, u32>;

/// Strings to train on.
#[derive(Clone, Default)]
pub struct Sample {
    /// The strings, each followed by padding.
    texts: Vec<u8>,
    ends: Vec<u32>,
}

impl Sample {
    /// Adds a string, truncated to 1024 bytes.
    pub fn push(&mut self, text: &[u8]) {
        self.texts.extend_from_slice(&text[..text.len().min(1024)]);
        self.texts.resize(self.texts.len() + PADDING, 0);
        self.ends.push(self.texts.len() as u32);
    }

    /// Returns the total size of the strings, in bytes.
    pub fn len(&self) -> usize {
        self.texts.len() - self.ends.len() * PADDING
    }

    /// Returns a string with its padding.
    fn get(&self, at: usize) -> Option<&[u8]> {
        let end = *self.ends.get(at)? as usize;
        let start = at.checked_sub(1).map_or(0, |at| self.ends[at] as usize);
        self.texts.get(start..end)
    }

    /// Returns the encoded size in bits of every sixteenth text. The training itself does not use
    /// these strings.
    pub fn bits(&self, matcher: &Matcher) -> u64 {
        let texts = (0..self.ends.len()).filter(|&at| is_for_comparison(at));
        let texts = texts.filter_map(|at| self.get(at));
        texts.map(|text| u64::from(matcher.bits(text))).sum()
    }

    pub fn memory(&self) -> usize {
        self.texts.capacity() + self.ends.capacity() * 4
    }
}

fn is_for_comparison(at: usize) -> bool {
    at % 16 == 15
}

/// A training in progress.
pub struct Training {
    sample: Sample,
    classes: [Classes; NUMBERS],
    round: u32,
    /// Index of the next text of the sample.
    at: usize,
    symbols: Vec<Symbol>,
    matcher: Matcher,
    counts: Vec<u32>,
    pairs: Counts<u32>,
    /// Pairs that occur often enough to become symbols.
    frequent: Vec<u32>,
    runs: [[u32; runs::MAX_BYTES + 1]; Alphabet::ALL.len()],
    end: End,
}

/// Progress of the end of a round, which is split into steps because there are many pairs.
enum End {
    NotYet,
    /// Collects the symbols of the round, and a part of the frequent pairs.
    Finding(Found),
    Found(Found),
    /// The symbols of the next round are known.
    Symbols,
}

/// Symbols with their counts.
#[derive(Default)]
struct Found {
    bytes: Vec<(Symbol, u32)>,
    /// Symbols of two bytes and more, each with its gain and its count.
    longer: Vec<(u64, Symbol, u32)>,
    /// Number of frequent pairs that were turned into symbols.
    pairs: usize,
}

impl Training {
    /// Starts training on a sample. The classes of numbers are not trained.
    pub fn new(sample: Sample, classes: [Classes; NUMBERS]) -> Training {
        let symbols: Vec<Symbol> = (0..=u8::MAX).map(|byte| Symbol::text(&[byte])).collect();
        let matcher = Matcher::of(&symbols, Vec::new());
        Training {
            classes,
            round: 0,
            at: 0,
            counts: vec![0; symbols.len()],
            symbols,
            matcher,
            // Allocate enough capacity for almost all pairs at once, because growing the map would
            // slow down a step.
            pairs: Counts::with_capacity(sample.len() / 8),
            frequent: Vec::new(),
            runs: [[0; runs::MAX_BYTES + 1]; Alphabet::ALL.len()],
            end: End::NotYet,
            sample,
        }
    }

    /// Performs a step. After the last step, returns the table, and the sample for comparing it
    /// with the current table.
    pub fn step(&mut self) -> Option<(Table, Sample)> {
        let mut bytes = 0;
        while bytes < STEP {
            let Some(text) = self.sample.get(self.at) else {
                return self.end_round();
            };
            bytes += text.len();
            if !is_for_comparison(self.at) {
                self.count(self.at);
            }
            self.at += 1;
        }
        None
    }

    fn count(&mut self, at: usize) {
        let Some(text) = self.sample.get(at) else {
            return;
        };
        let mut before = None;
        self.matcher.tokens(text, |token| match token {
            Token::Text(number) => {
                self.counts[usize::from(number)] += 1;
                if let Some(before) = before {
                    let pair = u32::from(before) << 16 | u32::from(number);
                    let mut ignored = 0;
                    let count = if self.pairs.len() < self.pairs.capacity() {
                        self.pairs.entry(pair).or_default()
                    } else {
                        self.pairs.get_mut(&pair).unwrap_or(&mut ignored)
                    };
                    *count += 1;
                    if *count == RARE {
                        self.frequent.push(pair);
                    }
                }
                before = Some(number);
            }
            Token::Run(_, run, _) => {
                self.runs[run.alphabet as usize][run.len()] += 1;
                before = None;
            }
            Token::Escape(_) => before = None,
        });
    }

    /// Returns the symbols of this round that are worth keeping. Pairs and single bytes are added
    /// separately.
    fn found(&self) -> Found {
        let mut found = Found::default();
        for (symbol, &count) in self.symbols.iter().zip(&self.counts) {
            match symbol.meaning() {
                Meaning::Text(text) if text.len() == 1 => found.bytes.push((*symbol, count)),
                Meaning::Text(text) if count >= RARE - 1 => {
                    let gain = gain(text.len(), count);
                    found.longer.push((gain, *symbol, count));
                }
                _ => {}
            }
        }
        found
    }

    /// Adds pairs as symbols, at most [`PAIRS`] per call. Returns true after the last pair.
    fn find_pairs(&self, found: &mut Found) -> bool {
        let rest = &self.frequent[found.pairs..];
        let some = &rest[..rest.len().min(PAIRS)];
        for pair in some {
            let count = self.pairs[pair];
            let [first, second] = [pair >> 16, pair & 0xffff].map(|at| self.symbols[at as usize]);
            if let (Meaning::Text(first), Meaning::Text(second)) =
                (first.meaning(), second.meaning())
            {
                let len = first.len() + second.len();
                if len <= TEXT {
                    let mut text = [0; TEXT];
                    text[..first.len()].copy_from_slice(first);
                    text[first.len()..len].copy_from_slice(second);
                    let symbol = Symbol::text(&text[..len]);
                    found.longer.push((gain(len, count), symbol, count));
                }
            }
        }
        found.pairs += some.len();
        some.is_empty()
    }

    fn end_round(&mut self) -> Option<(Table, Sample)> {
        match std::mem::replace(&mut self.end, End::NotYet) {
            End::NotYet => {
                if self.round + 1 == ROUNDS {
                    self.pairs = Counts::default();
                    self.frequent = Vec::new();
                }
                self.end = End::Finding(self.found());
            }
            End::Finding(mut found) => {
                let is_done = self.find_pairs(&mut found);
                // The last round needs fewer symbols.
                keep(&mut found.longer, KEPT);
                self.end = if is_done {
                    End::Found(found)
                } else {
                    End::Finding(found)
                };
            }
            End::Found(found) => {
                self.round += 1;
                let (bytes, mut found) = (found.bytes, found.longer);
                if self.round == ROUNDS {
                    return Some(self.finish(bytes, found));
                }
                // Two pairs may result in the same symbol.
                found.sort_unstable_by_key(|of| of.1);
                found.dedup_by_key(|of| of.1);
                self.symbols.clear();
                self.symbols.extend(bytes.iter().map(|of| of.0));
                self.symbols.extend(found.iter().map(|of| of.1));
                self.end = End::Symbols;
            }
            End::Symbols => {
                self.at = 0;
                self.matcher = Matcher::of(&self.symbols, Vec::new());
                self.counts.clear();
                self.counts.resize(self.symbols.len(), 0);
                self.pairs.clear();
                self.frequent.clear();
                self.runs = [[0; runs::MAX_BYTES + 1]; Alphabet::ALL.len()];
            }
        }
        None
    }

    fn finish(
        &mut self,
        bytes: Vec<(Symbol, u32)>,
        mut found: Vec<(u64, Symbol, u32)>,
    ) -> (Table, Sample) {
        let mut symbols = bytes;
        // Bytes that do not occur are escaped. Keep all printable ASCII characters except the
        // space, because later strings may contain them.
        symbols.retain(|(symbol, count)| {
            *count > 0 || matches!(symbol.meaning(), Meaning::Text([0x21..=0x7e]))
        });
        for alphabet in Alphabet::ALL {
            for len in 1..=runs::MAX_BYTES {
                let count = self.runs[alphabet as usize][len];
                if count >= RARE {
                    found.push((gain(len, count), Symbol::run(alphabet, len), count));
                }
            }
        }
        keep(
            &mut found,
            SYMBOLS - 1 - Alphabet::ALL.len() - symbols.len(),
        );
        symbols.extend(found.into_iter().map(|(_, symbol, count)| (symbol, count)));
        let table = Table::new(&symbols, self.classes.clone());
        (table, std::mem::take(&mut self.sample))
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        size_of::<Training>()
            + self.sample.memory()
            + self.symbols.capacity() * size_of::<Symbol>()
            + self.matcher.memory()
            + self.counts.capacity() * 4
            + self.pairs.allocation_size()
            + self.frequent.capacity() * 4
            + match &self.end {
                End::Finding(found) | End::Found(found) => {
                    found.bytes.capacity() * size_of::<(Symbol, u32)>()
                        + found.longer.capacity() * size_of::<(u64, Symbol, u32)>()
                }
                End::NotYet | End::Symbols => 0,
            }
    }
}

/// Returns the gain of a symbol with this length and count.
fn gain(len: usize, count: u32) -> u64 {
    len as u64 * u64::from(count)
}

/// Keeps the `most` symbols with the highest gain.
fn keep(found: &mut Vec<(u64, Symbol, u32)>, most: usize) {
    if found.len() > most {
        found.select_nth_unstable_by(most, |a, b| (b.0, b.1).cmp(&(a.0, a.1)));
        found.truncate(most);
    }
}
