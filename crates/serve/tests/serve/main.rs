//! Tests of requests to other servers, comparisons with pywb, and fuzz tests.

mod fuzz;
mod live;
mod post;
mod surt;
mod words;

#[global_allocator]
static HEAP: redis_tests::fuzz::Heap = redis_tests::fuzz::Heap;
