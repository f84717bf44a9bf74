//! Ordered rows of many sources as one.
