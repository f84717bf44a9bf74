//! Refuses cross-origin requests that pages make browsers send.
//!
//! Browsers send simple requests (Fetch standard) without a preflight. Hiding the response from the page does not help
//! if the request itself changes something.

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, ORIGIN};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use url::{Origin, Url};

use super::body::Body;
use super::host;
use super::reply::closing;

/// Relation between a page and the server that it sends a request to (Fetch Metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a request with a method other than `GET`, `HEAD` and `OPTIONS` from a page of another origin, unless that
/// origin is `allowed`.
pub(super) fn changing<B>(
    request: &Request<B>,
    public_url: Option<&str>,
    allowed: Option<&HeaderValue>,
) -> Option<Response<Body>> {
    match *request.method() {
        Method::GET | Method::HEAD | Method::OPTIONS => None,
        _ => foreign(request, public_url, allowed),
    }
}

/// Refuses a request from a page of another origin, unless that origin is `allowed`.
pub(super) fn foreign<B>(
    request: &Request<B>,
    public_url: Option<&str>,
    allowed: Option<&HeaderValue>,
) -> Option<Response<Body>> {
    let headers = request.headers();
    let origins = || headers.get_all(ORIGIN).iter();
    let is_allowed = match allowed {
        Some(allowed) if *allowed == "*" => true,
        Some(allowed) => headers.contains_key(ORIGIN) && origins().all(|origin| origin == allowed),
        None => false,
    };
    if is_allowed {
        return None;
    }
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    let is_own_site = sites.all(|site| site == "same-origin" || site == "none");
    let own = own_origins(request, public_url);
    let is_own_origin = origins().all(|origin| parse(origin).is_some_and(|one| own.contains(&one)));
    if is_own_site && is_own_origin {
        return None;
    }
    let what = "the request comes from a page of another origin (Origin, Sec-Fetch-Site): send it without a browser, \
                or from a page of this server; --public-url names the server behind a proxy";
    Some(closing(StatusCode::FORBIDDEN, what))
}

/// Refuses a body that is not declared as JSON: without a preflight, pages of other origins cannot declare JSON.
pub(super) fn not_json(headers: &HeaderMap) -> Option<Response<Body>> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let is_json = |value: &HeaderValue| {
        let media = value.as_bytes().split(|&byte| byte == b';').next();
        media.is_some_and(|media| media.trim_ascii().eq_ignore_ascii_case(b"application/json"))
    };
    match (types.next(), types.next()) {
        (Some(value), None) if is_json(value) => None,
        _ => {
            let what = "the request needs the header Content-Type: application/json";
            Some(closing(StatusCode::UNSUPPORTED_MEDIA_TYPE, what))
        }
    }
}

/// Returns the origins of this server: from the request's host, and from the public URL.
fn own_origins<B>(request: &Request<B>, public_url: Option<&str>) -> Vec<Origin> {
    let asked = host::asked(request).ok().flatten();
    let asked = asked.and_then(|host| Url::parse(&format!("http://{host}/")).ok());
    let public = public_url.and_then(|url| Url::parse(url).ok());
    let urls = asked.into_iter().chain(public);
    urls.map(|url| url.origin()).collect()
}

/// Parses an `Origin` header. Returns `None` for `null` and anything that is not a single origin.
fn parse(value: &HeaderValue) -> Option<Origin> {
    let url = Url::parse(value.to_str().ok()?).ok()?;
    let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let origin = url.origin();
    (is_bare && url.username().is_empty() && origin.is_tuple()).then_some(origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(fields: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::post("/seen/api/records");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    fn is_refused(
        fields: &[(&str, &str)],
        public_url: Option<&str>,
        allowed: Option<&'static str>,
    ) -> bool {
        let allowed = allowed.map(HeaderValue::from_static);
        let refused = foreign(&request(fields), public_url, allowed.as_ref());
        if let Some(refused) = &refused {
            assert_eq!(refused.status(), StatusCode::FORBIDDEN);
        }
        refused.is_some()
    }

    #[test]
    fn only_same_origin_pages_may_change_something() {
        for (host, origin, refused) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080", false),
            ("LOCALHOST:80", "http://localhost", false),
            ("[::1]:8080", "http://[::1]:8080", false),
            ("archive.example", "https://public.example", false),
            ("127.0.0.1:8080", "http://127.0.0.1", true),
            ("127.0.0.1:8080", "http://127.0.0.1:8081", true),
            ("127.0.0.1:8080", "https://127.0.0.1:8080", true),
            ("127.0.0.1:8080", "http://localhost:8080", true),
            ("archive.example", "http://public.example", true),
            (
                "archive.example",
                "http://archive.example.evil.example",
                true,
            ),
            ("archive.example", "http://user@archive.example", true),
            ("archive.example", "http://archive.example/path", true),
            ("archive.example", "null", true),
            ("archive.example", "", true),
            ("archive.example", "file://", true),
            ("user@archive.example", "http://archive.example", true),
        ] {
            let fields = [("Host", host), ("Origin", origin)];
            let public = Some("https://public.example/archive/");
            assert_eq!(is_refused(&fields, public, None), refused, "{fields:?}");
        }
        let two = [
            ("Host", "a.example"),
            ("Origin", "http://a.example"),
            ("Origin", "http://b.example"),
        ];
        assert!(is_refused(&two, None, None));
    }

    #[test]
    fn request_without_an_origin_is_foreign_if_sec_fetch_site_says_so() {
        for (site, refused) in [
            ("cross-site", true),
            ("same-site", true),
            ("something-new", true),
            ("same-origin", false),
            ("none", false),
        ] {
            let fields = [("Host", "a.example"), ("Sec-Fetch-Site", site)];
            assert_eq!(is_refused(&fields, None, None), refused, "{site}");
        }
        assert!(!is_refused(&[("Host", "a.example")], None, None));
        assert!(!is_refused(&[], None, None));
    }

    #[test]
    fn pages_of_an_allowed_origin_are_not_foreign() {
        let fields = [
            ("Host", "a.example"),
            ("Origin", "https://replay.example"),
            ("Sec-Fetch-Site", "cross-site"),
        ];
        assert!(!is_refused(&fields, None, Some("https://replay.example")));
        assert!(!is_refused(&fields, None, Some("*")));
        assert!(is_refused(&fields, None, Some("https://other.example")));
        // The origin of the page is unknown.
        let fields = [("Sec-Fetch-Site", "cross-site")];
        assert!(is_refused(&fields, None, Some("https://replay.example")));
    }

    #[test]
    fn reading_is_allowed_to_every_page() {
        for (method, refused) in [
            ("GET", false),
            ("HEAD", false),
            ("OPTIONS", false),
            ("POST", true),
            ("PUT", true),
            ("DELETE", true),
        ] {
            let mut request = request(&[("Host", "a.example"), ("Origin", "http://b.example")]);
            *request.method_mut() = method.parse().unwrap();
            assert_eq!(
                changing(&request, None, None).is_some(),
                refused,
                "{method}"
            );
        }
    }

    #[test]
    fn only_json_media_types_are_json() {
        for (value, is_json) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/json ;charset=utf-8", true),
            ("application/jsonp", false),
            ("application/json, text/plain", false),
            ("text/plain; application/json", false),
            ("text/plain", false),
            ("application/x-www-form-urlencoded", false),
            ("", false),
        ] {
            let request = request(&[("Content-Type", value)]);
            let refused = not_json(request.headers());
            assert_eq!(refused.is_none(), is_json, "{value}");
            if let Some(refused) = refused {
                assert_eq!(refused.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
            }
        }
        let two = [
            ("Content-Type", "application/json"),
            ("Content-Type", "text/plain"),
        ];
        for fields in [&[][..], &two] {
            assert!(not_json(request(fields).headers()).is_some(), "{fields:?}");
        }
    }
}
