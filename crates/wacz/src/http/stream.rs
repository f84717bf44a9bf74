use std::io::{self, Read};
use std::sync::Arc;

use super::Remote;
use super::ask;
use super::retry::Retries;
use crate::Problem;
use crawlspace_fetch::answer::Answer;
use crawlspace_fetch::blocking::Body;

/// A reader of a part of a file on a server. A broken connection is resumed where it broke.
pub(crate) struct Stream {
    remote: Arc<Remote>,
    at: u64,
    end: u64,
    answer: Option<Current>,
    retries: Retries,
    /// True if the whole file is requested, from a server that may not support ranges.
    is_whole: bool,
}

/// The response being read.
struct Current {
    body: Body,
    left: u64,
}

impl Stream {
    pub(super) fn new(remote: Arc<Remote>, from: u64, length: u64) -> Stream {
        Stream {
            at: from,
            end: from + length,
            answer: None,
            retries: Retries::new(&remote.options),
            is_whole: false,
            remote,
        }
    }

    /// Creates a stream of a whole file whose response has begun.
    pub(super) fn begun(remote: Arc<Remote>, body: Body) -> Stream {
        let left = remote.size;
        Stream {
            answer: Some(Current { body, left }),
            is_whole: true,
            ..Stream::new(remote, 0, left)
        }
    }

    /// Reads the next bytes; returns 0 if the read must be retried.
    fn attempt(&mut self, into: &mut [u8]) -> Result<usize, Problem> {
        if self.answer.is_none() {
            self.answer = Some(self.ask()?);
        }
        let Some(answer) = &mut self.answer else {
            return Ok(0);
        };
        let wanted = into
            .len()
            .min(usize::try_from(answer.left).unwrap_or(usize::MAX));
        let n = match answer.body.read(&mut into[..wanted]) {
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        if n == 0 {
            return Err(Problem::Connection("the connection broke off".to_owned()));
        }
        answer.left -= n as u64;
        self.at += n as u64;
        self.retries.progress(n);
        if answer.left == 0 {
            // After the end was read, the connection can be reused. An error at this point does no
            // harm.
            let more = answer.body.read(&mut [0]);
            self.answer = None;
            if more.is_ok_and(|more| more > 0) {
                return Err(Problem::Answer(
                    "it sends more than the part that it announced".to_owned(),
                ));
            }
        }
        Ok(n)
    }

    /// Requests all remaining bytes. A server may send fewer.
    fn ask(&self) -> Result<Current, Problem> {
        let remote = &self.remote;
        let (url, options) = (&remote.url, &remote.options);
        let changed = |how: String| Err(Problem::Changed(how));
        match ask(url, Some((self.at, self.end - 1)), options)? {
            Answer::Part {
                part,
                validators,
                body,
            } => {
                if let Some(how) = validators.difference(&remote.validators) {
                    return changed(how);
                }
                if let Some(total) = part.total.filter(|total| *total != remote.size) {
                    return changed(format!("it had {} bytes, and has {total}", remote.size));
                }
                if part.from != self.at || part.last >= self.end {
                    return Err(Problem::Answer(format!(
                        "requested bytes {} to {}, received {} to {}",
                        self.at,
                        self.end - 1,
                        part.from,
                        part.last
                    )));
                }
                Ok(Current {
                    body,
                    left: part.last - part.from + 1,
                })
            }
            Answer::Whole {
                mut body,
                validators,
                length,
                ..
            } => {
                if let Some(how) = validators.difference(&remote.validators) {
                    return changed(how);
                }
                if let Some(length) = length.filter(|length| *length != remote.size) {
                    return changed(format!("it had {} bytes, and has {length}", remote.size));
                }
                if self.is_whole {
                    let skipped = io::copy(&mut (&mut body).take(self.at), &mut io::sink())?;
                    return if skipped == self.at {
                        Ok(Current {
                            body,
                            left: self.end - self.at,
                        })
                    } else {
                        Err(Problem::Connection("the connection broke off".to_owned()))
                    };
                }
                // The name may belong to several servers.
                Err(Problem::Connection(
                    "the server does not send parts any more".to_owned(),
                ))
            }
            Answer::NoSuchPart { .. } => changed("it has become shorter".to_owned()),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        while self.at < self.end {
            match self.attempt(into) {
                Ok(0) => {}
                Ok(n) => return Ok(n),
                Err(problem) => {
                    self.answer = None;
                    self.retries.retry(problem)?;
                }
            }
        }
        Ok(0)
    }
}
