//! URLs of all shapes.

use redis_tests::Rng;

/// At least `count` URLs from a seeded generator: some fixed ones, then random ones up to the count.
pub fn some(rng: &mut Rng, count: usize) -> Vec<String> {
    let mut urls: Vec<String> = FIXED.iter().map(|url| (*url).to_owned()).collect();
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

fn one<'a>(rng: &mut Rng, of: &[&'a str]) -> &'a str {
    of[rng.below(of.len() as u64) as usize]
}

fn url(rng: &mut Rng) -> String {
    let mut url = String::new();
    url += one(rng, SCHEMES);
    if rng.chance(5) {
        url += one(rng, SCHEMES);
    }
    if rng.chance(10) {
        url += one(rng, USERS);
    }
    url += &host(rng);
    if rng.chance(20) {
        url += one(rng, PORTS);
    }
    if rng.chance(90) {
        for _ in 0..rng.below(5) {
            url.push('/');
            url += &part(rng, PATHS);
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
            url += one(rng, &["&", "?", "&&", "=", "#"]);
        }
    }
    if rng.chance(10) {
        url.push('#');
        url += &part(rng, PATHS);
    }
    url
}

fn host(rng: &mut Rng) -> String {
    match rng.below(10) {
        0 => one(rng, HOSTS).to_owned(),
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
            host += one(
                rng,
                &[
                    "", "", "", "www.", "www.", "WWW.", "www1.", "www23.", "wwwx.", "www..", "www",
                ],
            );
            for _ in 0..1 + rng.below(3) {
                host += &part(rng, LABELS);
                host += one(
                    rng,
                    &[".", ".", ".", ".", ".", ".", "..", "...", "%2e", "\u{3002}"],
                );
            }
            host += one(
                rng,
                &[
                    "com", "org", "co.uk", "COM", "no", "com.", "", "xn--p1ai", "museum",
                ],
            );
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

/// A name in any script.
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

fn part(rng: &mut Rng, parts: &[&str]) -> String {
    match rng.below(12) {
        0 => text(rng, 6),
        1 => one(rng, parts).to_owned() + one(rng, parts),
        2 => escapes(rng),
        _ => one(rng, parts).to_owned(),
    }
}

fn escapes(rng: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..1 + rng.below(4) {
        match rng.below(6) {
            0 => text += &format!("%{:02x}", rng.below(256)),
            1 => text += &format!("%{:02X}", rng.below(256)),
            2 => text += &format!("%25{:02x}", rng.below(256)),
            3 => {
                text += one(
                    rng,
                    &[
                        "%", "%%", "%g1", "%1", "%2525", "%%34%31", "%u00e9", "%c3%a9", "%e9",
                        "%00", "%0a", "%ff%fe",
                    ],
                )
            }
            4 => {
                text += one(
                    rng,
                    &[
                        "%2f", "%2F", "%3f", "%3F", "%23", "%26", "%3d", "%2e", "%40", "%3a",
                        "%20", "%2b", "%5c",
                    ],
                )
            }
            _ => text += one(rng, &["a", "B", "1", "."]),
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
    let name = part(rng, NAMES);
    match rng.below(5) {
        0 => name,
        1 => format!("{name}="),
        _ => format!("{name}={}", part(rng, VALUES)),
    }
}

fn session(rng: &mut Rng) -> String {
    let name = one(
        rng,
        &[
            "jsessionid=",
            "JSESSIONID=",
            "phpsessid=",
            "PHPSESSID=",
            "sid=",
            "Sid=",
            "xsid=",
            "jsessionid==",
            "ASPSESSIONIDABCDEFGH=",
            "aspsessionidabcdefg1=",
            "cfid=12&cftoken=",
            "CFID=&CFTOKEN=",
            "cfid=a=b&cftoken=",
            "cfid=1&x=2&cftoken=",
            "cftoken=",
            "cfid=",
        ],
    );
    let length = *rng.pick(&[0, 1, 8, 23, 24, 25, 31, 32, 32, 32, 33]);
    let letters = rng
        .pick(&["0123456789abcdef", "ABCDEFGHIJKLMNOP", "abcdefgh01-._&=~"])
        .as_bytes();
    let value: String = (0..length)
        .map(|_| char::from(*rng.pick(letters)))
        .collect();
    format!("{name}{value}")
}

/// Something in it is gone, twice there, or another.
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

const SCHEMES: &[&str] = &[
    "http://",
    "http://",
    "http://",
    "http://",
    "https://",
    "https://",
    "",
    "HTTP://",
    "Https://",
    "http:/",
    "http:",
    "http:///",
    "http://////",
    "https:////",
    "//",
    "ftp://",
    "gopher://",
    "rtsp://",
    "ws://",
    "urn:",
    "urn:uuid:",
    "dns:",
    "dns://",
    "mailto:",
    "warcinfo:",
    "filedesc:",
    "filedesc://",
    "metadata:",
    "screenshot:",
    "whois://",
    "javascript:",
    "data:",
    "about:",
    "x-a+b.c://",
    "httpx://",
    "http-a:",
    "1http://",
    ":",
    "://",
    "file:///",
    " http://",
    "\thttp://",
    "http://http://",
    "http://https://",
    "http://http",
    "http://HTTP://",
];

const USERS: &[&str] = &[
    "user@",
    "user:pass@",
    "a@b@",
    ":@",
    "@",
    "u%40x:p@",
    "u:p:q@",
    "us/er@",
    "us?er@",
    "[@",
];

const HOSTS: &[&str] = &[
    "",
    ".",
    "..",
    "...",
    "localhost",
    "www",
    "www.",
    "www.com",
    "www1.www2.com",
    "[::1]",
    "[2001:DB8::1]",
    "[fe80::1%25eTH0]",
    "[::1",
    "::1]",
    "[]",
    "a[b]c",
    "127.0.0.1",
    "1.2.3.4.5",
    "1.2.3.4.",
    ".1.2.3.4",
    "256.1.1.1",
    "255.255.255.255",
    "0",
    "0.0.0.0",
    "00",
    "017700000001",
    "0x7f.1",
    "2130706433",
    "4294967296",
    "99999999999999999999",
    "127.1",
    "127.65535",
    "127.65536",
    "1.16777215",
    "1.16777216",
    "01.02.03.04",
    "08.1.1.1",
    "1.08.1.1",
    "0.9.9",
    "1.2.3.4%0a",
    "1234%0A",
    "%31%32%37.0.0.1",
    "%77ww.example.com",
    "ex%41mple.com",
    "example%2ecom",
    "ex ample.com",
    "ex%20ample.com",
    "b\u{fc}cher.example",
    "B\u{dc}CHER.example",
    "b%c3%bccher.example",
    "b%fccher.example",
    "xn--bcher-kva.example",
    "XN--bcher-kva.\u{e9}",
    "stra\u{df}e.de",
    "\u{130}stanbul.com.tr",
    "\u{5d0}\u{5d1}.com",
    "\u{5d0}a.com",
    "\u{444}.\u{440}\u{444}",
    "\u{ff21}\u{ff0e}com",
    "a\u{ad}.com",
    "\u{ad}.com",
    "a\u{301}.com",
    "_dmarc.example.com",
    "a,b.com",
    "a)b.com",
    "example.com:",
    "example.com::",
    "-.com",
    "ex_ample.com",
    "*.example.com",
    "%",
    "%2",
    "%25",
];

const PORTS: &[&str] = &[
    ":80",
    ":443",
    ":8080",
    ":0",
    ":00080",
    ":65535",
    ":65536",
    ":99999999999",
    ":",
    "::",
    ":80:",
    ":8o",
    ":-1",
    ":+80",
    ": 80",
    ":\u{661}",
    ":21",
    ":80:80",
];

const PATHS: &[&str] = &[
    "a",
    "b",
    "Index.HTML",
    "index.html",
    ".",
    "..",
    "...",
    "",
    "",
    "%2e",
    "%2e%2e",
    "%2f",
    "a b",
    "a%20b",
    "a+b",
    ";jsessionid=ABC",
    "a;b=c",
    "\u{e9}",
    "%C3%A9",
    "%e9",
    "~user",
    "(x)",
    "a:b",
    "@",
    "a=b&c",
    "*",
    "$",
    "'",
    "\"",
    "<a>",
    "{b}",
    "|",
    "^",
    "`",
    "\\",
    "(S(123456789012345678901234))",
    "(S(123456789012345678901234)F(abcdefghijklmnopqrstuvwx))",
    "(123456789012345678901234)",
    "(a(123456789012345678901234))",
    "(12345678901234567890123)",
    "default.aspx",
    ".aspx",
    "Page.ASPX",
    "x%3fy.aspx",
    "a.aspx.b.aspx",
    "http://example.com",
    "http:",
    "www.example.com",
];

const LABELS: &[&str] = &[
    "example",
    "Example",
    "a",
    "b-c",
    "archive",
    "xn--bcher-kva",
    "EXAMPLE",
    "www",
    "www2",
    "1",
    "01",
    "",
    "\u{fc}",
    "%41",
    "%c3%bc",
];

const NAMES: &[&str] = &[
    "a",
    "b",
    "A",
    "aa",
    "a.b",
    "a[]",
    "",
    "id",
    "q",
    "z",
    "%61",
    "\u{e9}",
    "a%3db",
    "a%26b",
    "utm_source",
    "ab",
    "a-b",
];

const VALUES: &[&str] = &[
    "1",
    "2",
    "10",
    "",
    "x",
    "X",
    "a b",
    "a+b",
    "%20",
    "=",
    "==",
    "b=c",
    "\u{e9}",
    "%25",
    "%2B",
    "http://x.com/?a=b",
    "?",
    "/",
];

const FIXED: &[&str] = &[
    "",
    " ",
    "\n",
    "-",
    "/",
    "?",
    "#",
    "%",
    ":",
    "//",
    "a",
    "http",
    "http:",
    "http:/",
    "http://",
    "http:///",
    "http:////",
    "http://?",
    "http://#",
    "http:?a",
    "http:#a",
    "http://?a",
    "http://a?",
    "http://a?#",
    "http://a/?",
    "http://a#",
    "http://a/??",
    "http://a/?&",
    "http://a/?&&",
    "http://a/?a&",
    "http://a?b/c",
    "http://a#b?c",
    "filedesc",
    "filedesc://x Y",
    "FILEDESC:x",
    "urn:",
    "urn:X:%41",
    "urn://a:b/",
    "URN://a:b/",
    "dns:www.Example.com",
    "dns://www.example.com",
    "mailto:A@B.com?x=Y",
    "mailto:?a",
    "foo:/",
    "foo://",
    "foo:///",
    "foo:a//b/../c",
    "http://@/a/b",
    "http://@:80/a",
    "http://a@:81/b/c",
    "http://https/order.1and1.com",
    "http://www.example.com:80:80/",
    "http:example.com:80/",
    "https:////www.example.com:443/a",
    "example.com:80/a",
    "localhost:8080/",
    "http://a/..",
    "http://a/../..",
    "http://a/../../b",
    "http://a/../../../b",
    "http://a/b/./",
    "http://a/b/.",
    "http://a/b/..",
    "http://a/b/../",
    "http://a//b//c",
    "http://a//",
    "http://a/b//",
    "http://a/b//..//c",
    "http://a/%2e%2e/b",
    "http://a/b%2fc/../d",
    "http://a/(123456789012345678901234)/.aspx",
    "http://a/(123456789012345678901234)/.aspx.aspx",
];
