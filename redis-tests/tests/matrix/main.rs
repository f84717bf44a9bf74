//! Properties that all three families have, one a file.

mod coverage;
