//! Parsing of map replies, and readable `Debug` output of bytes.

use std::collections::HashMap;

use redis::{FromRedisValue, ParsingError, Value};
use serde::Serializer;

/// Defines a struct that is parsed from a map reply. The names in the reply have `-` where the
/// fields have `_`. A name that is missing in the reply is read as nil, so a field that older
/// servers do not send must be an `Option`.
///
/// Names of the `DEDUPE` family are in camel case: `Name as "camelCase" { … }`. A struct with byte
/// fields lists the traits to derive, `Name as "camelCase" derive(PartialEq) { … }`, and implements
/// `Debug` by `debug_as_text!`.
macro_rules! map_reply {
    ($(#[$about:meta])* $name:ident { $($fields:tt)* }) => {
        map_reply! { $(#[$about])* $name as "kebab-case" { $($fields)* } }
    };
    ($(#[$about:meta])* $name:ident as $case:tt { $($fields:tt)* }) => {
        map_reply! { $(#[$about])* $name as $case derive(Debug, PartialEq) { $($fields)* } }
    };
    ($(#[$about:meta])* $name:ident as $case:tt derive($($trait:ident),*) {
        $($(#[$field_about:meta])* $field:ident: $type:ty,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, $($trait,)* serde::Serialize)]
        #[serde(rename_all = $case)]
        pub struct $name {
            $($(#[$field_about])* pub $field: $type,)*
        }

        impl redis::FromRedisValue for $name {
            fn from_redis_value(value: redis::Value) -> Result<$name, redis::ParsingError> {
                let mut map =
                    std::collections::HashMap::<String, redis::Value>::from_redis_value(value)?;
                Ok($name {
                    $($field: $crate::reply::take(&mut map, stringify!($field))?,)*
                })
            }
        }
    };
}

/// Implements `Debug` for a struct with byte fields. Shows these fields as text. Each field names
/// the function of [`shown`] that formats it.
macro_rules! debug_as_text {
    ($type:ty $(where $param:ident)? { $($field:ident: $how:ident),* $(,)? }) => {
        impl $(<$param: std::fmt::Debug>)? std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let name = stringify!($type).split('<').next().unwrap_or_default();
                f.debug_struct(name.trim())
                    $(.field(stringify!($field), &$crate::reply::shown::$how(&self.$field)))*
                    .finish()
            }
        }
    };
}

/// Conversions of field values for `Debug` output.
pub(crate) mod shown {
    /// Returns bytes as text.
    pub fn text(bytes: &(impl AsRef<[u8]> + ?Sized)) -> String {
        super::lossless(bytes.as_ref())
    }

    /// Returns optional bytes as text.
    pub fn optional(bytes: &Option<impl AsRef<[u8]>>) -> Option<String> {
        bytes.as_ref().map(text)
    }

    /// Returns each element of a list of bytes as text.
    pub fn texts(list: &[impl AsRef<[u8]>]) -> Vec<String> {
        list.iter().map(text).collect()
    }

    /// Returns the value itself. Used for values that contain no bytes, or that format their bytes
    /// themselves.
    pub fn plain<T>(value: &T) -> &T {
        value
    }
}

pub(crate) fn take<T: FromRedisValue>(
    map: &mut HashMap<String, Value>,
    field: &str,
) -> Result<T, ParsingError> {
    let field = field.trim_start_matches("r#");
    let name = field.replace('_', "-");
    let value = map
        .remove(&name)
        .or_else(|| map.remove(field))
        .or_else(|| map.remove(&camel_case(field)));
    let value = value.unwrap_or(Value::Nil);
    T::from_redis_value(value).map_err(|error| format!("field {name}: {error}").into())
}

fn camel_case(field: &str) -> String {
    let mut words = field.split('_');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        name.extend(word[..1].chars().map(|first| first.to_ascii_uppercase()));
        name.push_str(&word[1..]);
    }
    name
}

/// Parses a map reply into pairs, in the order of the reply, from RESP2 (flat array) or RESP3 (map).
pub(crate) fn pairs<K: FromRedisValue, V: FromRedisValue>(
    value: Value,
) -> Result<Vec<(K, V)>, ParsingError> {
    let read = |key, value| Ok((K::from_redis_value(key)?, V::from_redis_value(value)?));
    if let Value::Map(pairs) = value {
        return pairs
            .into_iter()
            .map(|(key, value)| read(key, value))
            .collect();
    }
    let mut flat = Vec::<Value>::from_redis_value(value)?.into_iter();
    let mut pairs = Vec::with_capacity(flat.len() / 2);
    while let (Some(key), Some(value)) = (flat.next(), flat.next()) {
        pairs.push(read(key, value)?);
    }
    Ok(pairs)
}

/// Serializes bytes (ids, URIs, tags) as text, for `#[serde(serialize_with = …)]`. Writes bytes
/// that are not valid UTF-8 as `\xff`.
///
/// # Errors
/// The errors of the serializer.
pub fn as_text<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&lossless(bytes))
}

/// Returns bytes as text, with invalid UTF-8 escaped as `\xff`.
fn lossless(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// Serializes optional bytes as [`as_text`] does, and `None` as null.
///
/// # Errors
/// The errors of the serializer.
pub fn as_optional_text<S: Serializer>(
    bytes: &Option<Vec<u8>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match bytes {
        Some(bytes) => as_text(bytes, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use crate::dedupe::{Added, Claim, Original};
    use crate::frontier::{Held, Lease};

    #[test]
    fn bytes_are_shown_as_text() {
        let lease = Lease {
            chg: b"example.com".to_vec(),
            token: 7,
            deadline: 2,
            due: 1,
            count: 3,
            execution: Some(b"crawl-1".to_vec()),
            uri: Some(b"https://example.com/caf\xe9".to_vec()),
            uris: Vec::new(),
        };
        assert_eq!(
            format!("{lease:?}"),
            r#"Lease { chg: "example.com", token: 7, deadline: 2, due: 1, count: 3, execution: Some("crawl-1"), uri: Some("https://example.com/caf\\xe9"), uris: [] }"#
        );
        let (hash, date, url) = (b"sha1:A", b"2026", b"https://a/");
        let added = Added::new(hash, 0, date, url, 5);
        assert_eq!(
            format!("{added:?}"),
            r#"Added { hash: "sha1:A", wacz_index: 0, date: "2026", url: "https://a/", size: 5 }"#
        );
        let claim = Claim::<Original>::Yours(b"token".to_vec());
        assert_eq!(format!("{claim:?}"), r#"Yours("token")"#);
        assert_eq!(format!("{:?}", Held::Group(b"a")), r#"Group("a")"#);
    }
}
