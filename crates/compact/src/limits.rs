//! Limits and defaults of the commands, each defined once for the module, client programs and
//! tests.
//!
//! `docs/limits.md` lists all limits in a table.

/// A duration, in milliseconds.
pub type Millis = u64;

/// Defines limits, and `ALL`, the list of their names and values.
macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$doc])* pub const $name: $type = $value;)*

        /// Name and value of each limit.
        pub const ALL: &[(&str, u64)] = &[$((stringify!($name), $name as u64)),*];
    };
}

/// Limits shared by all families.
pub mod every {
    limits! {
        /// Maximum length of a key prefix, in bytes.
        PREFIX_BYTES: usize = 1024;
        /// Number of slots of a cluster.
        SLOTS: u16 = 16_384;
    }
}

/// Limits of `DEDUPE`.
pub mod dedupe {
    use super::Millis;

    limits! {
        /// Maximum length of a crawl id, in bytes.
        CRAWL_BYTES: usize = 1024;
        /// Maximum length of the name of a writer, in bytes.
        WRITER_BYTES: usize = 1024;
        /// Maximum length in bytes of the id of a WACZ file that is being written.
        UUID_BYTES: usize = 1024;
        /// Minimum length of a hash argument, in bytes.
        MIN_HASH_BYTES: usize = 16;
        /// Maximum length of a hash argument, in bytes.
        MAX_HASH_BYTES: usize = 256;
        /// Maximum length of a URL, in bytes.
        URL_BYTES: usize = 1 << 20;
        /// Maximum length of a date, in bytes.
        DATE_BYTES: usize = 32;
        /// Maximum length of the name of a WACZ file, in bytes.
        FILENAME_BYTES: usize = 4096;
        /// Maximum length of the hash of a WACZ file, in bytes.
        WACZ_HASH_BYTES: usize = 256;
        /// Maximum number of captures of one URL in a reply.
        MAX_CAPTURES: u64 = 10_000;
        /// Default number of captures of one URL in a reply.
        CAPTURES: u64 = 100;
        /// Maximum duration of a claim, in milliseconds: a day.
        CLAIM_MS: Millis = 24 * 60 * 60 * 1000;
        /// Maximum number of visible crawls. A look-up of an unknown hash reads each of them.
        MAX_VISIBLE: usize = 64;
    }
}

/// Limits of `CHG`.
pub mod chg {
    use std::ops::RangeInclusive;

    use super::Millis;

    limits! {
        /// Maximum length of an id of a group, execution, writer or shared gate, in bytes.
        ID_BYTES: usize = 1024;
        /// Maximum length of a URI that the frontier keeps, in bytes.
        URI_BYTES: usize = 64 << 10;
        /// Maximum difference between a time and the current time, in milliseconds: ten years with
        /// three leap days. A time further away is most likely in the wrong unit.
        TEN_YEARS: Millis = 3653 * 24 * 60 * 60 * 1000;
        /// Default maximum of the pause that a host may request, in milliseconds: seven days.
        MAX_PAUSE_MS: Millis = 7 * 24 * 60 * 60 * 1000;
        /// Minimum of [`MAX_PAUSE_MS`] in the settings, in milliseconds.
        MIN_MAX_PAUSE_MS: Millis = 1000;
        /// Default duration of a lease, in milliseconds.
        LEASE_MS: Millis = 600_000;
        /// Default number of leases on a kept URI that may expire before the frontier gives up the
        /// URI.
        ATTEMPTS: u64 = 5;
        /// Maximum of [`ATTEMPTS`] in the settings.
        MAX_ATTEMPTS: u64 = 1_000_000;
        /// Maximum weight of an execution.
        MAX_WEIGHT: u64 = 1_000_000;
        /// Maximum number of concurrent fetches from one group.
        MAX_PARALLEL: u64 = 1000;
        /// Maximum number of leases, reports, or page entries in one reply.
        MAX_COUNT: u64 = 1000;
        /// Maximum number of URLs in one command about known URLs.
        MAX_URLS: u64 = 10_000;
        /// Maximum length of the key of a URL, in bytes.
        KEY_BYTES: usize = 64;
        /// Maximum length of the payload of a URL, in bytes.
        PAYLOAD_BYTES: usize = 64 << 10;
        /// Maximum number of URIs in one lease.
        MAX_LEASED: u64 = 1000;
        /// Default number of entries of a page.
        COUNT: u64 = 100;
        /// Maximum number of stored reports of expired leases. Reports of given-up URIs are not
        /// included in this number.
        MAX_REPORTS: u64 = 100_000;
        /// Maximum pause that back-off can cause, in milliseconds: a day.
        MAX_BACKOFF: Millis = 24 * 60 * 60 * 1000;
        /// Pause from which back-off starts to double, in milliseconds. The first back-off step
        /// increases shorter pauses to this value.
        BACKOFF_BASE: Millis = 1000;
        /// Maximum number of back-off steps: enough to double [`BACKOFF_BASE`] until it exceeds
        /// [`MAX_BACKOFF`].
        MAX_STEPS: u32 = 17;
    }

    /// Statuses that make a group back off: too many requests, a gateway or service that is down,
    /// an exceeded bandwidth limit, and CDN errors because the origin server is down. A negative
    /// status (no response) makes the group back off, too.
    pub const TROUBLE: [RangeInclusive<i64>; 4] = [429..=429, 502..=504, 509..=509, 520..=530];
}

/// Limits of `TAGS`.
pub mod tags {
    limits! {
        /// Maximum length of a tag, in bytes.
        TAG_BYTES: usize = 1024;
        /// Maximum length of an id of a record or file, in bytes.
        ID_BYTES: usize = 16_384;
        /// Maximum number of tags of one id, excluding inherited tags. The time to change a tag
        /// grows with the number of tags of its id.
        MAX_TAGS: usize = 10_000;
        /// Maximum number of rules of a space.
        MAX_RULES: usize = 1000;
        /// Maximum length of the name of a rule, in bytes.
        RULE_NAME_BYTES: usize = 256;
        /// Maximum length of the name of a field, in bytes.
        FIELD_BYTES: usize = 64;
        /// Maximum length of a template of a rule, in bytes.
        TEMPLATE_BYTES: usize = 4096;
        /// Maximum number of access points of a space.
        MAX_POINTS: usize = 100_000;
        /// Maximum number of access points whose names are patterns. A look-up tries these access
        /// points one after the other.
        MAX_PATTERNS: usize = 1000;
        /// Maximum length of the name of an access point, in bytes.
        POINT_NAME_BYTES: usize = 1024;
        /// Maximum length of an expression, in bytes.
        EXPRESSION_BYTES: usize = 1 << 20;
        /// Maximum number of entries in a reply.
        MAX_COUNT: u64 = 100_000;
        /// Default number of entries in a reply.
        COUNT: u64 = 1000;
    }
}
