//! Runs headless Chromium, and reports what pages see in it.

use std::process::Command;

use redis_tests::packages::left_out;
use redis_tests::{Asked, Program, ScriptedHost, until_some};
use serde_json::Value;

/// Arguments of every browser in these tests.
const ARGUMENTS: [&str; 6] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-dev-shm-usage",
];

/// Returns the browser's output (stdout and stderr), or `None` if there is no browser.
pub fn chromium(arguments: &[&str], url: &str) -> Option<(String, String)> {
    let home = tempfile::tempdir().unwrap();
    let profile = format!("--user-data-dir={}", home.path().display());
    // `timeout` ends a browser that hangs, so that the test ends as well.
    let output = Command::new("timeout")
        .args(["120", "chromium"])
        .args(ARGUMENTS)
        .args(["--enable-logging=stderr", &profile])
        .args(arguments)
        .arg(url)
        .env("HOME", home.path())
        .output()
        .expect("timeout is a part of every system");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(127) {
        left_out("Chromium", &said);
        return None;
    }
    assert!(output.status.success(), "{}: {said}", output.status);
    Some((String::from_utf8_lossy(&output.stdout).into_owned(), said))
}

/// Opens a page of the host, and returns what the page posts to `/say`. Returns `None` if there is no
/// browser.
pub fn said(host: &ScriptedHost, url: &str) -> Option<Value> {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec chromium \"$@\"", "sh"])
        .args(ARGUMENTS)
        .arg(format!("--user-data-dir={}", home.path().display()))
        .args(["--enable-logging=stderr", "--remote-debugging-port=0"])
        .args(["--autoplay-policy=no-user-gesture-required", url])
        .env("HOME", home.path());
    let mut browser = Program::start(command);
    let is_said = |asked: &Asked| asked.line().starts_with("POST /say ");
    let before = host.asked().iter().filter(|asked| is_said(asked)).count();
    until_some("the page posts its result", || {
        if let Some(ended) = browser.ended() {
            assert_eq!(ended.status.code(), Some(127), "{}", ended.errors);
            left_out("Chromium", &ended.errors);
            return Some(None);
        }
        let said = host.asked();
        let said = said.iter().filter(|asked| is_said(asked)).nth(before)?;
        Some(Some(serde_json::from_slice(&said.body).unwrap()))
    })
}
