//! The crate `archive`, as other crates use it.

mod wacz;

#[global_allocator]
static HEAP: redis_tests::fuzz::Heap = redis_tests::fuzz::Heap;
