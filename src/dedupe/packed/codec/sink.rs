//! Receivers of decoded values.

use super::fields::{self, Form, write_date};
use crate::texts::sink::{Buffer, Length, Text, TextSink};

/// Receives a decoded value, part by part. Each method returns `None` if the value becomes too
/// long.
pub trait ValueSink: TextSink {
    /// Appends a number in decimal.
    fn push_number(&mut self, n: u64) -> Option<()>;
    /// Appends a date, with a space before and after it.
    fn push_date(&mut self, form: Form, seconds: u32, millis: u16) -> Option<()>;
}

impl ValueSink for Length {
    #[inline]
    fn push_number(&mut self, n: u64) -> Option<()> {
        self.0 += n.checked_ilog10().unwrap_or(0) as usize + 1;
        Some(())
    }

    #[inline]
    fn push_date(&mut self, form: Form, _: u32, _: u16) -> Option<()> {
        self.0 += form.len() + 2;
        Some(())
    }
}

impl<B: Buffer> ValueSink for Text<'_, B> {
    #[inline]
    fn push_number(&mut self, mut n: u64) -> Option<()> {
        if n < 10 {
            self.room(1)?[0] = b'0' + n as u8;
            self.advance(1);
            return Some(());
        }
        let len = n.checked_ilog10().unwrap_or(0) as usize + 1;
        for digit in self.room(len)?.iter_mut().rev() {
            *digit = b'0' + (n % 10) as u8;
            n /= 10;
        }
        self.advance(len);
        Some(())
    }

    #[inline]
    fn push_date(&mut self, form: Form, seconds: u32, millis: u16) -> Option<()> {
        let room = self.room(fields::DATE + 2)?;
        room[0] = b' ';
        let date = (&mut room[1..=fields::DATE]).try_into().ok()?;
        let len = write_date(form, seconds, millis, date);
        room[len + 1] = b' ';
        self.advance(len + 2);
        Some(())
    }
}
