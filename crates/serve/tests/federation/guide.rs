//! Tests of the examples in the federation guides and in docs/guide/pywb.md.

use std::path::Path;

use crawlspace_serve::Federation;
use crawlspace_serve::config::Config;
use crawlspace_warc::{Compression, Writer};
use redis_tests::examples::matches_line;
use redis_tests::rows;

use crate::serving::Stage;

fn page(name: &str) -> String {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    std::fs::read_to_string(guide.join(name)).unwrap()
}

/// Returns the fenced code blocks of a language, without their indentation.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}");
    let mut blocks = Vec::new();
    let mut inside: Option<(usize, String)> = None;
    for line in page.lines() {
        inside = match inside {
            None if line.trim_start() == fence => Some((line.len() - fence.len(), String::new())),
            Some((_, block)) if line.trim_start() == "```" => {
                blocks.push(block);
                None
            }
            Some((indent, block)) => {
                let line = line.get(indent..).unwrap_or_default();
                Some((indent, block + line + "\n"))
            }
            None => None,
        };
    }
    blocks
}

#[test]
fn every_configuration_of_the_guide_is_valid() {
    let mut blocks = blocks(&page("federation.md"), "yaml");
    for name in ["federation-apis.md", "federation-access.md", "pywb.md"] {
        let more = self::blocks(&page(name), "yaml");
        assert!(!more.is_empty(), "{name}");
        blocks.extend(more);
    }
    assert!(blocks.len() > 15);
    let folder = tempfile::tempdir().unwrap();
    // Files of access rules and tokens must exist when the configuration is opened.
    std::fs::write(folder.path().join("token"), "a-token-of-enough-characters").unwrap();
    let rules = "org,example)/private - {\"access\": \"exclude\"}\n";
    std::fs::write(folder.path().join("access.aclj"), rules).unwrap();
    let policies = r#"{"policies": [], "rules": []}"#;
    std::fs::write(folder.path().join("access.json"), policies).unwrap();
    for text in blocks {
        let (mut config, remarks) = Config::parse(&text, "guide", folder.path()).unwrap();
        assert_eq!(remarks.len(), 0, "{text}");
        assert!(!config.collections.is_empty() || config.indexes.is_some());
        if let Some(indexes) = &mut config.indexes {
            indexes.cache_dir = folder.path().to_owned();
        }
        Federation::open(&config).unwrap();
    }
}

/// Creates the guide's example archive: one page, captured twice.
fn archive(folder: &Path) {
    std::fs::create_dir_all(folder.join("local/index")).unwrap();
    std::fs::create_dir_all(folder.join("local/warcs")).unwrap();
    let mut file = Vec::new();
    let mut index = String::new();
    for year in [2024, 2026] {
        let body = format!("this is {year}");
        let digest = sha1_smol::Sha1::from(&body).digest().bytes();
        let digest = format!("sha1:{}", data_encoding::BASE32.encode(&digest));
        let block = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let date = format!("{year}-01-02T03:04:05Z");
        let fields: [(&str, &[u8]); 6] = rows![
            "WARC-Type", b"response";
            "WARC-Target-URI", b"http://example.com/";
            "WARC-Date", date.as_bytes();
            "WARC-Record-ID", b"<urn:uuid:00000000-0000-4000-8000-000000000000>";
            "WARC-Payload-Digest", digest.as_bytes();
            "Content-Type", b"application/http; msgtype=response";
        ];
        let offset = file.len();
        let mut warc = Writer::new(&mut file, Compression::PerRecord);
        let length = warc.write(&fields, block.as_bytes()).unwrap();
        index.push_str(&format!(
            "com,example)/ {year}0102030405 {{\"url\": \"http://example.com/\", \"mime\": \"text/html\", \
             \"status\": \"200\", \"digest\": \"{digest}\", \"length\": \"{length}\", \"offset\": \"{offset}\", \
             \"filename\": \"example.warc.gz\"}}\n"
        ));
    }
    std::fs::write(folder.join("local/warcs/example.warc.gz"), file).unwrap();
    std::fs::write(folder.join("local/index/example.cdxj"), index).unwrap();
}

#[test]
fn quick_start_of_the_guide_works() {
    let page = page("federation.md");
    let folder = tempfile::tempdir().unwrap();
    archive(folder.path());
    let config = &blocks(&page, "yaml")[0];
    let config = config.replace("./", &format!("{}/", folder.path().display()));
    let stage = Stage::start(&config);
    let mut asked = 0;
    for block in blocks(&page, "curl") {
        let mut lines = block.lines();
        let command = lines.next().unwrap();
        let target = command.strip_prefix("$ curl 'http://127.0.0.1:8080");
        let target = target.unwrap();
        let answer = stage.get(target.strip_suffix('\'').unwrap());
        assert_eq!(answer.status, 200, "{command}: {}", answer.text());
        let text = answer.text();
        let mut got = text.lines();
        for expected in lines {
            if expected == "<any>" {
                break;
            }
            let got = got.next().unwrap_or("nothing more");
            assert!(
                matches_line(expected, got),
                "{command}\n  {expected}\n  {got}"
            );
        }
        asked += 1;
    }
    assert_eq!(asked, 2);
}
