//! Generates URLs of all shapes.

use redis_tests::Rng;

use crate::words::{list, word};

/// Returns at least `count` URLs from a seeded generator: some fixed ones, then random ones up to
/// the count.
pub fn some(rng: &mut Rng, count: usize) -> Vec<String> {
    let mut urls: Vec<String> = list("url fixed").into_iter().map(str::to_owned).collect();
    urls.push(format!("http://{}/", "1".repeat(4300)));
    urls.push(format!("http://{}/", "1".repeat(4301)));
    urls.push(format!("http://{}/", "0".repeat(5000)));
    urls.push(format!("http://a:{}80/", "0".repeat(4299)));
    urls.push(format!("http://a/{}", "a/../".repeat(2000)));
    urls.push(format!("http://a/{}41", "%25".repeat(2000)));
    urls.push(format!("http://{}.example/", "\u{e9}".repeat(70)));
    while urls.len() < count {
        let url = match rng.below(20) {
            0 => text(rng, 30),
            1 => script(rng),
            _ => url(rng),
        };
        let url = match rng.below(30) {
            0 => spoilt(rng, &url),
            1 => url.to_uppercase(),
            _ => url,
        };
        urls.push(url);
    }
    urls
}

fn url(rng: &mut Rng) -> String {
    let mut url = String::new();
    url += word(rng, "url schemes");
    if rng.chance(5) {
        url += word(rng, "url schemes");
    }
    if rng.chance(10) {
        url += word(rng, "url users");
    }
    url += &host(rng);
    if rng.chance(20) {
        url += word(rng, "url ports");
    }
    if rng.chance(90) {
        for _ in 0..rng.below(5) {
            url.push('/');
            url += &part(rng, "url paths");
        }
        if rng.chance(40) {
            url.push('/');
        }
    }
    if rng.chance(45) {
        url.push('?');
        let count = rng.below(6);
        for i in 0..count {
            if i > 0 {
                url.push('&');
            }
            url += &parameter(rng);
        }
        if rng.chance(10) {
            url += *rng.pick(&["&", "?", "&&", "=", "#"]);
        }
    }
    if rng.chance(10) {
        url.push('#');
        url += &part(rng, "url paths");
    }
    url
}

fn host(rng: &mut Rng) -> String {
    match rng.below(10) {
        0 => word(rng, "url hosts").to_owned(),
        1 => {
            let count = 1 + rng.below(5);
            let numbers: Vec<String> = (0..count).map(|_| number(rng)).collect();
            numbers.join(".")
        }
        2 => script(rng)
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned(),
        _ => {
            let mut host = String::new();
            host += word(rng, "www");
            for _ in 0..1 + rng.below(3) {
                host += &part(rng, "url labels");
                host += word(rng, "dots");
            }
            host += word(rng, "top names");
            host
        }
    }
}

fn number(rng: &mut Rng) -> String {
    match rng.below(8) {
        0 => format!("0{:o}", rng.below(300)),
        1 => format!("{}", rng.below(1 << 34)),
        2 => format!("0x{:x}", rng.below(300)),
        3 => format!("00{}", rng.below(20)),
        4 => String::from("0"),
        _ => format!("{}", rng.below(280)),
    }
}

/// Returns a host name in any script.
fn script(rng: &mut Rng) -> String {
    let mut url = String::from("http://");
    for _ in 0..1 + rng.below(4) {
        let c = match rng.below(6) {
            0 => rng.below(0x11_0000),
            1 => rng.below(0x1_0000),
            2 => 0x300 + rng.below(0x100),
            3 => 0x590 + rng.below(0x200),
            4 => 0x80 + rng.below(0x500),
            _ => u64::from('a') + rng.below(26),
        };
        url.extend(char::from_u32(c as u32));
        if rng.chance(10) {
            url.push('.');
        }
    }
    if rng.chance(50) {
        url += ".example";
    }
    url.push('/');
    url
}

fn part(rng: &mut Rng, parts: &str) -> String {
    match rng.below(12) {
        0 => text(rng, 6),
        1 => word(rng, parts).to_owned() + word(rng, parts),
        2 => escapes(rng),
        _ => word(rng, parts).to_owned(),
    }
}

fn escapes(rng: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..1 + rng.below(4) {
        match rng.below(6) {
            0 => text += &format!("%{:02x}", rng.below(256)),
            1 => text += &format!("%{:02X}", rng.below(256)),
            2 => text += &format!("%25{:02x}", rng.below(256)),
            3 => text += word(rng, "escapes"),
            4 => text += word(rng, "reserved escapes"),
            _ => text += *rng.pick(&["a", "B", "1", "."]),
        }
    }
    text
}

fn text(rng: &mut Rng, most: u64) -> String {
    let mut text = String::new();
    for _ in 0..rng.below(most) {
        let c = match rng.below(10) {
            0 => rng.below(0x20),
            1 => 0x7f + rng.below(0x200),
            2 => rng.below(0x1_0000),
            3..=5 => u64::from(b'!') + rng.below(32),
            _ => 0x20 + rng.below(0x60),
        };
        text.extend(char::from_u32(c as u32));
    }
    text
}

fn parameter(rng: &mut Rng) -> String {
    if rng.chance(25) {
        return session(rng);
    }
    let name = part(rng, "url names");
    match rng.below(5) {
        0 => name,
        1 => format!("{name}="),
        _ => format!("{name}={}", part(rng, "url values")),
    }
}

fn session(rng: &mut Rng) -> String {
    let name = word(rng, "session ids");
    let length = *rng.pick(&[0, 1, 8, 23, 24, 25, 31, 32, 32, 32, 33]);
    let letters = rng
        .pick(&["0123456789abcdef", "ABCDEFGHIJKLMNOP", "abcdefgh01-._&=~"])
        .as_bytes();
    let value = (0..length).map(|_| char::from(*rng.pick(letters)));
    let value: String = value.collect();
    format!("{name}{value}")
}

/// Damages a URL: removes, duplicates or replaces characters.
fn spoilt(rng: &mut Rng, url: &str) -> String {
    let mut chars: Vec<char> = url.chars().collect();
    for _ in 0..1 + rng.below(3) {
        let at = rng.below(chars.len() as u64 + 1) as usize;
        let c = *rng.pick(&[
            ' ', '\t', '\n', '\r', '\u{b}', '\u{c}', '\0', '\u{7f}', '#', '?', '%', '/', ':', '@',
            '[', ']', '&', '=', '.', '\\', '"', '<', '\u{a0}', '\u{200b}', '\u{feff}', '(', ')',
        ]);
        if rng.chance(30) && at < chars.len() {
            chars.remove(at);
        } else {
            chars.insert(at, c);
        }
    }
    chars.into_iter().collect()
}
