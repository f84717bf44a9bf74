//! What is done to rows between the sources and the answer.
