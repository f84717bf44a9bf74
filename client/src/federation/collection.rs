//! A collection: steps that are tried one after the other.
