//! Panic guard: every callback runs inside [`guarded`], so no panic reaches the server.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::api::{Ctx, Level, log};
use super::metric::PANICS;

/// Runs a callback. If the callback panics, logs and counts the panic and returns its text as the
/// error.
///
/// Unwinding releases everything that the callback has borrowed. Rules write to keys only after all
/// checks that can fail, so a panic in a check leaves no partial changes.
///
/// # Errors
/// Returns the text of the panic.
pub fn guarded<T>(what: &str, callback: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(callback)).map_err(|panic| {
        let text = panic_text(&panic);
        PANICS.more();
        log(
            Ctx::none(),
            Level::Warning,
            &format!("crawlspace: a bug in {what}, please report it: {text}"),
        );
        format!("ERR internal error, a bug in {what}; the server's log has the details")
    })
}

fn panic_text(panic: &Box<dyn Any + Send>) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_string())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_string())
}
