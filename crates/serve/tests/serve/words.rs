//! Building blocks of random input: the lists of `words.json`. A word that occurs twice is drawn twice as often.

use std::collections::HashMap;
use std::sync::LazyLock;

use redis_tests::Rng;

static LISTS: LazyLock<HashMap<String, Vec<String>>> =
    LazyLock::new(|| serde_json::from_str(include_str!("words.json")).expect("lists of texts"));

/// Returns a whole list.
pub fn list(name: &str) -> Vec<&'static str> {
    LISTS[name].iter().map(String::as_str).collect()
}

/// Returns a whole list as bytes.
pub fn inputs(name: &str) -> Vec<Vec<u8>> {
    LISTS[name]
        .iter()
        .map(|text| text.clone().into_bytes())
        .collect()
}

/// Returns a random word of a list.
pub fn word(rng: &mut Rng, name: &str) -> &'static str {
    rng.pick::<String>(&LISTS[name])
}
