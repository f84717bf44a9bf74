//! The files that a query searches, and the position in each at which its lines begin.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::cursor::{Cursor, Text, Wanted};
use super::directory::{Candidates, Directory};
use super::entry::{Entry, Spelled};
use super::folder::Listing;
use super::sought::Sought;
use super::span::Span;
use crate::sorted::Order;
use crate::sorted::file::{NamedFile, Snapshot};
use crate::sorted::lines::Direction::{self, Backward, Forward};
use crate::sorted::lines::{Lines, Pieces, Stretch};
use crate::sorted::search::{BeginOf, Bounds, capture, search};
use crate::source::{Gaps, SourceError};
use crate::timestamp::Timestamp;
use crate::zipnum::cluster::block::begin_of as secondary;
use crate::zipnum::cluster::{Blocks, Cluster};

/// Limit of the lines that a query sorts in memory, in bytes. Queries for many URLs sort the lines
/// whose keys have another form.
pub const MAX_KEPT: usize = 16 << 20;
/// Number of changes of one file after which a query skips it.
const MAX_CHANGES_OF_ONE: u32 = 4;
/// Number of changes of all files together after which a query skips each file that has changed.
const MAX_CHANGES: u32 = 16;

/// Counts how often each file changed while a query read it.
///
/// A query lists its files again after each change. A file that changes all the time, such as a package that is being
/// written, is skipped after some changes. Otherwise, this file would use up the attempts that other files
/// need.
#[derive(Debug, Default)]
pub struct Changes(Mutex<HashMap<PathBuf, u32>>);

impl Changes {
    /// Counts a change. Returns true if the query skips the file from now on.
    fn skips(&self, path: &Path) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: u32 = counts.values().sum();
        let own = counts.entry(path.to_owned()).or_default();
        *own += 1;
        *own > MAX_CHANGES_OF_ONE || all >= MAX_CHANGES
    }
}

/// The files of a query, and the captures that it looks for.
pub struct Files {
    entries: Arc<[Arc<Entry>]>,
    next: usize,
    sought: Sought,
    pub(super) order: Order,
    /// The requested time, for queries in [`Order::Closest`].
    moment: Option<Timestamp>,
    /// Size of the first read of a file, in bytes.
    piece: usize,
    some: Range<u64>,
    /// Collects failures of files; if `None`, the first failure fails the query.
    pub(super) gaps: Option<Arc<Gaps>>,
    /// Counts the files that changed, to decide when a changed or removed file counts as a failed file.
    changes: Arc<Changes>,
    at_most: Option<u64>,
    /// The unused rest of [`MAX_KEPT`].
    room: usize,
    /// The directory of the entries, which maps urlkeys to the files that can contain them.
    directory: Option<Arc<Directory>>,
    /// The entries that can contain one of the wanted urlkeys. If `None`, all entries are searched.
    candidates: Option<Candidates>,
    /// True if each block is read only once. Caching is then useless.
    passing: bool,
    /// Timeout of a read on a server, if the query searches several files.
    patience: Option<Duration>,
}

impl Files {
    /// Searches all entries, and returns the lines in `order`. With [`Order::Closest`], the span of `sought` must cover
    /// a single urlkey.
    pub fn new(entries: Arc<[Arc<Entry>]>, sought: Sought, order: Order) -> Files {
        let moment = match order {
            Order::Closest(moment) => Some(moment),
            _ => None,
        };
        Files {
            next: 0,
            piece: if entries.len() > 256 {
                4 << 10
            } else {
                8 << 10
            },
            some: 0..u64::MAX,
            gaps: None,
            changes: Arc::default(),
            at_most: None,
            room: MAX_KEPT,
            directory: None,
            candidates: None,
            passing: false,
            patience: None,
            entries,
            sought,
            order,
            moment,
        }
    }

    /// Limits the search to a range of the matching blocks of each cluster, by number.
    pub fn only(mut self, some: Range<u64>) -> Files {
        self.some = some;
        self
    }

    /// Skips files that cannot be read, and collects their errors in `gaps`. A file that changed since it was listed is
    /// an error until the first row has been found, so that the caller can list the files again. After too
    /// many `changes`, such a file is skipped like an unreadable file.
    pub fn with_gaps(mut self, gaps: Arc<Gaps>, changes: Arc<Changes>) -> Files {
        self.gaps = Some(gaps);
        self.changes = changes;
        self
    }

    /// Returns whether an error of the last opened file is collected, so that the query continues without the file.
    pub(super) fn skips(&self, error: &SourceError) -> bool {
        let last = self
            .next
            .checked_sub(1)
            .and_then(|last| self.entries.get(last));
        self.gaps.is_some()
            && match (error, last) {
                (SourceError::Changed(_), Some(entry)) => self.changes.skips(entry.file.path()),
                _ => true,
            }
    }

    /// Searches the files of a listing, except those that are known to have no matching lines.
    pub fn of(listing: &Listing, sought: Sought, order: Order) -> Files {
        let mut files = Files::new(Arc::clone(&listing.entries), sought, order);
        if listing.directory.covers_some() {
            files.directory = Some(Arc::clone(&listing.directory));
            let urlkeys = files.sought.urlkeys();
            files.candidates = (!urlkeys.is_empty()).then(|| listing.directory.candidates(urlkeys));
        }
        files
    }

    /// Reads blocks without caching them.
    pub(super) fn passing(mut self) -> Files {
        self.passing = true;
        self
    }

    /// Sets the time limit of the first row. If there are several files, each of them gets a
    /// quarter of it.
    pub fn within(mut self, first: Duration) -> Files {
        self.patience = (self.entries.len() > 1).then(|| first / 4);
        self
    }

    /// Sets the maximum number of rows that the caller uses.
    pub fn at_most(mut self, rows: Option<u64>) -> Files {
        self.at_most = rows;
        self
    }

    /// Returns the cursors of the next file, each before its first line; `None` after the last file.
    pub(super) async fn cursors(&mut self) -> Result<Option<Vec<Cursor>>, SourceError> {
        if self.sought.span.is_empty() {
            return Ok(None);
        }
        let Some((entry, is_here)) = self.next_entry() else {
            return Ok(None);
        };
        let text = self.open(&entry).await?;
        let mut cursors = Vec::with_capacity(2);
        let span = Arc::clone(&self.sought.span);
        let has_own = is_here || entry.spelled == Spelled::Here;
        if has_own && self.sought.is_one_key() {
            self.push(&text, &span, Wanted::All, &mut cursors).await?;
        } else if self.sought.is_exact() {
            self.push(&text, &span, Wanted::All, &mut cursors).await?;
            // If two cursors start at the requested time, the second cursor reads forward.
            let last = cursors.len().saturating_sub(1);
            for span in self.sought.others() {
                if let Some(own) = cursors.get_mut(last)
                    && own.shows_no(span).await
                {
                    continue;
                }
                let wanted = Wanted::Of(Arc::clone(self.sought.urlkeys()));
                self.push(&text, span, wanted, &mut cursors).await?;
            }
        } else if entry.spelled == Spelled::Probably || self.sought.others().is_empty() {
            self.push(&text, &span, Wanted::All, &mut cursors).await?;
        } else {
            let respelled = match (Box::pin(self.respelled(&text)).await, &self.gaps) {
                (Err(error), Some(gaps)) => {
                    gaps.add(error);
                    Vec::new()
                }
                (respelled, _) => respelled?,
            };
            self.push(&text, &span, Wanted::Own, &mut cursors).await?;
            if !respelled.is_empty() {
                let file = NamedFile::made(entry.file.path().to_owned(), respelled);
                let text = self.open(&Entry::new(file, None, Spelled::Here)).await?;
                self.push(&text, &span, Wanted::All, &mut cursors).await?;
            }
        }
        let number = |cursor: Cursor| cursor.in_package(entry.package);
        Ok(Some(cursors.into_iter().map(number).collect()))
    }

    /// Returns the next entry that can have matching lines, and whether all of its keys are urlkeys.
    fn next_entry(&mut self) -> Option<(Arc<Entry>, bool)> {
        let next = match &mut self.candidates {
            Some(candidates) => candidates.next(),
            None => Some(self.next),
        };
        if let Some((next, entry)) = next.and_then(|next| Some((next, self.entries.get(next)?))) {
            self.next = next + 1;
            let directory = self.directory.as_ref();
            let is_here = directory.is_some_and(|directory| directory.is_here(next));
            return Some((Arc::clone(entry), is_here));
        }
        // Files that the directory excludes count as read.
        let skips_some = self.candidates.as_ref().is_some_and(|some| some.skips_some);
        if let Some(gaps) = self.gaps.as_ref().filter(|_| skips_some) {
            gaps.read();
        }
        None
    }

    /// Returns the blocks of the next cluster, in ascending order.
    pub(super) async fn blocks(&mut self) -> Result<Option<Blocks>, SourceError> {
        let span = Arc::clone(&self.sought.span);
        while let Some(entry) = self.entries.get(self.next).map(Arc::clone) {
            self.next += 1;
            let text = self.open(&entry).await?;
            if let Some(cluster) = &text.cluster {
                let found = self.find(&text, &span, &span.from, self.order).await?;
                return Ok(Some(found.blocks(cluster, Direction::Forward, &span)));
            }
        }
        Ok(None)
    }

    /// Opens the current version of a file.
    async fn open(&self, entry: &Entry) -> Result<Opened, SourceError> {
        if !entry.is_current() {
            // Rows of a replaced package would point to wrong offsets.
            let shown = entry.file.path().display();
            return Err(SourceError::Changed(format!(
                "{shown}: the file has just changed"
            )));
        }
        let Some(file) = entry.file.snapshot().await? else {
            let shown = entry.file.path().display();
            return Err(SourceError::Changed(format!(
                "{shown}: the file no longer exists"
            )));
        };
        Ok(Opened {
            file: file.with_patience(self.patience),
            cluster: entry.cluster.clone(),
            unsorted: entry.unsorted,
            marked: entry.spelled == Spelled::Here,
        })
    }

    /// Adds the cursors of a span.
    async fn push(
        &self,
        text: &Opened,
        span: &Arc<Span>,
        wanted: Wanted,
        into: &mut Vec<Cursor>,
    ) -> Result<(), SourceError> {
        let order = self.order;
        let split = match self.moment {
            Some(moment) => span.split(moment),
            None if order == Order::Descending => span.to.clone(),
            None => span.from.clone(),
        };
        let found = self.find(text, span, &split, order).await?;
        let mut add = |direction, span: &Arc<Span>| {
            let lines = found.lines(direction, span, self.gaps.as_ref());
            let mut cursor = Cursor::new(lines, span, order, wanted.clone());
            if text
                .cluster
                .as_ref()
                .is_some_and(|cluster| cluster.is_hinted())
            {
                cursor = cursor.without_repetitions();
            }
            if text.unsorted {
                cursor = cursor.unsorted();
            }
            if text.marked {
                cursor = cursor.marked();
            }
            into.push(cursor);
        };
        match order {
            Order::Descending => add(Backward, span),
            Order::Closest(_) if self.moment.is_some() && !text.unsorted => {
                let (earlier, later) = span.halves(&split);
                add(Backward, &earlier);
                add(Forward, &later);
            }
            Order::Ascending | Order::Closest(_) => add(Forward, span),
        }
        Ok(())
    }

    /// Finds the position in a file at which lines from `key` on begin.
    async fn find(
        &self,
        text: &Opened,
        span: &Span,
        key: &[u8],
        order: Order,
    ) -> Result<Found, SourceError> {
        let end = text.file.size();
        let bounds = if text.unsorted {
            Bounds {
                after: 0,
                until: end,
            }
        } else if order == Order::Descending && span.to.is_empty() {
            Bounds {
                after: end,
                until: end,
            }
        } else {
            let begin_of = text
                .cluster
                .as_ref()
                .map_or(capture as BeginOf, |_| secondary);
            search(&text.file, begin_of, key).await?
        };
        Ok(Found {
            file: text.file.clone(),
            cluster: text.cluster.clone(),
            piece: self.piece,
            bounds,
            some: self.some.clone(),
            passing: self.passing,
            patience: self.patience,
        })
    }

    /// Reads the matching lines whose keys have another form, and returns them as sorted text under their urlkeys.
    async fn respelled(&mut self, text: &Opened) -> Result<Vec<u8>, SourceError> {
        let mut lines: Vec<Box<[u8]>> = Vec::new();
        let mut size = 0;
        let most = self.at_most.and_then(|most| usize::try_from(most).ok());
        for span in self.sought.others().to_vec() {
            let found = self.find(text, &span, &span.from, Order::Ascending).await?;
            let wanted = Wanted::Respelled(Arc::clone(&self.sought.span));
            let forward = found.lines(Forward, &span, self.gaps.as_ref());
            let mut cursor =
                Cursor::new(forward, &span, Order::Ascending, wanted).without_repetitions();
            while cursor.next().await? {
                // The trailing blank marks a line whose key was replaced.
                size += cursor.line().len() + 2;
                lines.push([cursor.line(), b" "].concat().into());
                let enough = most.is_some_and(|most| lines.len() / 2 > most.max(1024));
                if enough || size > self.room {
                    self.settle(&mut lines, most);
                    size = lines.iter().map(|line| line.len() + 1).sum();
                }
                if size > self.room {
                    let shown = text.file.path().display();
                    let what = format!(
                        "{shown}: more than {MAX_KEPT} bytes of lines would have to be sorted by urlkey"
                    );
                    return Err(SourceError::TooLarge(what));
                }
            }
        }
        self.settle(&mut lines, None);
        self.room -= size;
        let mut all = lines.join(&b'\n');
        if !all.is_empty() {
            all.push(b'\n');
        }
        Ok(all)
    }

    /// Sorts the lines, and drops those beyond the `most` lines that will be used.
    fn settle(&self, lines: &mut Vec<Box<[u8]>>, most: Option<usize>) {
        lines.sort_unstable();
        if let Some(most) = most.filter(|most| *most < lines.len()) {
            match self.order {
                Order::Descending => drop(lines.drain(..lines.len() - most)),
                _ => lines.truncate(most),
            }
        }
    }
}

/// An open file, or a cluster with the file as its secondary index.
struct Opened {
    file: Snapshot,
    cluster: Option<Arc<Cluster>>,
    unsorted: bool,
    marked: bool,
}

/// A file or cluster, and the position at which the lines of a query begin.
struct Found {
    file: Snapshot,
    cluster: Option<Arc<Cluster>>,
    piece: usize,
    bounds: Bounds,
    some: Range<u64>,
    passing: bool,
    patience: Option<Duration>,
}

impl Found {
    /// Returns the lines from the position on, and possibly a few lines before it; backward, the lines before it and
    /// possibly a few after.
    fn lines(&self, direction: Direction, span: &Span, gaps: Option<&Arc<Gaps>>) -> Lines<Text> {
        match &self.cluster {
            None => self.lines_of_file(direction, Text::File),
            Some(cluster) => {
                let blocks = self.blocks(cluster, direction, span).with_gaps(gaps);
                Lines::of(Text::Blocks(Box::new(blocks)), direction, self.piece / 2)
            }
        }
    }

    fn blocks(&self, cluster: &Arc<Cluster>, direction: Direction, span: &Span) -> Blocks {
        let lines = self.lines_of_file(direction, |file| file);
        let other = match direction {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        };
        let stretch = Stretch::of(self.file.clone(), self.begin(direction));
        let back = Lines::of(stretch, other, self.piece / 2);
        let blocks = Blocks::of(Arc::clone(cluster), lines, back, &span.from, &span.to);
        let blocks = blocks.only(self.some.clone()).with_patience(self.patience);
        if self.passing {
            blocks.passing()
        } else {
            blocks
        }
    }

    fn begin(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Forward => self.bounds.after,
            Direction::Backward => self.bounds.until,
        }
    }

    fn lines_of_file<P: Pieces>(
        &self,
        direction: Direction,
        text: impl FnOnce(Stretch) -> P,
    ) -> Lines<P> {
        let Bounds { after, until } = self.bounds;
        let at = self.begin(direction);
        // In most cases, the first lines are within 1 KiB after the bounds of the search.
        let far = usize::try_from(until.saturating_sub(after)).unwrap_or(usize::MAX);
        let piece = far.saturating_add(1 << 10);
        let piece = piece.clamp(self.piece / 2, self.piece * 2);
        Lines::of(text(Stretch::of(self.file.clone(), at)), direction, piece)
    }
}

#[cfg(test)]
mod tests {
    use crawlspace_cdx::surt::KeyRange;

    use super::*;
    use crate::index::sought::Aliases;
    use crate::sorted::steps::wait;

    #[test]
    fn lines_under_another_key_are_returned_for_the_same_url() {
        let line = |key: &str, end: &str| {
            format!("{key} 20160101000000 {{\"url\": \"http://h/\"}}{end}\n")
        };
        let text = [line("a", ""), line("b", ""), line("c", " ")].concat();
        let file = NamedFile::made("x".into(), text.into_bytes());
        let entries: Arc<[_]> = Arc::new([Arc::new(Entry::new(file, None, Spelled::Here))]);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let aliases = Arc::new(Aliases::One {
            keys: names(&["b", "c"]),
            urlkeys: names(&["a", "c"]),
        });
        let keys = KeyRange {
            from: b"a ".to_vec(),
            to: b"a!".to_vec(),
        };
        let sought = Sought::new(&keys, &aliases, None, None);
        let mut files = Files::new(entries, sought, Order::Ascending);
        let mut found = Vec::new();
        while let Some(cursors) = wait(files.cursors()).unwrap() {
            for mut cursor in cursors {
                while wait(cursor.next()).unwrap() {
                    let key = cursor.line()[..cursor.shape().key].to_vec();
                    found.push((key, cursor.shape().is_respelled));
                }
            }
        }
        assert_eq!(found, [(b"a".to_vec(), false), (b"c".to_vec(), true)]);
    }

    #[test]
    fn file_that_keeps_changing_is_skipped_before_the_others() {
        let changes = Changes::default();
        let (one, other) = (Path::new("one"), Path::new("other"));
        for _ in 0..MAX_CHANGES_OF_ONE {
            assert!(!changes.skips(one));
        }
        assert!(changes.skips(one));
        assert!(!changes.skips(other));
        let skipped = (0..MAX_CHANGES).find(|n| changes.skips(Path::new(&n.to_string())));
        assert_eq!(skipped, Some(MAX_CHANGES - MAX_CHANGES_OF_ONE - 2));
        assert!(changes.skips(other));
    }
}
