//! Answers over HTTP: what is asked of other servers, beside pywb, and with input that does harm.

mod fuzz;
mod live;
mod post;
mod surt;
mod words;

#[global_allocator]
static HEAP: redis_tests::fuzz::Heap = redis_tests::fuzz::Heap;
