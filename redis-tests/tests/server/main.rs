//! What all three families share: other modules beside ours, clients in other languages, the documentation,
//! moving slots, and the harness itself.

mod clients;
mod docs;
mod harness;
mod other_modules;
mod reshard;
mod versions;
