//! What a configuration means, in every way to write it.

mod examples;
mod forms;
mod hostile;
mod indexes;
mod pywb;
mod show;
mod wrong;

use std::path::Path;

use super::{Config, ConfigErrors, Remark};

/// Reads a text that lies in `/etc/archive`, with one variable of the environment.
fn parse(text: &str) -> Result<(Config, Vec<Remark>), ConfigErrors> {
    let variable = |name: &str| (name == "PLACE").then(|| "/srv/index".to_owned());
    Config::parse_with(text, "config.yaml", Path::new("/etc/archive"), &variable)
}

/// A text with nothing wrong, and nothing strange.
fn good(text: &str) -> Config {
    match parse(text) {
        Ok((config, warnings)) => {
            assert!(warnings.is_empty(), "{warnings:?}\n{text}");
            config
        }
        Err(errors) => panic!("{errors}\n{text}"),
    }
}

/// What a text is refused for.
fn refusal(text: &str) -> String {
    match parse(text) {
        Ok((config, _)) => panic!("{text}\nis taken for {config:#?}"),
        Err(errors) => errors.to_string(),
    }
}
