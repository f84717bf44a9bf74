//! Tests of features that the three families share: loading the module, other modules, clients in
//! other languages, the JavaScript package, the documentation, moving slots, and the harness itself.

mod clients;
mod docs;
mod harness;
mod javascript;
mod loading;
mod other_modules;
mod peers;
mod python;
mod reshard;
mod versions;
