//! Properties that all three families must have. Each file tests one property.

/// Creates a test of each of these functions for every family, or for the families with native
/// values.
macro_rules! for_every_family {
    ($($property:ident),+ $(,)?) => {
        for_every_family!(@ dedupe_plain "DEDUPE" "plain" $($property)+);
        for_every_family!(native values: $($property),+);
    };
    (native values: $($property:ident),+ $(,)?) => {
        for_every_family!(@ dedupe_packed "DEDUPE" "packed" $($property)+);
        for_every_family!(@ chg "CHG" "" $($property)+);
        for_every_family!(@ chg_packed "CHG" "packed" $($property)+);
        for_every_family!(@ tags "TAGS" "" $($property)+);
    };
    (@ $module:ident $name:literal $storage:literal $($property:ident)+) => {
        mod $module {
            $(#[test]
            fn $property() {
                super::$property(&redis_tests::matrix::family($name, $storage));
            })+
        }
    };
}

mod acl;
mod bad_input;
mod clients;
mod cluster;
mod coverage;
mod damaged;
mod databases;
mod discovery;
mod fuzz;
mod memory;
mod packed;
mod restart;
mod roles;
mod stage;
mod transactions;
