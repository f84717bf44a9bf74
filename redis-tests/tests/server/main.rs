//! What all three families share: how a server loads the module, other modules beside ours, clients in other languages, the documentation,
//! moving slots, and the harness itself.

mod clients;
mod docs;
mod harness;
mod loading;
mod other_modules;
mod reshard;
mod versions;
