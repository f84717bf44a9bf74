//! Blocks of a cluster, for paging.

use std::ops::Range;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};

use super::super::file::FileSource;
use crate::source::{self, Lookup, Rows};
use crawlspace_index::sorted::Order;
use crawlspace_index::source::SourceError;
use crawlspace_index::{Files, Sought};

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
            // All lines of the only block may be before or after the requested range.
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
                batches: self.scan(files, lookup.at_most),
                gaps: None,
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
            let files = self.blocks_of(&lookup, blocks).await?;
            Ok(Rows {
                ordered: true,
                batches: files.blocks_as_rows(self.writer()),
                gaps: None,
            })
        }
        .boxed()
    }
}

impl FileSource {
    async fn blocks_of(&self, lookup: &Lookup, some: Range<u64>) -> Result<Files, SourceError> {
        let listing = self.listing(lookup).await?;
        if !listing.is_one_cluster() {
            return Err(SourceError::Unsupported(
                "blocks are numbered per cluster, and this source is not a single cluster"
                    .to_owned(),
            ));
        }
        let query = &lookup.query;
        let sought = Sought::new(&query.keys, &Arc::default(), query.from, query.to);
        Ok(Files::new(Arc::clone(&listing.entries), sought, Order::Ascending).only(some))
    }
}
