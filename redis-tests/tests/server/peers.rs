//! Crawlers of other projects that use Crawlspace through a package of this repository.

mod scrapy;
