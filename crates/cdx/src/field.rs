//! Fields of a capture, with their names and aliases.

use std::fmt;

/// A field of a capture: a standard column of CDX lines, or a JSON field of CDXJ lines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// The sort key (SURT), such as `org,example)/path`.
    Urlkey,
    /// The capture time, as 14 digits or fewer.
    Timestamp,
    /// The captured URL; alias `original`.
    Url,
    /// The media type; alias `mimetype`.
    Mime,
    /// The HTTP status code; alias `statuscode`.
    Status,
    /// The digest of the payload.
    Digest,
    /// The target URL of a redirect; alias `redirecturl`.
    Redirect,
    /// The values of the robots meta tags.
    Robotflags,
    /// Size of the compressed record in bytes.
    Length,
    /// Offset of the record in the WARC file.
    Offset,
    /// Name of the WARC file.
    Filename,
    /// `orig.length`: for a revisit, the length of the original record; alias `originalLength`.
    OrigLength,
    /// `orig.offset`: for a revisit, the offset of the original record; alias `originalOffset`.
    OrigOffset,
    /// `orig.filename`: for a revisit, the WARC file of the original record; alias `originalFilename`.
    OrigFilename,
    /// Any other name: a JSON field, which only CDXJ lines have.
    Other(Box<[u8]>),
}

impl Field {
    /// Returns the field with this name or alias; names are case-sensitive. Always succeeds: a name that is
    /// not a CDX column is a JSON field.
    ///
    /// ```
    /// use crawlspace_cdx::Field;
    /// assert_eq!(Field::named(b"original"), Field::Url);
    /// assert_eq!(Field::named(b"Original"), Field::Other(b"Original"[..].into()));
    /// ```
    pub fn named(name: &[u8]) -> Field {
        Field::standard(name).unwrap_or_else(|| Field::Other(name.into()))
    }

    fn standard(name: &[u8]) -> Option<Field> {
        Some(match name {
            b"urlkey" => Field::Urlkey,
            b"timestamp" => Field::Timestamp,
            b"url" | b"original" => Field::Url,
            b"mime" | b"mimetype" => Field::Mime,
            b"status" | b"statuscode" => Field::Status,
            b"digest" => Field::Digest,
            b"redirect" | b"redirecturl" => Field::Redirect,
            b"robotflags" => Field::Robotflags,
            b"length" => Field::Length,
            b"offset" => Field::Offset,
            b"filename" => Field::Filename,
            b"orig.length" | b"originalLength" => Field::OrigLength,
            b"orig.offset" | b"originalOffset" => Field::OrigOffset,
            b"orig.filename" | b"originalFilename" => Field::OrigFilename,
            _ => return None,
        })
    }

    /// Returns the canonical name, never an alias.
    ///
    /// ```
    /// use crawlspace_cdx::Field;
    /// assert_eq!(Field::named(b"statuscode").name(), b"status");
    /// assert_eq!(Field::named(b"languages").name(), b"languages");
    /// ```
    pub fn name(&self) -> &[u8] {
        match self {
            Field::Urlkey => b"urlkey",
            Field::Timestamp => b"timestamp",
            Field::Url => b"url",
            Field::Mime => b"mime",
            Field::Status => b"status",
            Field::Digest => b"digest",
            Field::Redirect => b"redirect",
            Field::Robotflags => b"robotflags",
            Field::Length => b"length",
            Field::Offset => b"offset",
            Field::Filename => b"filename",
            Field::OrigLength => b"orig.length",
            Field::OrigOffset => b"orig.offset",
            Field::OrigFilename => b"orig.filename",
            Field::Other(name) => name,
        }
    }

    /// Returns true if CDX lines can have a column for the field.
    ///
    /// ```
    /// use crawlspace_cdx::Field;
    /// assert!(Field::named(b"mime").is_standard());
    /// assert!(!Field::named(b"languages").is_standard());
    /// ```
    pub fn is_standard(&self) -> bool {
        !matches!(self, Field::Other(_))
    }

    /// Returns true if the name is a valid name of a field: a standard name, or 1 to 64 letters, digits and
    /// `_.-`. Callers that must reject invalid names of JSON fields use this check.
    ///
    /// ```
    /// use crawlspace_cdx::Field;
    /// assert!(Field::named(b"mime-detected").is_plausible());
    /// assert!(!Field::named(b"!status").is_plausible());
    /// ```
    pub fn is_plausible(&self) -> bool {
        match self {
            Field::Other(name) => {
                (1..=64).contains(&name.len())
                    && name
                        .iter()
                        .all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(b))
            }
            _ => true,
        }
    }

    /// Returns true if `name` is a name or alias of this field.
    pub(crate) fn is_named(&self, name: &[u8]) -> bool {
        match self {
            Field::Other(own) => **own == *name,
            standard => Field::standard(name).as_ref() == Some(standard),
        }
    }
}

/// Error: the line cannot have the requested field. Either the field is a JSON field and the line is not
/// CDXJ, or the field is a column number and the line has fewer columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField(
    /// Name or number of the field.
    pub Box<[u8]>,
);

impl UnknownField {
    pub(crate) fn column(number: usize) -> UnknownField {
        UnknownField(number.to_string().into_bytes().into())
    }
}

impl fmt::Display for UnknownField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.escape_ascii();
        write!(f, "the line has no field or column '{name}'")
    }
}

impl std::error::Error for UnknownField {}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &str = "urlkey timestamp url mime status digest redirect robotflags length offset \
        filename orig.length orig.offset orig.filename";

    #[test]
    fn each_standard_name_names_its_field() {
        for name in NAMES.split_whitespace() {
            let field = Field::named(name.as_bytes());
            assert!(field.is_standard() && field.is_plausible(), "{name}");
            assert_eq!(field.name(), name.as_bytes());
            assert!(field.is_named(name.as_bytes()));
        }
    }

    #[test]
    fn alias_names_the_same_field() {
        for (alias, name) in [
            ("original", "url"),
            ("mimetype", "mime"),
            ("statuscode", "status"),
            ("redirecturl", "redirect"),
            ("originalLength", "orig.length"),
            ("originalOffset", "orig.offset"),
            ("originalFilename", "orig.filename"),
        ] {
            let field = Field::named(alias.as_bytes());
            assert_eq!(field.name(), name.as_bytes());
            assert!(field.is_named(alias.as_bytes()) && field.is_named(name.as_bytes()));
        }
    }

    #[test]
    fn unknown_name_is_a_json_field() {
        for (name, plausible) in [
            ("", false),
            ("=status", false),
            ("with space", false),
            ("load_url", true),
            ("URL", true),
        ] {
            let field = Field::named(name.as_bytes());
            assert!(!field.is_standard());
            assert_eq!(field.is_plausible(), plausible, "{name}");
        }
        assert!(Field::named(&[b'a'; 64]).is_plausible());
        assert!(!Field::named(&[b'a'; 65]).is_plausible());
    }
}
