//! The table of the keys that a family has once behind a prefix.

/// Declares `Names`, the keys that exist once behind a prefix, and `ONCE`, the rows that say of each what
/// it is called and what it is to readers and listeners. A new key is a new line.
#[macro_export]
macro_rules! once_keys {
    ($row:ty: $($(#[$doc:meta])* $field:ident = $key:expr;)*) => {
        /// Names of the keys that exist once behind a prefix.
        pub struct Names<N> {
            $($(#[$doc])* pub $field: N,)*
        }

        /// What there is to know of each of them.
        pub const ONCE: &[$row] = &[$($key),*];

        impl<N> Names<N> {
            /// The names that `name` gives to the rows of the table.
            pub fn of(mut name: impl FnMut(&$row) -> N) -> Names<N> {
                Names { $($field: name(&$key),)* }
            }

            /// Every name with its row.
            pub fn all(&self) -> impl Iterator<Item = (&N, &'static $row)> {
                [$(&self.$field),*].into_iter().zip(ONCE)
            }
        }
    };
}
