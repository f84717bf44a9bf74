//! Crawlers of other projects that use Crawlspace through a package of this repository, at full size in
//! `make test-peers`.

mod crawlee;
mod scrapy;
