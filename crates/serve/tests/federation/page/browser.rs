//! Tests of the page in headless Chromium.

use std::path::{Path, PathBuf};

use redis_tests::{assert_contains, assert_lacks};
use serde_json::Value;

use super::{hostile_archive, search};
use crate::browser::chromium;
use crate::index_api::archive;
use crate::serving::Stage;

/// Takes a screenshot, which is kept in the target folder for manual inspection.
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
        // An empty page has a smaller file.
        assert!(
            picture.len() > 10_000,
            "{}: {} bytes",
            file.display(),
            picture.len()
        );
    }
}

#[test]
fn browser_shows_captures_and_calendar() {
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

/// Reports the positions of important elements, in pixels, as the title of the page around the frame.
const MEASURE: &str = "<script>
    const rights = query => [...document.querySelectorAll(query)].map(it => it.getBoundingClientRect().right);
    const text = node => { const range = document.createRange(); range.selectNodeContents(node); return range.getBoundingClientRect(); };
    const rows = [...document.querySelectorAll('td.get')].map(it => it.parentElement);
    parent.document.title = JSON.stringify({
        width: document.documentElement.clientWidth,
        page: document.documentElement.scrollWidth,
        controls: rights('.more a, form *'),
        links: rights('.get a'),
        cells: rows.flatMap(row => [...row.children]).map(it => it.getBoundingClientRect().right),
        urls: [...document.querySelectorAll('td.url')].map(it => it.getBoundingClientRect().width),
        lower: rows.map(row => text(row.querySelector('.get a')).top - text(row.querySelector('.time')).top),
    });
</script>";

/// Renders a page in a frame of that width, and returns the positions. Returns `None` if there is no browser.
fn measured(stage: &Stage, target: &str, width: u32) -> Option<Value> {
    let html = stage.get(target).text();
    let style = stage.get("/static/page.css").text();
    // The policy of the page forbids scripts, so measure a copy of the page.
    let link = "<link rel=\"stylesheet\" href=\"./static/page.css\">";
    assert_contains(&html, link);
    let copy = html.replace(link, &format!("<style>{style}</style>"));
    let copy = copy.replace("</body>", &format!("{MEASURE}</body>"));
    let copy = copy.replace('&', "&amp;").replace('"', "&quot;");
    // A browser window has a minimum width, a frame has none. A tall frame has no scroll bar.
    let frame = format!(
        "<!DOCTYPE html><iframe style=\"width:{width}px;height:4000px;border:0\" srcdoc=\"{copy}\"></iframe>"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    std::fs::write(&file, frame).unwrap();
    let url = format!("file://{}", file.display());
    let (dom, _) = chromium(&["--window-size=1200,1000", "--dump-dom"], &url)?;
    let title = dom.split("<title>").nth(1).unwrap();
    let measured: Value = serde_json::from_str(title.split('<').next().unwrap()).unwrap();
    assert_eq!(measured["width"], width, "{measured}");
    Some(measured)
}

/// Returns the numbers of a list, which must have at least `count` of them.
#[track_caller]
fn numbers(measured: &Value, name: &str, count: usize) -> Vec<f64> {
    let list = measured[name].as_array().unwrap();
    assert!(list.len() >= count, "{name}: {measured}");
    list.iter().map(|it| it.as_f64().unwrap()).collect()
}

#[test]
fn phone_shows_captures_and_their_urls() {
    let (_dir, stage) = archive();
    let target = search("both", "example.com/*", "2015");
    for width in [360, 400] {
        let Some(measured) = measured(&stage, &target, width) else {
            return;
        };
        let right = f64::from(width);
        assert!(measured["page"].as_f64().unwrap() <= right, "{measured}");
        // Three captures, each with its content, its record, and six columns.
        for (name, count) in [("controls", 4), ("links", 6), ("cells", 18)] {
            for position in numbers(&measured, name, count) {
                assert!(position <= right, "{name}: {position} in {measured}");
            }
        }
        for url in numbers(&measured, "urls", 3) {
            assert!(url >= right / 2.0, "{measured}");
        }
    }
}

#[test]
fn links_are_on_the_line_of_their_row() {
    let (_dir, stage) = archive();
    let target = search("both", "example.com/*", "2015");
    for width in [400, 1000] {
        let Some(measured) = measured(&stage, &target, width) else {
            return;
        };
        for lower in numbers(&measured, "lower", 3) {
            assert!(lower.abs() < 1.0, "{width}: {measured}");
        }
    }
}

#[test]
fn browser_runs_no_hostile_script() {
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
