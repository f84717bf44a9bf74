//! Table of the keys that a family has exactly once per prefix.

/// Declares `Names`, the keys that exist once per prefix, and `ONCE`, a table with one row per key:
/// its name, and how readers and listeners handle it. To add a key, add one row.
#[macro_export]
macro_rules! once_keys {
    ($row:ty: $($(#[$doc:meta])* $field:ident = $key:expr;)*) => {
        /// Names of the keys that exist once per prefix.
        pub struct Names<N> {
            $($(#[$doc])* pub $field: N,)*
        }

        /// Table with one row per key.
        pub const ONCE: &[$row] = &[$($key),*];

        impl<N> Names<N> {
            /// Creates the names. `name` converts a row to a key name.
            pub fn of(mut name: impl FnMut(&$row) -> N) -> Names<N> {
                Names { $($field: name(&$key),)* }
            }

            /// Iterates over the names, each with its row.
            pub fn all(&self) -> impl Iterator<Item = (&N, &'static $row)> {
                [$(&self.$field),*].into_iter().zip(ONCE)
            }
        }
    };
}
