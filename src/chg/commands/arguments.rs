//! Arguments that several commands of the family have.

use super::settings;
use crate::chg::Token;
use crate::chg::keys::ID_BYTES;
use crate::chg::time::{Millis, TEN_YEARS};
use crawlspace_host::server::args::Args;
use crawlspace_host::server::clock::now_ms;
use crawlspace_host::server::command::Call;
use crawlspace_host::text::{Shown, parse_unsigned};

/// The latest time that a client may say it is: tokens stay exact in the numbers of JavaScript.
const LATEST_NOW: Millis = 8_000_000_000_000;

/// What time it is.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// In milliseconds since the epoch.
    pub ms: Millis,
    /// Whether the client says so, and not the clock.
    pub simulated: bool,
}

/// Reads `NOW ms`, if it stands here.
pub fn now(call: &mut Call<'_>) -> Result<Now, String> {
    let args = &mut call.args;
    let said = args.peek_second().and_then(parse_unsigned).is_some() && args.keyword("NOW");
    if !said {
        return Ok(Now {
            ms: now_ms(),
            simulated: false,
        });
    }
    if !settings::SIMULATED_TIME.get() {
        return Err(format!(
            "ERR NOW is for tests and simulations; CONFIG SET crawlspace.chg-simulated-time yes allows it (argument {})",
            args.position()
        ));
    }
    Ok(Now {
        ms: args.unsigned("NOW", 1, LATEST_NOW)?,
        simulated: true,
    })
}

/// Reads an id.
pub fn id<'a>(args: &mut Args<'a>, name: &str) -> Result<&'a [u8], String> {
    args.bytes(name, ID_BYTES)
}

/// Reads a token.
pub fn token(args: &mut Args<'_>) -> Result<Token, String> {
    args.unsigned("token", 1, i64::MAX as u64)
}

/// Reads a point in time, not more than ten years ahead; the past is as good as now.
pub fn time(args: &mut Args<'_>, name: &str, now: Millis) -> Result<Millis, String> {
    let time = args.unsigned(name, 0, i64::MAX as u64)?;
    if time > now + TEN_YEARS {
        return Err(format!(
            "ERR {name} {time} is more than ten years off; times are in milliseconds since 1970, and now is {now} (argument {})",
            args.position()
        ));
    }
    Ok(time)
}

/// Reads a span of time in milliseconds.
pub fn span(args: &mut Args<'_>, name: &str, least: Millis) -> Result<Millis, String> {
    let span = args.unsigned(name, least, i64::MAX as u64)?;
    if span > TEN_YEARS {
        return Err(format!(
            "ERR {name} {span} is more than ten years, in milliseconds (argument {})",
            args.position()
        ));
    }
    Ok(span)
}

/// Reads a status: three digits, or a negative number where there was no response.
pub fn status(args: &mut Args<'_>) -> Result<i64, String> {
    let text = args.next("STATUS")?;
    let status = crawlspace_host::text::parse_signed(text).filter(|n| (-9999..=999).contains(n));
    status.ok_or_else(|| {
        format!(
            "ERR invalid STATUS '{}': an integer from -9999 to 999 is expected (argument {})",
            Shown(text),
            args.position()
        )
    })
}
