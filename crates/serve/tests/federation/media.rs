//! Tests audio playback in a browser: playback starts, and seeking requests ranges of the capture.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis_tests::http::ask;
use redis_tests::{ScriptedHost, answer};
use serde_json::json;

use super::browser::said;
use super::deviations::parts::capture;
use super::shelf::Shelf;
use crate::serving::Stage;

const TIME: &str = "20160102030405";
const SECONDS: u32 = 60;
/// Samples per second, of four bytes each.
const RATE: u32 = 48_000;

/// Page that plays the sound of its query from the 50th second on, and reports the result.
const PAGE: &str = r#"<!doctype html><audio crossorigin preload=metadata muted></audio><script>
const sound = document.querySelector("audio");
const say = (what) => fetch("/say", {method: "POST", body: JSON.stringify(what)});
const until = (name) => new Promise((done, failed) => {
  sound.addEventListener(name, done, {once: true});
  sound.addEventListener("error", () => failed(sound.error.message), {once: true});
});
(async () => {
  sound.src = new URLSearchParams(location.search).get("src");
  await until("loadedmetadata");
  sound.currentTime = 50;
  await until("seeked");
  const seeked = sound.currentTime;
  sound.playbackRate = 8;
  await sound.play();
  while (sound.currentTime <= 52) await until("timeupdate");
  sound.currentTime = 20;
  await until("seeked");
  while (sound.currentTime <= 24) await until("timeupdate");
  const seekable = [...Array(sound.seekable.length).keys()].map((n) => [sound.seekable.start(n), sound.seekable.end(n)]);
  await say({seeked, duration: sound.duration, seekable});
})().catch((error) => say({failed: String(error)}));
</script>"#;

/// Creates a WAV file.
fn wav() -> Vec<u8> {
    let (width, size) = (4, SECONDS * RATE * 4);
    let numbers = |numbers: &[u32]| -> Vec<u8> {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
        bytes.collect()
    };
    // PCM samples, two channels, 16 bits per channel.
    let format = numbers(&[16, 1 | 2 << 16, RATE, RATE * width, width | 16 << 16]);
    let mut file = [b"RIFF", &numbers(&[size + 36])[..], b"WAVEfmt ", &format].concat();
    file.extend_from_slice(&[b"data", &numbers(&[size])[..]].concat());
    file.extend((0..size).map(|n| (n / 4 * 7 % 251) as u8));
    file
}

/// A request for a range of the sound, and its response.
#[derive(Clone, Debug)]
struct Passed {
    range: String,
    status: u16,
    content_range: String,
    length: usize,
}

impl Passed {
    /// Returns the start of the requested range. Returns `None` if the response is not exactly this range.
    fn first(&self, size: usize) -> Option<usize> {
        let first = self.range.strip_prefix("bytes=")?.strip_suffix('-')?;
        let first: usize = first.parse().ok()?;
        let last = first + self.length.checked_sub(1)?;
        let is_right = self.content_range == format!("bytes {first}-{last}/{size}");
        (self.status == 206 && is_right).then_some(first)
    }
}

/// Forwards requests to a server, and records them with their responses.
fn passage(stage: &Stage) -> (ScriptedHost, Arc<Mutex<Vec<Passed>>>) {
    let (address, log) = (stage.address(), Arc::<Mutex<Vec<Passed>>>::default());
    let passed = Arc::clone(&log);
    let host = ScriptedHost::start(move |asked| {
        let named = |name| Some((name, asked.field(name)?));
        let fields: Vec<_> = ["origin", "range", "if-range"]
            .into_iter()
            .filter_map(named)
            .collect();
        let got = ask(address, &asked.method, &asked.target, &fields, b"").unwrap();
        let shown = |field: Option<&str>| field.unwrap_or_default().to_owned();
        lock(&passed).push(Passed {
            range: shown(asked.field("range")),
            status: got.status,
            content_range: shown(got.field("content-range")),
            length: got.body.len(),
        });
        let fields = got.fields.iter();
        let fields: Vec<_> = fields
            .filter(|(name, _)| !["content-length", "connection"].contains(&&**name))
            .map(|(name, value)| (&**name, &**value))
            .collect();
        answer(got.status, &fields, &got.body)
    });
    (host, log)
}

fn lock(log: &Mutex<Vec<Passed>>) -> MutexGuard<'_, Vec<Passed>> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn browser_seeks_in_an_audio_file() {
    let sound = wav();
    let size = sound.len();
    let mut shelf = Shelf::new();
    let url = |name: &str| format!("http://example.com/{name}.wav");
    let head = |status| format!("HTTP/1.1 {status}\r\nContent-Type: audio/wav\r\n");
    let http = head("200 OK") + "\r\n";
    capture(&mut shelf, &url("whole"), TIME, &http, &sound, "200");
    // First byte, end of the recording, and requested end of each part. The closest capture comes last.
    let parts = [
        (
            "pieces",
            [
                (0, 4_000_000, 4_000_000),
                (4_000_000, 8_000_000, 8_000_000),
                (8_000_000, size, size),
            ],
        ),
        (
            "cut",
            [
                (9_000_000, size, size),
                (3_500_000, 9_200_000, size),
                (0, 3_600_000, size),
            ],
        ),
    ];
    for (name, parts) in parts {
        for (n, (first, end, announced)) in parts.into_iter().enumerate() {
            let range = format!("bytes {first}-{}/{size}", announced - 1);
            let http = format!(
                "{}Content-Range: {range}\r\n\r\n",
                head("206 Partial Content")
            );
            let (time, part) = (format!("2016010203040{n}"), &sound[first..end]);
            capture(&mut shelf, &url(name), &time, &http, part, "206");
        }
    }
    let page = ScriptedHost::start(|_| answer(200, &[("Content-Type", "text/html")], PAGE));
    let (index, warcs) = (shelf.write_index("index.cdxj"), shelf.warcs());
    let config = format!("collections:\n  c: {{index: {index}, resource: {warcs}}}\n");
    let stage = Stage::start_for(&page.url(""), &config);
    for name in ["whole", "pieces", "cut"] {
        let (passage, log) = passage(&stage);
        let src = passage.url(&format!("/c/{TIME}id_/{}", url(name)));
        let Some(heard) = said(&page, &page.url(&format!("/?src={src}"))) else {
            return;
        };
        let log = lock(&log).clone();
        let expected = json!({"seeked": 50, "duration": SECONDS, "seekable": [[0, SECONDS]]});
        assert_eq!(heard, expected, "{name}: {log:#?}");
        let firsts: Vec<_> = log.iter().map(|one| one.first(size)).collect();
        assert!(firsts.iter().all(Option::is_some), "{name}: {log:#?}");
        // The browser requested a range near the position instead of reading everything before it.
        let moment = |seconds: u32| Some((seconds * RATE * 4) as usize);
        let is_at = |first: &Option<usize>| (moment(48)..=moment(50)).contains(first);
        assert!(firsts.iter().any(is_at), "{name}: {log:#?}");
    }
}
