use std::fmt;
use std::io::{self, Read};

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Error, Location, Options, Problem, http, source};

/// A list of all packages of a collection, or a single package.
///
/// The list is JSON, as in a multi-WACZ package: `{"resources": [{"name", "path", "hash", "size", "crawlId"}, …]}`.
/// Only `path` is required; `bytes` is a synonym of `size`.
///
/// ```
/// use crawlspace_wacz::{Location, Manifest};
/// let json = r#"{"resources": [{"path": "crawls/a.wacz", "bytes": 17}, {"name": "b"}]}"#;
/// let manifest = Manifest::parse(&Location::parse("/archive/all.json")?, json.as_bytes())?;
/// assert!(manifest.is_full);
/// assert_eq!(manifest.entries[0].name, "a.wacz");
/// assert_eq!(manifest.entries[0].location, Ok(Location::parse("/archive/crawls/a.wacz")?));
/// assert_eq!(manifest.entries[1].location, Err("it has no path".to_owned()));
/// # Ok::<(), crawlspace_wacz::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The packages, in the order of the list.
    pub entries: Vec<ManifestEntry>,
    /// True for a list, because a list names all packages. False for a single package.
    pub is_full: bool,
}

/// A package of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestEntry {
    /// The name in the list, or the last component of the path.
    pub name: String,
    /// The location of the package, or the reason why the entry is unusable.
    pub location: Result<Location, String>,
    /// The expected hash, as written in the list.
    pub hash: Option<String>,
    /// The expected size in bytes.
    pub size: Option<u64>,
    /// The crawl of the package.
    pub crawl: Option<String>,
}

impl Manifest {
    /// Reads a package or a list. Does not read the lists to which that list refers.
    pub(super) fn read(location: &Location, options: &Options) -> Result<Manifest, Error> {
        if location.name().to_ascii_lowercase().ends_with(".wacz") {
            return Ok(Manifest::single(location));
        }
        let failed = |problem| Error::new(location.to_string(), problem);
        // Read one byte more than the limit, to detect a manifest that is too long. Only the beginning of a package
        // is read, however large the package is.
        let most = options.manifest + 1;
        let text = match location {
            Location::File(path) => match source::regular(path) {
                Ok(Some(file)) => list(file, most),
                Ok(None) => Err(Problem::Io(io::Error::other(source::NO_FILE))),
                Err(error) => Err(Problem::Io(error)),
            },
            Location::Url(url) => list(http::fetch(url, options)?.body, most),
        };
        let Some(text) = text.map_err(failed)? else {
            return Ok(Manifest::single(location));
        };
        if text.len() as u64 > options.manifest {
            return Err(failed(Problem::TooLarge {
                what: "the manifest".to_owned(),
                limit: format!("{} bytes", options.manifest),
                option: "manifest",
            }));
        }
        Manifest::parse(location, &text)
    }

    /// Creates the manifest of a single package.
    pub(crate) fn single(location: &Location) -> Manifest {
        let entry = ManifestEntry {
            name: location.name(),
            location: Ok(location.clone()),
            hash: None,
            size: None,
            crawl: None,
        };
        Manifest {
            entries: vec![entry],
            is_full: false,
        }
    }

    /// Parses a list. Relative paths are relative to the folder of `location`.
    ///
    /// # Errors
    /// Fails if the text is not a JSON object with a list `resources`.
    pub fn parse(location: &Location, json: &[u8]) -> Result<Manifest, Error> {
        let wrong = |how: String| Error::new(location.to_string(), Problem::Json(how));
        let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
        if json.trim_ascii().is_empty() {
            return Err(wrong("it is empty".to_owned()));
        }
        let list: List = serde_json::from_slice(json).map_err(|error| wrong(error.to_string()))?;
        let Some(resources) = list.0 else {
            return Err(wrong("it has no list \"resources\"".to_owned()));
        };
        let entries = resources.into_iter().enumerate();
        Ok(Manifest {
            entries: entries
                .map(|(i, resource)| resource.entry(i + 1, location))
                .collect(),
            is_full: true,
        })
    }
}

/// Reads up to `most` bytes of the file; returns `None` for a zip file.
fn list(mut file: impl Read, most: u64) -> Result<Option<Vec<u8>>, Problem> {
    let mut text = Vec::new();
    (&mut file).take(4).read_to_end(&mut text)?;
    if text.starts_with(b"PK\x03\x04") || text.starts_with(b"PK\x05\x06") {
        return Ok(None);
    }
    let rest = most.saturating_sub(text.len() as u64);
    file.take(rest).read_to_end(&mut text)?;
    Ok(Some(text))
}

/// The field `resources` of a list, if it is present.
struct List(Option<Vec<Resource>>);

/// A resource, with its values as written.
#[derive(Default)]
struct Resource {
    is_object: bool,
    name: Value,
    path: Value,
    hash: Value,
    size: Value,
    bytes: Value,
    crawl: Value,
}

/// A value that is expected to be a string or a number.
#[derive(Default)]
enum Value {
    #[default]
    None,
    Text(String),
    Number(u64),
    Other,
}

impl Resource {
    fn entry(self, number: usize, manifest: &Location) -> ManifestEntry {
        let mut faults = Vec::new();
        if !self.is_object {
            faults.push("it is not an object".to_owned());
        }
        let text = |value: Value, field: &str, faults: &mut Vec<String>| match value {
            Value::None => None,
            Value::Text(text) if text.is_empty() => None,
            Value::Text(text) if text.contains(|c: char| c.is_control()) => {
                faults.push(format!("its {field} contains a control character"));
                None
            }
            Value::Text(text) => Some(text),
            Value::Number(number) => Some(number.to_string()),
            Value::Other => {
                faults.push(format!(
                    "its {field} is not a string, or occurs more than once"
                ));
                None
            }
        };
        let mut name = text(self.name, "name", &mut faults);
        let hash = text(self.hash, "hash", &mut faults);
        let crawl = text(self.crawl, "crawlId", &mut faults);
        let path = text(self.path, "path", &mut faults);
        let size = match [self.size, self.bytes]
            .into_iter()
            .find(|size| !matches!(size, Value::None))
        {
            None => None,
            Some(Value::Number(size)) => Some(size),
            Some(Value::Text(digits)) if digits.parse::<u64>().is_ok() => digits.parse().ok(),
            Some(_) => {
                faults.push("its size is not a number of bytes".to_owned());
                None
            }
        };
        let location = match &path {
            Some(path) => manifest.join(path),
            None if self.is_object => Err("it has no path".to_owned()),
            None => Err(String::new()),
        };
        if name.is_none() {
            let last = match &location {
                Ok(location) => location.name(),
                Err(_) => path
                    .unwrap_or_default()
                    .rsplit('/')
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            };
            name = Some(last).filter(|last| !last.is_empty());
        }
        if name.is_none() && location.is_ok() {
            faults.push("it has no name, and its path does not end in a file name".to_owned());
        }
        ManifestEntry {
            // The position helps to find the entry in the list.
            name: name.unwrap_or_else(|| format!("entry {number}")),
            location: match faults.into_iter().next() {
                Some(fault) => Err(fault),
                None => location,
            },
            hash,
            size,
            crawl,
        }
    }
}

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<List, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = List;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a list \"resources\"")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<List, A::Error> {
                let mut list = None;
                while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                    if key == "resources" {
                        // The list is ambiguous: packages must not be removed based on a guess.
                        if list.is_some() {
                            return Err(serde::de::Error::duplicate_field("resources"));
                        }
                        list = map.next_value::<Option<Vec<Resource>>>()?;
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(List(list))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// Accepts and ignores values of unexpected types.
macro_rules! read_past {
    ($value:expr) => {
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok($value)
        }
    };
}

impl<'de> Deserialize<'de> for Resource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Resource, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Resource;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            read_past!(Resource::default());

            fn visit_str<E>(self, _: &str) -> Result<Resource, E> {
                Ok(Resource::default())
            }

            fn visit_u64<E>(self, _: u64) -> Result<Resource, E> {
                Ok(Resource::default())
            }

            fn visit_unit<E>(self) -> Result<Resource, E> {
                Ok(Resource::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Resource, A::Error> {
                let mut resource = Resource {
                    is_object: true,
                    ..Resource::default()
                };
                while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                    let field = match &*key {
                        "name" => &mut resource.name,
                        "path" => &mut resource.path,
                        "hash" => &mut resource.hash,
                        "size" => &mut resource.size,
                        "bytes" => &mut resource.bytes,
                        "crawlId" => &mut resource.crawl,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    let value = map.next_value()?;
                    *field = match field {
                        Value::None => value,
                        _ => Value::Other,
                    };
                }
                Ok(resource)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            read_past!(Value::Other);

            fn visit_str<E>(self, text: &str) -> Result<Value, E> {
                Ok(Value::Text(text.to_owned()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
                Ok(Value::Number(number))
            }

            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::None)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Value::Other)
            }
        }
        deserializer.deserialize_any(Any)
    }
}
