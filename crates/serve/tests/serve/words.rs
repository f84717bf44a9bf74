//! What random input is made of: the lists of `words.json`. A word that stands there twice is drawn twice as often.

use std::collections::HashMap;
use std::sync::LazyLock;

use redis_tests::Rng;

static LISTS: LazyLock<HashMap<String, Vec<String>>> =
    LazyLock::new(|| serde_json::from_str(include_str!("words.json")).expect("lists of texts"));

/// All of a list.
pub fn list(name: &str) -> Vec<&'static str> {
    LISTS[name].iter().map(String::as_str).collect()
}

/// All of a list, as input.
pub fn inputs(name: &str) -> Vec<Vec<u8>> {
    LISTS[name]
        .iter()
        .map(|text| text.clone().into_bytes())
        .collect()
}

/// One of a list.
pub fn word(rng: &mut Rng, name: &str) -> &'static str {
    rng.pick::<String>(&LISTS[name])
}
