//! The figures of a space.

use super::Kind;

map_reply! {
    /// The figures of a space (`TAGS.INFO`).
    Info {
        /// Captures with tags of their own.
        record_ids: u64,
        /// Their tags.
        record_edges: u64,
        /// Files with tags.
        file_ids: u64,
        /// Their tags.
        file_edges: u64,
        /// Tags that carry others.
        tag_ids: u64,
        /// What they carry.
        tag_edges: u64,
        /// Captures in the staged copy; 0 also when there is none.
        staged_record_ids: u64,
        /// Files in the staged copy.
        staged_file_ids: u64,
        /// Tags in the staged copy.
        staged_tag_ids: u64,
        /// Different tags.
        tags: u64,
        /// Rules.
        rules: u64,
        /// Access points.
        points: u64,
        /// Bytes.
        memory: u64,
    }
}

impl Info {
    /// Ids of a kind.
    pub fn ids(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Record => self.record_ids,
            Kind::File => self.file_ids,
            Kind::Tag => self.tag_ids,
        }
    }

    /// Tags of the ids of a kind, each counted as often as an id has it.
    pub fn edges(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Record => self.record_edges,
            Kind::File => self.file_edges,
            Kind::Tag => self.tag_edges,
        }
    }

    /// Ids in the staged copy of a kind.
    pub fn staged(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Record => self.staged_record_ids,
            Kind::File => self.staged_file_ids,
            Kind::Tag => self.staged_tag_ids,
        }
    }
}
