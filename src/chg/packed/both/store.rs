//! Groups and their URIs in either storage, or in both.

use crawlspace_host::keyspace::{Keyspace, Result};

use super::super::Packed;
use super::{Both, BothName, Home};
use crate::chg::group::{FIELD_NAMES, Group, Options};
use crate::chg::store::Store;
use crate::chg::uris::{Changed, Kept, Op};
use crate::storage::Storage;

impl<P: Store, H: Home<P>> Store for Both<P, H> {
    fn uris<T>(
        &mut self,
        key: &Self::Name,
        read: impl FnOnce(&Kept<'_>) -> T,
    ) -> Result<Option<T>> {
        match key {
            BothName::One(key) => self.either.uris(key, read),
            BothName::Two(two) => {
                let storage = self.storage_of(&two.id)?;
                self.either.uris(two.in_storage(storage), read)
            }
        }
    }

    fn change_uris_then<T>(
        &mut self,
        key: &Self::Name,
        op: &Op<'_>,
        look: impl FnOnce(&Kept<'_>) -> T,
    ) -> Result<(Changed, Option<T>)> {
        match key {
            BothName::One(key) => self.either.change_uris_then(key, op, look),
            BothName::Two(two) => {
                let key = self.at_home(two)?;
                self.either.change_uris_then(key, op, look)
            }
        }
    }

    fn has_plain_writers(&self) -> bool {
        self.either.packed.is_none()
    }

    fn has_plain_groups(&self) -> bool {
        self.either.packed.is_none() || self.change.is_some()
    }

    fn packed<T>(&mut self, act: impl FnOnce(&mut Packed) -> T) -> Result<Option<T>> {
        match self.change {
            // No URL is known before the frontier is packed.
            Some(_) => Ok(None),
            None => self.either.packed(act),
        }
    }

    fn list_find(&mut self, key: &Self::Name, id: &[u8]) -> Result<Option<u64>> {
        match key {
            BothName::One(key) => self.either.list_find(key, id),
            BothName::Two(_) => Ok(None),
        }
    }

    fn is_misplaced(&mut self, key: &Self::Name) -> bool {
        let key = match key {
            BothName::One(key) => key,
            BothName::Two(two) => &two.packed,
        };
        self.either.is_misplaced(key)
    }

    fn storage_name(&self) -> &'static str {
        match self.storage() {
            (storage, None) => storage.name(),
            (_, Some(Storage::Packed)) => "packing",
            (_, Some(Storage::Plain)) => "unpacking",
        }
    }

    fn group(&mut self, key: &Self::Name, group: &mut Group) -> Result<Option<u64>> {
        let two = match key {
            BothName::One(key) => return self.either.group(key, group),
            BothName::Two(two) => two,
        };
        if self.storage_of(&two.id)? == Storage::Packed {
            return self.either.group(&two.packed, group);
        }
        if self.to() == Storage::Plain {
            return Ok(None);
        }
        let read = self.move_with(|plain, _| plain.read(&two.id))?;
        Ok(read.map(|(entering, fields, _)| {
            *group = entering.group;
            fields
        }))
    }

    fn put_group(
        &mut self,
        key: &Self::Name,
        group: &Group,
        more: Option<(&[u8], &[u8])>,
    ) -> Result<bool> {
        match key {
            BothName::One(key) => self.either.put_group(key, group, more),
            BothName::Two(two) => {
                let key = self.at_home(two)?;
                if self.either.put_group(key, group, more)? {
                    return Ok(true);
                }
                // The group was in the packed frontier when it was read, and has been deleted
                // since.
                for (field, value) in FIELD_NAMES.iter().zip(group.write()) {
                    match value {
                        Some(value) => drop(self.either.hash_set(key, field, &value)?),
                        None => drop(self.either.hash_del(key, field)?),
                    }
                }
                if let Some((field, value)) = more {
                    self.either.hash_set(key, field, value)?;
                }
                Ok(true)
            }
        }
    }

    fn put_options(&mut self, key: &Self::Name, options: &Options) -> Result<bool> {
        match key {
            BothName::One(key) => self.either.put_options(key, options),
            BothName::Two(two) => {
                let key = self.at_home(two)?;
                self.either.put_options(key, options)
            }
        }
    }

    fn reset_group(&mut self, key: &Self::Name) -> Result<bool> {
        match key {
            BothName::One(key) => self.either.reset_group(key),
            BothName::Two(two) => {
                let key = self.at_home(two)?;
                self.either.reset_group(key)
            }
        }
    }
}
