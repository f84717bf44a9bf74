//! Tests of the configuration parser with all forms of the settings.

mod examples;
mod forms;
mod hostile;
mod indexes;
mod pywb;
mod show;
mod wrong;

use std::path::Path;

use super::{Config, ConfigErrors, Remark};

/// Parses `text` as a file in `/etc/archive`, with one environment variable.
fn parse(text: &str) -> Result<(Config, Vec<Remark>), ConfigErrors> {
    let variable = |name: &str| (name == "PLACE").then(|| "/srv/index".to_owned());
    Config::parse_with(text, "config.yaml", Path::new("/etc/archive"), &variable)
}

/// Parses `text`, and asserts that it has no errors and no warnings.
fn good(text: &str) -> Config {
    match parse(text) {
        Ok((config, warnings)) => {
            assert!(warnings.is_empty(), "{warnings:?}\n{text}");
            config
        }
        Err(errors) => panic!("{errors}\n{text}"),
    }
}

/// Returns the error message of an invalid configuration.
fn refusal(text: &str) -> String {
    match parse(text) {
        Ok((config, _)) => panic!("{text}\nis parsed as {config:#?}"),
        Err(errors) => errors.to_string(),
    }
}
