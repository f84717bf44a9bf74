//! The page in headless Chromium.

use std::path::{Path, PathBuf};

use redis_tests::{assert_contains, assert_lacks};

use super::{hostile_archive, search};
use crate::browser::chromium;
use crate::index_api::archive;

/// A picture of the page, which stays in the target folder for people.
fn picture(name: &str, arguments: &[&str], url: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    std::fs::create_dir_all(&folder).unwrap();
    let file: PathBuf = folder.join(name);
    let _ = std::fs::remove_file(&file);
    let screenshot = format!("--screenshot={}", file.display());
    let arguments: Vec<&str> = arguments.iter().copied().chain([&*screenshot]).collect();
    if chromium(&arguments, url).is_some() {
        let picture = std::fs::read(&file).unwrap();
        assert!(picture.starts_with(b"\x89PNG"));
        // One that shows nothing is smaller.
        assert!(
            picture.len() > 10_000,
            "{}: {} bytes",
            file.display(),
            picture.len()
        );
    }
}

#[test]
fn a_browser_shows_captures_and_calendar() {
    let (_dir, stage) = archive();
    let url = format!(
        "{}{}",
        stage.url(),
        search("both", "example.com/*", "201501")
    );
    let Some((dom, said)) = chromium(&["--dump-dom"], &url) else {
        return;
    };
    assert_contains(&dom, "<caption>Captures of January 2015</caption>");
    assert_contains(&dom, "<td class=\"time\">2015-01-01 00:00:00</td>");
    assert_contains(&dom, "<option value=\"both\" selected=\"\">both</option>");
    assert_lacks(&said, "Content Security Policy");
    picture("wide.png", &["--window-size=1000,1000"], &url);
    picture("phone.png", &["--window-size=420,1000"], &url);
    picture(
        "dark.png",
        &[
            "--window-size=1000,1000",
            "--blink-settings=preferredColorScheme=0",
        ],
        &url,
    );
    let years = format!("{}{}", stage.url(), search("both", "example.com/*", ""));
    picture("years.png", &["--window-size=1000,1000"], &years);
}

/// Reports where the ways to captures are, and the parts of the page that are wider than it.
const MEASURE: &str = "<script>
    const width = document.documentElement.clientWidth;
    const right = [...document.querySelectorAll('.get a, .more a, form *')].map(it => it.getBoundingClientRect().right);
    const page = document.documentElement.scrollWidth;
    document.title = `width ${width} links ${right.length} farthest ${Math.ceil(Math.max(...right))} page ${page}`;
</script>";

#[test]
fn on_a_phone_the_ways_to_captures_are_in_sight() {
    let (_dir, stage) = archive();
    let target = search("both", "example.com/*", "2015");
    let html = stage.get(&target).text();
    let style = stage.get("/static/page.css").text();
    // The policy of the page allows no script, so a copy of it is measured.
    let link = "<link rel=\"stylesheet\" href=\"./static/page.css\">";
    assert_contains(&html, link);
    let copy = html.replace(link, &format!("<style>{style}</style>"));
    let copy = copy.replace("</body>", &format!("{MEASURE}</body>"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    std::fs::write(&file, copy).unwrap();
    let url = format!("file://{}", file.display());
    let arguments = ["--window-size=360,800", "--dump-dom"];
    let Some((dom, _)) = chromium(&arguments, &url) else {
        return;
    };
    let title = dom.split("<title>").nth(1).unwrap();
    let title = title.split('<').next().unwrap();
    let words: Vec<&str> = title.split(' ').collect();
    let number = |name: &str| -> f64 {
        let at = words.iter().position(|word| *word == name);
        let at = at.unwrap_or_else(|| panic!("no {name} in {title:?}"));
        words[at + 1].parse().unwrap()
    };
    let width = number("width");
    assert!((300.0..=512.0).contains(&width), "{title}");
    // Content and record of each of three captures.
    assert!(number("links") >= 6.0, "{title}");
    assert!(number("farthest") <= width, "{title}");
    assert!(number("page") <= width, "{title}");
}

#[test]
fn a_browser_runs_nothing_that_strangers_wrote() {
    let (_dir, stage) = hostile_archive();
    let url = format!("{}{}", stage.url(), search("both", "example.com", ""));
    let Some((dom, said)) = chromium(&["--dump-dom"], &url) else {
        return;
    };
    assert_contains(&dom, "&lt;script&gt;alert(1)&lt;/script&gt;");
    for element in ["<script", "<img", "<iframe", "href=\"javascript:"] {
        assert!(!dom.contains(element), "{element} in {dom}");
    }
    assert_lacks(&said, "Content Security Policy");
}
