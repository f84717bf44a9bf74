//! The tagging index: which tags records, files and tags carry.
