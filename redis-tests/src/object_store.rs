//! A read-only S3 server that checks signatures. The server computes signatures as specified, and
//! shares no code with the tested signers.

use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use crate::file_host::{FileHost, Manners};
use crate::scripted_host::Asked;

/// The access key.
pub const KEY: &str = "AKIAIOSFODNN7EXAMPLE";
/// The secret of [`KEY`].
pub const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
/// The region of the store.
pub const REGION: &str = "eu-north-7";

/// A server on a free loopback port. Dropping this value stops the server.
pub struct ObjectStore {
    host: FileHost,
    refusals: Arc<Mutex<Vec<String>>>,
}

/// The access rules of a store.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// True to allow only unsigned requests.
    pub is_public: bool,
    /// Session token that belongs to the access key, if there is one.
    pub token: Option<String>,
    /// True to expect the bucket in the host name and not in the path.
    pub has_virtual_hosts: bool,
}

impl ObjectStore {
    /// Starts a server without objects.
    pub fn start(terms: Terms) -> ObjectStore {
        let refusals = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&refusals);
        let host = FileHost::behind(move |asked| {
            terms.admit(asked).map_err(|why| {
                let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
                noted.push(why.clone());
                (403, format!("<Error><Code>{why}</Code></Error>"))
            })
        });
        ObjectStore { host, refusals }
    }

    /// Stores an object at `/bucket/key`, in the form of a request path.
    pub fn put(&self, path: &str, bytes: &[u8]) {
        let etag = Some(format!("\"{:x}\"", crc(bytes)));
        self.host.put(
            path,
            bytes,
            Manners {
                etag,
                ..Manners::default()
            },
        );
    }

    /// Returns the file server that the store uses, which has the list of requests.
    pub fn host(&self) -> &FileHost {
        &self.host
    }

    /// Returns the reasons of all refusals so far.
    pub fn refusals(&self) -> Vec<String> {
        self.refusals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns environment variables for a client of this store with the access key `KEY`.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT_URL", self.host.url("")),
            ("AWS_REGION", REGION.to_owned()),
            ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ]
    }
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

impl Terms {
    /// Returns the path of the object that a request may read, or the reason of the refusal.
    fn admit(&self, asked: &Asked) -> Result<String, String> {
        let (path, query) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
        let host = asked.field("host").unwrap_or_default();
        let bucket = self
            .has_virtual_hosts
            .then(|| host.split('.').next())
            .flatten();
        let object = match bucket {
            Some(bucket) => format!("/{bucket}{path}"),
            None => path.to_owned(),
        };
        if self.is_public {
            return if query.is_empty() {
                Ok(object)
            } else {
                Err("SignedWhereNobodyIs".to_owned())
            };
        }
        let signed = Signed::parse(query).ok_or("AccessDenied")?;
        let expected = [
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-SignedHeaders", "host"),
        ];
        if expected
            .iter()
            .any(|(name, value)| signed.value(name) != *value)
        {
            return Err("AuthorizationQueryParametersError".to_owned());
        }
        if signed.value("X-Amz-Security-Token") != self.token.as_deref().unwrap_or_default() {
            return Err("InvalidToken".to_owned());
        }
        let scope = format!("{}/{REGION}/s3/aws4_request", signed.date());
        if signed.value("X-Amz-Credential") != format!("{KEY}/{scope}") {
            return Err("InvalidAccessKeyId".to_owned());
        }
        let signature = signed.signature(&asked.method, host, path, REGION, SECRET);
        if signed.value("X-Amz-Signature") == signature {
            Ok(object)
        } else {
            Err("SignatureDoesNotMatch".to_owned())
        }
    }
}

/// A signed query.
struct Signed {
    /// Names and values as sent.
    pairs: Vec<(String, String)>,
}

impl Signed {
    fn parse(query: &str) -> Option<Signed> {
        let pairs = query.split('&').map(|pair| {
            let (name, value) = pair.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        });
        Some(Signed {
            pairs: pairs.collect::<Option<_>>()?,
        })
    }

    /// Returns a value, unescaped.
    fn value(&self, name: &str) -> String {
        let found = self.pairs.iter().find(|(one, _)| one == name);
        found.map_or(String::new(), |(_, value)| {
            crate::scripted_host::unescaped(value)
        })
    }

    fn date(&self) -> String {
        self.value("X-Amz-Date").chars().take(8).collect()
    }

    /// Computes the signature (S3 API reference, "Authenticating Requests: Using Query
    /// Parameters").
    fn signature(
        &self,
        method: &str,
        host: &str,
        path: &str,
        region: &str,
        secret: &str,
    ) -> String {
        let mut pairs: Vec<String> = self
            .pairs
            .iter()
            .filter(|(name, _)| name != "X-Amz-Signature")
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        pairs.sort();
        let request = format!(
            "{method}\n{path}\n{}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD",
            pairs.join("&")
        );
        let date = self.date();
        let text = format!(
            "AWS4-HMAC-SHA256\n{}\n{date}/{region}/s3/aws4_request\n{}",
            self.value("X-Amz-Date"),
            hex(&Sha256::digest(request.as_bytes()))
        );
        let mut key = format!("AWS4{secret}").into_bytes();
        for part in [&*date, region, "s3", "aws4_request"] {
            key = hmac(&key, part.as_bytes());
        }
        hex(&hmac(&key, text.as_bytes()))
    }
}

/// HMAC with SHA-256 (RFC 2104).
fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = [0; 64];
    if key.len() <= block.len() {
        block[..key.len()].copy_from_slice(key)
    } else {
        block[..32].copy_from_slice(&Sha256::digest(key))
    }
    let inner = Sha256::new()
        .chain_update(block.map(|byte| byte ^ 0x36))
        .chain_update(text);
    let outer = Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c));
    outer.chain_update(inner.finalize()).finalize().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in the S3 API reference.
    #[test]
    fn the_signature_is_that_of_the_specification() {
        let query = "X-Amz-Algorithm=AWS4-HMAC-SHA256\
            &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
            &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host";
        let signed = Signed::parse(query).unwrap();
        let host = "examplebucket.s3.amazonaws.com";
        assert_eq!(
            signed.signature("GET", host, "/test.txt", "us-east-1", SECRET),
            "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
        );
    }
}
