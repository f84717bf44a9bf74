//! Arguments that several commands share.

use crate::tags::index::{ID_BYTES, TAG_BYTES, Tagged};
use crawlspace_host::server::args::Args;
use crawlspace_host::server::command::Arg;
use crawlspace_host::text::Shown;

/// `RECORD`, `FILE` or `TAG`.
pub const KIND: Arg = Arg::one_of(
    "kind",
    &[
        Arg::word("record", "RECORD"),
        Arg::word("file", "FILE"),
        Arg::word("tag", "TAG"),
    ],
);

/// Reads the kind.
pub fn kind(args: &mut Args<'_>) -> Result<Tagged, String> {
    let word = args.next("kind")?;
    Tagged::parse(word).ok_or_else(|| {
        format!(
            "ERR invalid kind '{}': RECORD, FILE or TAG is expected (argument {})",
            Shown(word),
            args.position()
        )
    })
}

/// Reads an id of a kind.
pub fn id<'a>(args: &mut Args<'a>, kind: Tagged) -> Result<&'a [u8], String> {
    match kind {
        Tagged::Tag => tag(args),
        _ => args.bytes("id", ID_BYTES),
    }
}

/// Reads a tag.
pub fn tag<'a>(args: &mut Args<'a>) -> Result<&'a [u8], String> {
    let tag = args.bytes("tag", TAG_BYTES)?;
    if tag.contains(&b' ') {
        return Err(format!(
            "ERR tag '{}' holds a space, which separates tags (argument {})",
            Shown(tag),
            args.position()
        ));
    }
    Ok(tag)
}

/// Reads tags up to the end, one at least.
pub fn tags<'a>(args: &mut Args<'a>) -> Result<Vec<&'a [u8]>, String> {
    let mut tags = vec![tag(args)?];
    while args.left() > 0 {
        tags.push(tag(args)?);
    }
    Ok(tags)
}
