//! Statistics of a tag space.

use super::Kind;

map_reply! {
    /// Statistics of a tag space (`TAGS.INFO`).
    Info {
        /// Number of captures with their own tags.
        record_ids: u64,
        /// Number of tags of these captures.
        record_edges: u64,
        /// Number of files with tags.
        file_ids: u64,
        /// Number of tags of these files.
        file_edges: u64,
        /// Number of tags that carry tags.
        tag_ids: u64,
        /// Total number of tags that these tags carry.
        tag_edges: u64,
        /// Number of captures in the staged copy. The number is also 0 if there is no staged copy.
        staged_record_ids: u64,
        /// Number of files in the staged copy.
        staged_file_ids: u64,
        /// Number of tags in the staged copy.
        staged_tag_ids: u64,
        /// Number of distinct tags.
        tags: u64,
        /// Number of rules.
        rules: u64,
        /// Number of access points.
        points: u64,
        /// Memory in bytes.
        memory: u64,
    }
}

impl Info {
    /// Returns the number of ids of a kind.
    pub fn ids(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Record => self.record_ids,
            Kind::File => self.file_ids,
            Kind::Tag => self.tag_ids,
        }
    }

    /// Returns the total number of tags of all ids of a kind. A tag is counted once for each id
    /// that has it.
    pub fn edges(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Record => self.record_edges,
            Kind::File => self.file_edges,
            Kind::Tag => self.tag_edges,
        }
    }

    /// Returns the number of ids in the staged copy of a kind.
    pub fn staged(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Record => self.staged_record_ids,
            Kind::File => self.staged_file_ids,
            Kind::Tag => self.staged_tag_ids,
        }
    }
}
