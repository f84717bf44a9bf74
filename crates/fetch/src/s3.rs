//! Objects in S3-compatible stores: maps `s3://bucket/key` to an http or https URL.
//!
//! Requests are signed in the URL (signature version 4), so that no header carries credentials that a redirect could
//! take to another server. A signature is valid for 15 minutes, which is also the clock skew that S3 tolerates.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use url::Url;

use super::Error;

/// The scheme of object URLs.
pub const SCHEME: &str = "s3";
/// Time for which a signed URL is valid.
const VALID_FOR: Duration = Duration::from_secs(15 * 60);
/// The default region.
const REGION: &str = "us-east-1";

/// An object store and its credentials, from the environment variables that the AWS tools read.
#[derive(Debug)]
pub(super) struct Store {
    /// `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`; AWS itself if neither is set.
    endpoint: Option<Url>,
    region: String,
    /// True if a configured endpoint expects the bucket in the host name (virtual-hosted style).
    has_virtual_hosts: bool,
    /// The credentials. Without credentials, requests are not signed.
    credentials: Option<Credentials>,
}

impl Store {
    /// Reads the configuration of the store from the environment.
    ///
    /// # Errors
    /// The environment variable that is invalid, and why.
    pub(super) fn from_env() -> Result<Store, String> {
        Store::of(|name| std::env::var(name).ok())
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Store, String> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
        let endpoint = endpoint
            .into_iter()
            .find_map(|name| variable(name).map(|value| endpoint_of(name, &value)));
        let (key, secret) = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
        let credentials = match (variable(key), variable(secret)) {
            (Some(key), Some(secret)) => Some(match variable("AWS_SESSION_TOKEN") {
                Some(token) => Credentials::new_with_token(key, secret, token),
                None => Credentials::new(key, secret),
            }),
            (None, None) => None,
            (Some(_), None) => return Err(format!("{key} is set, and {secret} is not: set both")),
            (None, Some(_)) => return Err(format!("{secret} is set, and {key} is not: set both")),
        };
        let is_virtual = "AWS_VIRTUAL_HOSTED_STYLE_REQUEST";
        let has_virtual_hosts = match variable(is_virtual).map(|word| word.to_ascii_lowercase()) {
            None => false,
            Some(word) if matches!(&*word, "true" | "1") => true,
            Some(word) if matches!(&*word, "false" | "0") => false,
            Some(word) => return Err(format!("{is_virtual} is {word:?}: set it to true or false")),
        };
        Ok(Store {
            endpoint: endpoint.transpose()?,
            region: variable("AWS_REGION")
                .or_else(|| variable("AWS_DEFAULT_REGION"))
                .unwrap_or_else(|| REGION.to_owned()),
            has_virtual_hosts,
            credentials,
        })
    }

    /// Returns the URL that an object can be fetched from now, signed if there are credentials.
    ///
    /// # Errors
    /// Fails if the URL is not a valid object URL.
    pub(super) fn sign(&self, object: &Url) -> Result<Url, Error> {
        let wrong = |why: &str| Error::Refused(format!("{object}: {why}"));
        let name = object.host_str().unwrap_or_default();
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if !(1..=255).contains(&name.len()) || !name.bytes().all(fits) {
            return Err(wrong(
                "the name of the bucket is missing: write s3://bucket/key",
            ));
        }
        if object.query().is_some() || object.port().is_some() || !object.username().is_empty() {
            return Err(wrong(
                "a query is not allowed: write s3://bucket/key, with %3F for a ? in the key",
            ));
        }
        let path = object.path().strip_prefix('/').unwrap_or_default();
        let key = percent_decode_str(path).decode_utf8();
        let key = key.map_err(|_| wrong("the key is not UTF-8"))?;
        // HTTP clients and servers resolve the segments `.` and `..`, which would select other keys
        // or buckets.
        if key.is_empty() || key.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(wrong("invalid key"));
        }
        if key.starts_with('/') {
            return Err(wrong("a key that begins with a slash is not supported"));
        }
        let (endpoint, style) = match &self.endpoint {
            Some(endpoint) if self.has_virtual_hosts => (endpoint.clone(), UrlStyle::VirtualHost),
            Some(endpoint) => (endpoint.clone(), UrlStyle::Path),
            None => {
                let endpoint = format!("https://s3.{}.amazonaws.com/", self.region);
                let endpoint = Url::parse(&endpoint)
                    .map_err(|_| wrong("AWS_REGION is not the name of a region"))?;
                // The certificate covers one label only, and host names are case-insensitive.
                let is_host = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
                let has_host = name.bytes().all(|byte| is_host(byte) || byte == b'-');
                (
                    endpoint,
                    if has_host {
                        UrlStyle::VirtualHost
                    } else {
                        UrlStyle::Path
                    },
                )
            }
        };
        let bucket = Bucket::new(endpoint, style, name.to_owned(), self.region.clone());
        let bucket = bucket.map_err(|error| wrong(&error.to_string()))?;
        Ok(match &self.credentials {
            Some(_) => bucket
                .get_object(self.credentials.as_ref(), &key)
                .sign(VALID_FOR),
            None => bucket.object_url(&key).map_err(|_| wrong("no such key"))?,
        })
    }
}

/// Parses the endpoint in an environment variable. Buckets and keys are appended to its path.
fn endpoint_of(name: &str, value: &str) -> Result<Url, String> {
    let wrong = |why: &str| format!("{name}: {why}");
    let mut url = Url::parse(value.trim()).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("it must begin with http:// or https://"));
    }
    if url.query().is_some() || !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("it may only have a scheme, a host and a path"));
    }
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(variables: &[(&str, &str)]) -> Result<Store, String> {
        Store::of(|name| {
            let found = variables.iter().find(|(one, _)| *one == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn signed(variables: &[(&str, &str)], object: &str) -> Result<String, String> {
        let url = store(variables)?.sign(&object.parse().unwrap());
        url.map(String::from).map_err(|error| error.to_string())
    }

    #[test]
    fn object_has_the_url_of_its_store() {
        let at = |url| ("AWS_ENDPOINT_URL", url);
        for (variables, object, url) in [
            (
                &[][..],
                "s3://bucket/a/b.warc.gz",
                "https://bucket.s3.us-east-1.amazonaws.com/a/b.warc.gz",
            ),
            (
                &[("AWS_REGION", "eu-west-1"), ("AWS_DEFAULT_REGION", "x")],
                "s3://with.dots/a",
                "https://s3.eu-west-1.amazonaws.com/with.dots/a",
            ),
            (
                &[("AWS_DEFAULT_REGION", "eu-west-1"), ("AWS_REGION", "")],
                "s3://Upper/a",
                "https://s3.eu-west-1.amazonaws.com/Upper/a",
            ),
            (
                &[at("http://store.example:9000")],
                "s3://bucket/a b+c%3Fd%25.gz",
                "http://store.example:9000/bucket/a%20b%2Bc%3Fd%25.gz",
            ),
            (
                &[
                    at("http://x/"),
                    ("AWS_ENDPOINT_URL_S3", "https://store.example/path"),
                ],
                "s3://bucket/a",
                "https://store.example/path/bucket/a",
            ),
            (
                &[
                    at("https://store.example"),
                    ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "True"),
                ],
                "s3://bucket/a",
                "https://bucket.store.example/a",
            ),
        ] {
            assert_eq!(signed(variables, object).as_deref(), Ok(url), "{object}");
        }
    }

    #[test]
    fn requests_with_credentials_are_signed() {
        let key = ("AWS_ACCESS_KEY_ID", "key");
        let secret = ("AWS_SECRET_ACCESS_KEY", "secret");
        let token = ("AWS_SESSION_TOKEN", "a token");
        let url = signed(&[key, secret, token], "s3://bucket/a").unwrap();
        let url = Url::parse(&url).unwrap();
        let pairs: Vec<_> = url.query_pairs().collect();
        let value = |name: &str| pairs.iter().find(|(one, _)| one == name).unwrap().1.clone();
        assert_eq!(value("X-Amz-Algorithm"), "AWS4-HMAC-SHA256");
        assert_eq!(value("X-Amz-Security-Token"), "a token");
        assert_eq!(value("X-Amz-Expires"), "900");
        assert!(value("X-Amz-Credential").ends_with("/us-east-1/s3/aws4_request"));
        for one in [key, secret] {
            let why = store(&[one]).unwrap_err();
            assert!(
                why.contains("is set, and") && !why.contains("secret "),
                "{why}"
            );
        }
    }

    #[test]
    fn invalid_object_url_is_refused() {
        for object in [
            "s3://bucket",
            "s3://bucket/",
            "s3:///a",
            "s3://bucket//a",
            "s3://bucket/%2Fa",
            "s3://bucket/a%2F..%2F..%2Fb",
            "s3://bucket/a?b",
            "s3://user@bucket/a",
            "s3://bucket:80/a",
            "s3://b%2Fc/a",
            "s3://bucket/%FF",
        ] {
            let refused = signed(&[("AWS_ENDPOINT_URL", "http://h/")], object);
            assert!(refused.is_err(), "{object}: {refused:?}");
        }
        for (name, value) in [
            ("AWS_ENDPOINT_URL", "store.example"),
            ("AWS_ENDPOINT_URL", "ftp://store.example"),
            ("AWS_ENDPOINT_URL", "http://user:secret@store.example"),
            ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "perhaps"),
        ] {
            let why = store(&[(name, value)]).unwrap_err();
            assert!(why.contains(name) && !why.contains("secret"), "{why}");
        }
    }
}
