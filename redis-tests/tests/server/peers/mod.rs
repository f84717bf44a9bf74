//! Third-party programs with the connectors of this repository, at full size in `make test-peers`.

mod crawlee;
