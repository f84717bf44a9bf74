//! Generates calls of all commands from their grammars, without a server. Checks that valid calls
//! are parsed, and that invalid calls fail with an error that names the invalid argument.

use std::collections::BTreeSet;

use crawlspace_host::grammar::{Arg, ArgKind, Described, Limits, arity, parse};
use crawlspace_host::text::Shown;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRng;

use crate::{chg, dedupe, tags};

const NOW: u64 = 1_700_000_000_000;

/// Errors about options that are valid individually, but not in combination.
const REFUSED_TOGETHER: [&str; 6] = [
    "tag has",
    "cannot be combined",
    "is less than MIN",
    "so it needs EXECUTION",
    "is given twice",
    "are the same group",
];

/// A command under test.
struct Tried {
    name: &'static str,
    args: Vec<Arg>,
    parse: fn(&[&[u8]]) -> Result<(), String>,
}

fn tried<C: Described>() -> Tried {
    fn read<C: Described>(words: &[&[u8]]) -> Result<(), String> {
        parse::<C::Arguments<'_>>(words, || NOW).map(drop)
    }
    Tried {
        name: C::SPEC.name,
        args: C::all_args(),
        parse: read::<C>,
    }
}

fn all() -> Vec<Tried> {
    let mut all = Vec::new();
    macro_rules! dedupe {
        ($($command:ident)+) => { $(all.push(tried::<dedupe::grammar::$command>());)+ };
    }
    macro_rules! chg {
        ($($command:ident)+) => { $(all.push(tried::<chg::grammar::$command>());)+ };
    }
    macro_rules! tags {
        ($($command:ident)+) => { $(all.push(tried::<tags::grammar::$command>());)+ };
    }
    dedupe::grammar::all!(dedupe);
    chg::grammar::all!(chg);
    tags::grammar::all!(tags);
    all
}

/// A word of a call, and the argument to which it belongs.
#[derive(Clone, Debug)]
struct Word<'a> {
    text: Vec<u8>,
    arg: &'a Arg,
    is_token: bool,
}

/// Generates calls from grammars.
struct Maker<'r> {
    rng: &'r mut TestRng,
    shortest: bool,
}

impl Maker<'_> {
    fn below(&mut self, n: u64) -> u64 {
        self.rng.next_u64() % n
    }

    fn call<'a>(&mut self, args: &'a [Arg]) -> Vec<Word<'a>> {
        let mut words = Vec::new();
        self.derive_all(&args[1..], &mut words);
        words
    }

    fn derive_all<'a>(&mut self, args: &'a [Arg], words: &mut Vec<Word<'a>>) {
        let mut before = None;
        for arg in args {
            let begin = words.len();
            self.derive(arg, words);
            // `n` is the number of values that follow.
            if before == Some("n") && arg.multiple {
                let n = (words.len() - begin) / arg.fewest();
                words[begin - 1].text = n.to_string().into_bytes();
            }
            before = Some(&arg.name[..]);
        }
    }

    fn derive<'a>(&mut self, arg: &'a Arg, words: &mut Vec<Word<'a>>) {
        if arg.optional && (self.shortest || self.below(2) == 0) {
            return;
        }
        words.extend(arg.token.map(|token| Word {
            text: token.as_bytes().to_vec(),
            arg,
            is_token: true,
        }));
        let times = if arg.multiple && !self.shortest {
            1 + self.below(3)
        } else {
            1
        };
        for _ in 0..times {
            match arg.kind {
                ArgKind::Word => {}
                ArgKind::OneOf if self.shortest => {
                    let shortest = arg.parts.iter().min_by_key(|part| part.fewest());
                    self.derive(shortest.expect("a part"), words);
                }
                ArgKind::OneOf => {
                    let which = self.below(arg.parts.len() as u64) as usize;
                    self.derive(&arg.parts[which], words);
                }
                ArgKind::Block => self.derive_all(&arg.parts, words),
                _ => words.push(Word {
                    text: self.value(arg.limits),
                    arg,
                    is_token: false,
                }),
            }
        }
    }

    fn value(&mut self, limits: Limits) -> Vec<u8> {
        match limits {
            Limits::Like(example) => example.as_bytes().to_vec(),
            Limits::Any => self.letters(6),
            Limits::Bytes(0, _) if self.below(4) == 0 => Vec::new(),
            Limits::Bytes(_, most) if self.below(8) == 0 => self.letters(most),
            Limits::Bytes(..) => self.letters(8),
            Limits::Range(least, most) => {
                let n = match self.below(3) {
                    0 => least,
                    1 => most,
                    _ => least + self.below((most - least).saturating_add(1)),
                };
                n.to_string().into_bytes()
            }
        }
    }

    fn letters(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| b'a' + self.below(26) as u8).collect()
    }
}

fn read(command: &Tried, words: &[Word<'_>]) -> Result<(), String> {
    let words: Vec<&[u8]> = words.iter().map(|word| &word.text[..]).collect();
    (command.parse)(&words)
}

fn flat(args: &[Arg]) -> Vec<&Arg> {
    args.iter()
        .flat_map(|arg| std::iter::once(arg).chain(flat(&arg.parts)))
        .collect()
}

/// Fails unless an error names the invalid argument and its position.
fn assert_named(command: &Tried, words: &[Word<'_>], error: &str) {
    let position = error
        .strip_suffix(')')
        .and_then(|error| error.rsplit_once(" (argument "));
    let position = position.and_then(|(_, position)| position.parse::<usize>().ok());
    let position = position.unwrap_or_else(|| panic!("{}: {error}", command.name));
    assert!(
        (1..=words.len() + 2).contains(&position),
        "{}: {error}",
        command.name
    );
    let word = words.get(position.wrapping_sub(2));
    let quoted = word.is_some_and(|word| error.contains(&Shown(&word.text).to_string()));
    let lower = error.to_lowercase();
    let named = flat(&command.args).into_iter().any(|arg| {
        let token = arg.token.unwrap_or(&arg.name);
        [&arg.name[..], token]
            .iter()
            .any(|name| lower.contains(&name.to_lowercase()))
    });
    assert!(quoted || named, "{}: {error}", command.name);
}

/// Returns true if the argument accepts any word.
fn is_free(arg: &Arg) -> bool {
    let any = matches!(arg.limits, Limits::Any | Limits::Bytes(..)) || arg.name == "crawl";
    arg.kind == ArgKind::Text && any
}

/// Returns true if any word may be accepted as a repeated or optional argument.
fn takes_any_word(command: &Tried) -> bool {
    flat(&command.args).into_iter().any(|arg| {
        let may_stand = arg.multiple || arg.optional && arg.token.is_none();
        may_stand && flat(std::slice::from_ref(arg)).into_iter().any(is_free)
    })
}

#[test]
fn names_are_unique_and_arity_matches_the_shortest_call() {
    let all = all();
    let names: BTreeSet<&str> = all.iter().map(|command| command.name).collect();
    assert_eq!(names.len(), all.len());
    for command in &all {
        let mut rng = TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
        let words = Maker {
            rng: &mut rng,
            shortest: true,
        }
        .call(&command.args);
        let arity = arity(&command.args);
        assert_eq!(
            arity.unsigned_abs() as usize,
            words.len() + 2,
            "{}",
            command.name
        );
        let refused = read(command, &words).err();
        let together = |e: &String| REFUSED_TOGETHER.iter().any(|why| e.contains(why));
        assert!(
            refused.is_none_or(|error| together(&error)),
            "{}",
            command.name
        );
        // A call without its last word is always incomplete.
        if let Some((_, less)) = words.split_last() {
            let error = read(command, less).expect_err(command.name);
            assert_named(command, less, &error);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn valid_calls_are_parsed_and_invalid_ones_reported(
        which in any::<Index>(),
        at in any::<Index>(),
        mut rng in any::<()>().prop_perturb(|(), rng| rng),
    ) {
        let all = all();
        let command = which.get(&all);
        let words = Maker { rng: &mut rng, shortest: false }.call(&command.args);
        if let Err(error) = read(command, &words) {
            let together = REFUSED_TOGETHER.iter().any(|why| error.contains(why));
            prop_assert!(together, "{} {words:?}: {error}", command.name);
            assert_named(command, &words, &error);
            return Ok(());
        }

        let mut more = words.clone();
        more.push(Word { text: b"and more".to_vec(), arg: &command.args[0], is_token: false });
        match read(command, &more) {
            Err(error) => assert_named(command, &more, &error),
            Ok(()) => prop_assert!(takes_any_word(command), "{} {more:?}", command.name),
        }

        if words.is_empty() {
            return Ok(());
        }
        let at = at.index(words.len());
        let mut changed = words.clone();
        changed[at].text = b"%n NONSENSE".to_vec();
        match read(command, &changed) {
            Err(error) => assert_named(command, &changed, &error),
            Ok(()) => {
                let (arg, is_token) = (words[at].arg, words[at].is_token);
                // `NOW` without a number after it is a name.
                let may_be = !is_token && is_free(arg) || arg.name == "now";
                prop_assert!(
                    may_be || takes_any_word(command),
                    "{} {changed:?}", command.name
                );
            }
        }
    }
}

#[test]
fn errors_name_the_option_and_what_it_allows() {
    let calls = [
        (
            "chg.release",
            "host 5 ELAPSED 1 CRAWLDELAY x",
            "ERR invalid CRAWLDELAY 'x'",
        ),
        (
            "chg.release",
            "host 5 ELAPSED 1 RETRYAFTER 1.5",
            "ERR invalid RETRYAFTER '1.5'",
        ),
        (
            "chg.release",
            "host 5 LATER 0",
            "ERR LATER '0' is out of range (1 to 315619200000, which is ten years",
        ),
        (
            "chg.release",
            "host 5 AT -1",
            "ERR AT '-1' is out of range (0 to 2015619200000, which is ten years from now",
        ),
        (
            "chg.release",
            "host 5 DELAY 18446744073709551616",
            "ERR DELAY '18446744073709551616' is out of range (0 to 315619200000,",
        ),
        (
            "chg.limit",
            "host DELAY -2",
            "ERR DELAY '-2' is out of range (0 to 315619200000, which is ten years in milliseconds; -1 for none)",
        ),
        (
            "chg.limit",
            "host BUDGET x",
            "ERR BUDGET 'x' is not an integer (0 to 9223372036854775807; -1 for none)",
        ),
        ("chg.space", "crawl SHARE \"\"", "ERR SHARE is empty"),
        ("chg.count", "crawl GROUP \"\"", "ERR GROUP is empty"),
        (
            "dedupe.revisit",
            "crawl REF \"\" sixteen.bytes.long 1",
            "ERR REF is empty",
        ),
        (
            "dedupe.lookupurl",
            "BEFORE soon http://a/",
            "ERR invalid BEFORE 'soon': a date of 14 ",
        ),
        (
            "dedupe.claim",
            "crawl sixteen.bytes.long PX 0",
            "ERR PX '0' is out of range (1 to ",
        ),
        (
            "tags.list",
            "a COUNT 0",
            "ERR COUNT '0' is out of range (1 to ",
        ),
    ];
    let all = all();
    for (name, call, expected) in calls {
        let command = all.iter().find(|command| command.name == name);
        let words = call.split(' ').map(|word| match word {
            "\"\"" => &b""[..],
            word => word.as_bytes(),
        });
        let words: Vec<&[u8]> = words.collect();
        let error = (command.expect(name).parse)(&words).expect_err(call);
        assert!(error.starts_with(expected), "{call}: {error}");
    }
}
