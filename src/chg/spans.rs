//! Command arguments for points in time and time spans.

// Without the feature `module`, only tests read the parsed values.
#![cfg_attr(not(feature = "module"), allow(dead_code))]

use crawlspace_host::grammar::{After, Arg, ArgKind, Args, Integer, Limits, Shape};
use crawlspace_host::text::parse_unsigned;

use super::time::{Millis, TEN_YEARS};

/// The latest time that a client may specify. A JavaScript number can exactly represent any token
/// that is derived from a time up to this limit.
const LATEST_NOW: Millis = 8_000_000_000_000;

/// The current time of a command.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Milliseconds since the epoch.
    pub ms: Millis,
    /// True if the client specified the time; false if the time is from the clock.
    pub simulated: bool,
}

/// The option `NOW`, with which a client specifies the time in simulations. `NOW` may also be the
/// name of a group or an execution, so the option is recognized only if a number follows it.
#[derive(Clone, Copy)]
pub(super) struct NowOption;

/// The option `NOW` as an argument.
pub(super) const NOW: NowOption = NowOption;

impl<'a> Shape<'a> for NowOption {
    type Value = Now;

    fn arg(&self) -> Arg {
        let now = Integer::new("now", 1, LATEST_NOW).after("NOW");
        now.arg().optional()
    }

    fn read(&self, args: &mut Args<'a>) -> Result<Now, String> {
        let simulated = args.is("NOW") && args.peek_second().and_then(parse_unsigned).is_some();
        if simulated {
            args.next("")?;
            let now = args.unsigned("NOW", 1, LATEST_NOW, "")?;
            args.set_now(now);
        }
        let ms = args.now();
        Ok(Now { ms, simulated })
    }
}

/// A point in time, at most ten years from now. A time in the past means now.
#[derive(Clone, Copy)]
pub(super) struct Time(&'static str, &'static str);

impl Time {
    pub(super) const fn new(name: &'static str) -> Time {
        Time(name, name)
    }

    /// Sets the keyword before the time. Error messages use the keyword as the name of the
    /// argument.
    pub(super) fn after(self, word: &'static str) -> After<Time> {
        After::new(word, Time(self.0, word))
    }
}

impl<'a> Shape<'a> for Time {
    type Value = Millis;

    fn arg(&self) -> Arg {
        Arg::value(self.0, ArgKind::Integer, Limits::Like("0"))
    }

    fn read(&self, args: &mut Args<'a>) -> Result<Millis, String> {
        let latest = args.now() + TEN_YEARS;
        let note = ", which is ten years from now in milliseconds since 1970";
        args.unsigned(self.1, 0, latest, note)
    }
}

/// Creates the shape of a span of time in milliseconds, of at least `least`.
pub(super) const fn span(name: &'static str, least: Millis) -> Integer {
    Integer::new(name, least, TEN_YEARS).noting(", which is ten years in milliseconds")
}

/// An integer, or -1 for no value.
#[derive(Clone, Copy)]
pub(super) struct OrNone(pub After<Integer>);

impl<'a> Shape<'a> for OrNone {
    type Value = Option<u64>;

    fn arg(&self) -> Arg {
        let limits = Limits::Like("-1");
        Arg {
            limits,
            ..self.0.arg()
        }
    }

    fn begins(&self, args: &Args<'a>) -> bool {
        self.0.begins(args)
    }

    fn read(&self, args: &mut Args<'a>) -> Result<Self::Value, String> {
        if args.peek_second() == Some(b"-1") {
            args.next("")?;
            args.next("")?;
            return Ok(None);
        }
        self.0.read(args).map(Some)
    }
}
