//! Rows to WARC records.
