//! The fields of a capture, and the names they go by.

use std::fmt;

/// A field of a capture: one of those that CDX lines have columns for, or a JSON field of CDXJ lines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// The sort key, such as `org,example)/path`.
    Urlkey,
    /// 14 digits, or fewer.
    Timestamp,
    /// The URL as it was captured; alias `original`.
    Url,
    /// The media type; alias `mimetype`.
    Mime,
    /// The HTTP status; alias `statuscode`.
    Status,
    /// The payload's digest.
    Digest,
    /// Where the capture redirects to; alias `redirecturl`.
    Redirect,
    /// The meta tags for robots.
    Robotflags,
    /// Bytes of the compressed record.
    Length,
    /// Where in the WARC the record begins.
    Offset,
    /// The name of the WARC.
    Filename,
    /// `orig.length`: of a revisit, the length of the record it refers to; alias `originalLength`.
    OrigLength,
    /// `orig.offset`: of a revisit, where the record it refers to begins; alias `originalOffset`.
    OrigOffset,
    /// `orig.filename`: of a revisit, the WARC of the record it refers to; alias `originalFilename`.
    OrigFilename,
    /// Any other name: a JSON field, which lines that are not CDXJ do not have.
    Other(Box<[u8]>),
}

impl Field {
    /// The field of that name or alias; names are case-sensitive. Always succeeds: a name that no CDX
    /// column has is a JSON field's.
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

    /// Its name; never an alias.
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

    /// Whether CDX lines may have a column for it.
    ///
    /// ```
    /// use crawlspace_cdx::Field;
    /// assert!(Field::named(b"mime").is_standard());
    /// assert!(!Field::named(b"languages").is_standard());
    /// ```
    pub fn is_standard(&self) -> bool {
        !matches!(self, Field::Other(_))
    }

    /// Whether the name can be that of a field at all: a standard name, or 1 to 64 letters, digits and
    /// `_.-`, which is what a JSON field may be called where a name that is none must be an error.
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

    /// Whether this is the field that `name` names.
    pub(crate) fn is_named(&self, name: &[u8]) -> bool {
        match self {
            Field::Other(own) => **own == *name,
            standard => Field::standard(name).as_ref() == Some(standard),
        }
    }
}

/// A field was asked of a line that cannot have it: a JSON field, and the line is not CDXJ; or a column by its
/// number, and the line has fewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField(
    /// The name or number.
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
    fn an_alias_is_the_same_field() {
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
    fn any_other_name_is_a_json_field_and_plausible_if_it_looks_like_one() {
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
