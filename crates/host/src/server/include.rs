//! Detects configurations that include the configuration file of the Debian package. Version 0.1.0
//! of the module was loaded in this way. `CONFIG REWRITE` adds a `loadmodule` line to a
//! configuration with such an include. A server on which the package is not installed cannot find
//! the module file named in that line.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Folder of the file that the package installs for inclusion.
const FOLDER: &str = "/usr/share/redis-crawlspace/";

/// Path of the module that the package installs.
const MODULE: &str = "/usr/lib/redis/modules/libcrawlspace.so";

/// Maximum number of bytes read from a file.
const MAX_BYTES: u64 = 1 << 20;

/// Returns advice on what to change in this configuration file, or in a file that it includes.
/// Returns `None` if nothing must change. Treats an unreadable file as empty.
pub fn advice(path: &Path) -> Option<String> {
    let mut lines = lines_of(path);
    let nested: Vec<PathBuf> = lines.iter().filter_map(Line::included).collect();
    lines.extend(nested.iter().flat_map(|path| lines_of(path)));
    let include = lines.iter().find(|line| line.includes_ours())?;
    let (file, number, text) = (include.file.display(), include.number, &include.text);
    Some(if lines.iter().any(Line::loads) {
        format!("{file}:{number}: delete this line, because another line loads the module: {text}")
    } else {
        format!(
            "{file}:{number}: replace this line with `loadmodule {MODULE}`, which CONFIG REWRITE keeps: {text}"
        )
    })
}

/// A line of a configuration file.
struct Line {
    file: PathBuf,
    number: usize,
    text: String,
}

impl Line {
    /// Returns the argument of a directive if the line contains this directive.
    fn argument(&self, directive: &str) -> Option<&str> {
        let (name, rest) = self.text.split_once([' ', '\t'])?;
        let rest = rest.trim().trim_matches(['"', '\'']);
        name.eq_ignore_ascii_case(directive).then_some(rest)
    }

    fn includes_ours(&self) -> bool {
        let path = self.argument("include");
        path.is_some_and(|path| path.starts_with(FOLDER))
    }

    fn included(&self) -> Option<PathBuf> {
        let path = self.argument("include").map(PathBuf::from)?;
        (path.is_absolute() && !self.includes_ours()).then_some(path)
    }

    fn loads(&self) -> bool {
        let path = self.argument("loadmodule");
        path.is_some_and(|path| path.contains("libcrawlspace.so"))
    }
}

/// Reads the lines of a regular file.
fn lines_of(path: &Path) -> Vec<Line> {
    let mut bytes = Vec::new();
    // Reading a pipe such as /dev/stdin would wait, so skip it.
    if path.metadata().is_ok_and(|file| file.is_file()) {
        let file = File::open(path);
        let _ = file.and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().enumerate().map(|(at, text)| Line {
        file: path.to_owned(),
        number: at + 1,
        text: text.trim().to_owned(),
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice_for(name: &str, text: &str) -> Option<String> {
        let folder = std::env::temp_dir().join(format!("crawlspace-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("redis.conf");
        std::fs::write(&path, text.replace("FOLDER", folder.to_str().unwrap())).unwrap();
        let nested = "\n  Include \"/usr/share/redis-crawlspace/load.conf\"\n";
        std::fs::write(folder.join("nested.conf"), nested).unwrap();
        let advice = advice(&path);
        std::fs::remove_dir_all(&folder).unwrap();
        advice.map(|text| text.replace(folder.to_str().unwrap(), "FOLDER"))
    }

    #[test]
    fn single_include_is_to_be_replaced() {
        let text = "port 0\ninclude /usr/share/redis-crawlspace/*.conf\n";
        assert_eq!(
            advice_for("alone", text).unwrap(),
            "FOLDER/redis.conf:2: replace this line with `loadmodule /usr/lib/redis/modules/libcrawlspace.so`, \
             which CONFIG REWRITE keeps: include /usr/share/redis-crawlspace/*.conf"
        );
    }

    #[test]
    fn include_with_a_loadmodule_line_is_to_be_deleted() {
        let text = "include FOLDER/nested.conf\nloadmodule /x/libcrawlspace.so slice-us 400\n";
        assert_eq!(
            advice_for("beside", text).unwrap(),
            "FOLDER/nested.conf:2: delete this line, because another line loads the module: \
             Include \"/usr/share/redis-crawlspace/load.conf\""
        );
    }

    #[test]
    fn other_configurations_are_not_reported() {
        let line = "loadmodule /usr/lib/redis/modules/libcrawlspace.so\n";
        assert_eq!(advice_for("line", line), None);
        let comment = "# include /usr/share/redis-crawlspace/*.conf\ninclude FOLDER\ninclude\n";
        assert_eq!(advice_for("comment", comment), None);
        for unreadable in ["/nonexistent/redis.conf", "/", "/dev/zero"] {
            assert_eq!(advice(Path::new(unreadable)), None);
        }
    }
}
