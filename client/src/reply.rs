//! Replies that are maps, and bytes that people want to read.

use std::collections::HashMap;

use redis::{FromRedisValue, ParsingError, Value};
use serde::Serializer;

/// A struct that is read from a reply of names and values, whose names have `-` where its fields have `_`.
/// What is not in the reply is nil, so a field that an older server does not know may be an `Option`.
///
/// Those of the `DEDUPE` family are in camel case: `Name as "camelCase" { … }`.
macro_rules! map_reply {
    ($(#[$about:meta])* $name:ident { $($fields:tt)* }) => {
        map_reply! { $(#[$about])* $name as "kebab-case" { $($fields)* } }
    };
    ($(#[$about:meta])* $name:ident as $case:tt { $($(#[$field_about:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
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

/// The pairs of a map, in their order, whichever protocol they came by.
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

/// Serializes bytes (ids, URIs, tags) as text, for `#[serde(serialize_with = …)]`. Bytes that are not UTF-8 are written
/// as `\xff`.
///
/// # Errors
/// Those of the serializer.
pub fn as_text<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    serializer.serialize_str(&text)
}

/// Serializes bytes that may be missing as [`as_text`] does, and `None` as null.
///
/// # Errors
/// Those of the serializer.
pub fn as_optional_text<S: Serializer>(
    bytes: &Option<Vec<u8>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match bytes {
        Some(bytes) => as_text(bytes, serializer),
        None => serializer.serialize_none(),
    }
}
