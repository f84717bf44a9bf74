//! The blocks of a cluster, as pages are counted in them.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};

use super::super::file::FileSource;
use crate::source::{self, Lookup, Rows};
use crawlspace_archive::index::files::Files;
use crawlspace_archive::index::folder::Listing;
use crawlspace_archive::index::span::Span;
use crawlspace_archive::row::member;
use crawlspace_archive::sorted::Order;
use crawlspace_archive::sorted::line::{Shape, Writer};
use crawlspace_archive::sorted::steps::{Budget, Halt, Next, Steps, batches};
use crawlspace_archive::source::{Batch, SourceError};
use crawlspace_archive::zipnum::cluster::Blocks;
use crawlspace_archive::zipnum::cluster::line::Block;

/// Number of blocks listed in a batch.
const BATCH: usize = 1000;

impl source::Blocks for FileSource {
    fn count(&self, lookup: Arc<Lookup>) -> BoxFuture<'_, Result<u64, SourceError>> {
        async move {
            let all = 0..u64::MAX;
            let mut index = self.index_of(Arc::clone(&lookup), all.clone()).await?;
            let mut count = 0;
            while let Some(batch) = index.batches.next().await {
                count += batch?.len() as u64;
            }
            if count != 1 {
                return Ok(count);
            }
            // It may be that the block begins before what is asked for, and ends before it.
            let mut rows = self.rows_of(lookup, all).await?;
            while let Some(batch) = rows.batches.next().await.transpose()? {
                if !batch.is_empty() {
                    return Ok(1);
                }
            }
            Ok(0)
        }
        .boxed()
    }

    fn rows_of(
        &self,
        lookup: Arc<Lookup>,
        blocks: Range<u64>,
    ) -> BoxFuture<'_, Result<Rows, SourceError>> {
        async move {
            let files = self.blocks_of(&lookup, blocks).await?;
            Ok(Rows {
                ordered: true,
                batches: batches(self.scan(files, Order::Ascending, lookup.at_most)),
            })
        }
        .boxed()
    }

    fn index_of(
        &self,
        lookup: Arc<Lookup>,
        blocks: Range<u64>,
    ) -> BoxFuture<'_, Result<Rows, SourceError>> {
        async move {
            let index = Index {
                files: self.blocks_of(&lookup, blocks).await?,
                blocks: None,
                writer: self.writer(),
            };
            Ok(Rows {
                ordered: true,
                batches: batches(index),
            })
        }
        .boxed()
    }
}

impl FileSource {
    async fn blocks_of(&self, lookup: &Lookup, some: Range<u64>) -> Result<Files, SourceError> {
        let listing: Listing = self.listing(lookup).await?;
        let is_one = match &*listing.entries {
            [only] => only.cluster().is_some(),
            others => others.is_empty(),
        };
        if !is_one {
            return Err(SourceError::Unsupported(
                "not one cluster alone: blocks of each have numbers of their own".to_owned(),
            ));
        }
        let span = Arc::new(Span::of(
            &lookup.query.keys,
            lookup.query.from,
            lookup.query.to,
        ));
        Ok(Files::new(listing.entries, span, Order::Ascending, None).only(some))
    }
}

/// Rows of a secondary index.
struct Index {
    files: Files,
    blocks: Option<Blocks>,
    writer: Writer,
}

impl Index {
    fn run(&mut self, budget: &mut Budget) -> Result<(), Halt> {
        while self.writer.size().0 < BATCH {
            let Some(blocks) = &mut self.blocks else {
                match self.files.blocks(budget)? {
                    Some(blocks) => self.blocks = Some(blocks),
                    None => return Ok(()),
                }
                continue;
            };
            match blocks.next(budget)? {
                Some(block) => self.push(&block),
                None => self.blocks = None,
            }
        }
        Err(Halt::Enough)
    }

    fn push(&mut self, block: &Block) {
        let mut members = String::new();
        member("part", &block.part, &mut members);
        let number = block.number.map(|number| ("lineno", number));
        let all = [
            Some(("offset", block.offset)),
            Some(("length", block.length)),
            number,
        ];
        for (name, value) in all.into_iter().flatten() {
            // Text to a string cannot fail.
            let _ = write!(members, ", \"{name}\": {value}");
        }
        let mut line = block.begin.to_vec();
        line.extend_from_slice(format!(" {{{members}}}").as_bytes());
        if let Some(shape) = Shape::of(&line) {
            self.writer.push(&line, shape);
        }
    }
}

impl Steps for Index {
    fn step(&mut self, budget: &mut Budget) -> (Batch, Next) {
        let next = Next::after(self.run(budget));
        (self.writer.take(), next)
    }
}
