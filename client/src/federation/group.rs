//! Sources that are asked at once.
