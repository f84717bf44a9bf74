//! Checks the documentation against the repository: docs/dependencies.md lists every direct dependency of every crate
//! with its users, and no other; the architecture pages name existing files and items; links have targets; there is a
//! single version.

mod figures;
mod limits;
pub(crate) mod metrics;
mod options;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum line length of the architecture pages, in characters.
const MAX_LINE: usize = 110;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the files below a folder as paths relative to the repository's root, except build artifacts.
fn files_in(folder: &str) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = match folder {
            "" => name.clone(),
            _ => format!("{folder}/{name}"),
        };
        match entry.file_type().unwrap().is_dir() {
            true if name == "target" || name == "node_modules" || name.starts_with('.') => {}
            true => files.extend(files_in(&path)),
            false => files.push(path),
        }
    }
    files
}

/// Returns the documentation pages.
fn pages() -> Vec<String> {
    let pages = files_in("")
        .into_iter()
        .filter(|path| path.ends_with(".md"));
    pages.filter(|path| path != "CHANGELOG.md").collect()
}

/// Returns the cells of a table row.
fn cells(row: &str) -> Vec<&str> {
    let row = row.trim().trim_start_matches('|').trim_end_matches('|');
    row.split('|').map(str::trim).collect()
}

/// Returns the words that can be names of items.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// Returns the text between backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Crates by dependency: `module`, `client`, `archive (tests)`.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Adds the dependencies in the manifest of a crate.
fn add_required(manifest: &str, by: &str, uses: &mut Uses) {
    let mut section = "";
    let mut add = |name: &str, by: String| {
        uses.entry(name.to_owned()).or_default().insert(by);
    };
    let mut in_tests = Vec::new();
    let mut plain = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line.trim();
            continue;
        }
        let name = line.split(['=', '.']).next().unwrap_or_default().trim();
        if name.is_empty() || name.starts_with('#') {
            continue;
        }
        match section {
            "[dependencies]" | "[build-dependencies]" => {
                plain.insert(name);
                add(name, by.to_owned());
            }
            "[dev-dependencies]" => in_tests.push(name),
            _ => {}
        }
    }
    for name in in_tests {
        if !plain.contains(name) {
            add(name, format!("{by} (tests)"));
        }
    }
}

/// Parses the tables of the page: the first column, and the list in the third one.
fn documented(page: &str) -> Uses {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| {
        let (name, rest) = row.split_once('`')?;
        let used_by = rest.split(" | ").nth(2)?;
        let used_by = used_by.split(", ").map(str::to_owned).collect();
        Some((name.to_owned(), used_by))
    })
    .collect()
}

#[test]
fn every_dependency_has_a_reason() {
    let root = root();
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let mut uses = Uses::new();
    add_required(&read(&root.join("Cargo.toml")), "module", &mut uses);
    let mut folders = vec![root.join("client"), root.join("redis-tests")];
    let crates = fs::read_dir(root.join("crates")).unwrap();
    folders.extend(crates.map(|folder| folder.unwrap().path()));
    for folder in folders {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        add_required(&read(&folder.join("Cargo.toml")), &name, &mut uses);
    }
    assert!(uses.len() > 50, "{uses:?}");
    let documented = documented(&read(&root.join("docs/dependencies.md")));
    assert_eq!(uses, documented, "manifests (left), page (right)");
}

#[test]
fn architecture_pages_name_existing_files() {
    let files = files_in("");
    // Returns the file at the path, or all files below the folder at the path.
    let at = |path: &str| -> Vec<&String> {
        let below = format!("{}/", path.trim_end_matches('/'));
        let is_meant = |file: &&String| **file == path || file.starts_with(&below);
        files.iter().filter(is_meant).collect()
    };
    let sources = files.iter().filter(|file| file.ends_with(".rs"));
    let sources: String = sources.map(|file| read(file)).collect();
    let mut wrong = Vec::new();
    let pages = pages()
        .into_iter()
        .filter(|page| page.starts_with("docs/architecture"));
    for page in pages {
        let text = read(&page);
        // Folders named on the page, to which paths may be relative.
        let named = code(&text).filter(|word| word.ends_with('/') && !at(word).is_empty());
        let named: BTreeSet<&str> = named.chain([""]).collect();
        // In a table of code locations, the header names a folder; a cell names a file in that folder and identifiers
        // in that file.
        let mut columns: Vec<&str> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let mut say = |what: String| wrong.push(format!("{page}:{}: {what}", number + 1));
            if line.chars().count() > MAX_LINE {
                say(format!("more than {MAX_LINE} characters"));
            }
            if !line.starts_with('|') {
                columns.clear();
            } else if line.contains("where is") {
                let folder = |cell| code(cell).next().unwrap_or_default();
                columns = cells(line).into_iter().map(folder).collect();
            }
            let words = line.split(|c: char| !c.is_ascii_alphanumeric() && !"_-./".contains(c));
            let words = words.map(|word| word.trim_start_matches(['.', '/']));
            for file in words.filter(|word| word.ends_with(".rs")) {
                let is_there = |folder: &&str| !at(&format!("{folder}{file}")).is_empty();
                if !named.iter().any(is_there) {
                    say(format!("there is no {file}"));
                }
            }
            let is_name = |word: &&str| word.contains('_') && names(word).eq([*word]);
            for name in code(line).filter(is_name) {
                if !sources.contains(name) {
                    say(format!("nothing is called {name}"));
                }
            }
            for (cell, folder) in cells(line).into_iter().zip(&columns).skip(1) {
                let mut meant = Vec::new();
                for word in code(cell).filter(|word| word != folder) {
                    if word.ends_with(".rs") || word.ends_with(".md") || word.ends_with('/') {
                        meant = at(&format!("{folder}{word}"));
                        if meant.is_empty() {
                            say(format!("{folder} has no {word}"));
                        }
                    } else if !meant
                        .iter()
                        .any(|file| names(&read(file)).any(|name| name == word))
                    {
                        say(format!("{meant:?} has no {word}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the anchors of a page's headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = prose(page).filter(|(_, line)| line.starts_with('#'));
    let anchor = |(_, line): (usize, &str)| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading
            .chars()
            .filter(|&c| c.is_alphanumeric() || " -_".contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// Returns the numbered lines of a page outside of examples.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    page.lines().enumerate().filter(move |(_, line)| {
        let fence = line.starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

#[test]
fn links_have_existing_targets() {
    let mut wrong = Vec::new();
    let mut links = 0;
    for page in pages() {
        let text = read(&page);
        let folder = Path::new(&page).parent().unwrap();
        for (number, line) in prose(&text) {
            let targets = line
                .split("](")
                .skip(1)
                .filter_map(|rest| rest.split(')').next());
            for target in targets.filter(|target| !target.contains("://")) {
                links += 1;
                let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
                let to = match path {
                    "" => root().join(&page),
                    _ => root().join(folder).join(path),
                };
                let there = match anchor {
                    "" => to.exists(),
                    _ => fs::read_to_string(&to).is_ok_and(|page| anchors(&page).contains(anchor)),
                };
                if !there {
                    wrong.push(format!("{page}:{}: {target}", number + 1));
                }
            }
        }
    }
    assert!(links > 100, "{links}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn our_packages_are_installed_from_files() {
    // The crates and packages are not published, and anyone could register their names.
    let commands = [
        "pip", "cargo", "npm", "npx", "apt", "apt-get", "docker", "podman",
    ];
    let mut wrong = Vec::new();
    let mut files = 0;
    for page in pages() {
        for (number, line) in read(&page).lines().enumerate() {
            let mut words = line.split([' ', '`', '"']).filter(|word| !word.is_empty());
            let Some(_) = words.find(|word| commands.contains(word)) else {
                continue;
            };
            let verb = words.next().unwrap_or_default();
            if !["install", "add", "pull", "run"].contains(&verb) {
                continue;
            }
            for package in
                words.filter(|word| word.contains("crawlspace") && !word.starts_with('-'))
            {
                files += usize::from(package.contains('/'));
                if !package.contains('/') {
                    wrong.push(format!("{page}:{}: {package}", number + 1));
                }
            }
        }
    }
    assert!(files > 2, "{files}");
    assert!(wrong.is_empty(), "from a registry:\n{}", wrong.join("\n"));
}

#[test]
fn version_is_the_same_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    let changes = read("CHANGELOG.md");
    let released = format!("## [{version}] - 20");
    assert!(
        changes.lines().any(|line| line.starts_with(&released)),
        "CHANGELOG.md has no \"{released}\""
    );
    // Each pair is the end of a path, and the text before the version of a workspace crate, a package or an
    // image in this file.
    let places = [
        ("Cargo.toml", "\", version = \""),
        ("pyproject.toml", "\nversion = \""),
        ("pyproject.toml", "\"crawlspace=="),
        ("package.json", "\n  \"version\": \""),
        ("", "crawlspace_"),
        ("", "/crawlspace:server-"),
        ("", "/crawlspace:serve-"),
        ("", "/crawlspace:frontier-"),
        ("", "/crawlspace:module-"),
    ];
    let mut counts = [0; 9];
    let mut wrong = Vec::new();
    let is_text = |path: &String| {
        [".toml", ".md", ".yaml", "package.json"]
            .iter()
            .any(|end| path.ends_with(end))
    };
    for path in files_in("").into_iter().filter(is_text) {
        let text = read(&path);
        for (count, (end, before)) in counts.iter_mut().zip(places) {
            if !path.ends_with(end) {
                continue;
            }
            for rest in text.split(before).skip(1) {
                let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
                let said = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
                *count += usize::from(!said.is_empty());
                if !said.is_empty() && said != version {
                    wrong.push(format!("{path}: {before}{said}"));
                }
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    assert!(wrong.is_empty(), "not {version}:\n{}", wrong.join("\n"));
}

#[test]
fn guide_has_a_remedy_for_each_alert() {
    let rules = read("packaging/prometheus/alerts.yaml");
    let tests = read("packaging/prometheus/alerts_test.yaml");
    let alerts: BTreeSet<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    let guide = read("docs/guide/operations.md");
    let rows = guide
        .lines()
        .filter(|line| line.starts_with("| `Crawlspace"));
    let documented: BTreeSet<&str> = rows.filter_map(|row| code(row).next()).collect();
    assert_eq!(alerts, documented);
    for alert in alerts {
        assert!(tests.contains(&format!("alertname: {alert}\n")), "{alert}");
    }
}
