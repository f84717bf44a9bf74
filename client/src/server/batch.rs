//! Batches: many calls in one round trip.

use std::sync::{Arc, Mutex, PoisonError};

use redis::Value;

use super::call::Request;
use super::{Ask, AsyncServer, Call, Error, Server, Steps};

/// A batch of calls, which are collected and sent together.
///
/// The server runs them in order, but commands of other clients may run in between: a batch is not
/// a transaction. In a cluster, each server gets its part, and the parts run at the same time.
///
/// ```no_run
/// use crawlspace_client::dedupe::Index;
/// use crawlspace_client::tags::{Kind, TagSpace};
/// use crawlspace_client::{Batch, Server};
/// let server = Server::open("redis://127.0.0.1/")?;
/// let batch = Batch::new();
/// let known = Index::on(&batch, "").lookup(None, &[b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A"]);
/// let tags = TagSpace::on(&batch, "tags").get(Kind::Tag, b"coll:1068");
/// batch.send(&server)?;
/// println!("{:?}, {} tags", known.take()?[0], tags.take()?.len());
/// # Ok::<(), crawlspace_client::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Batch(Arc<Mutex<Vec<QueuedCall>>>);

pub(super) type Deliver = Box<dyn FnOnce(Result<Option<Value>, Error>) + Send>;

/// A queued call, and its reply when it has arrived.
pub(super) struct QueuedCall {
    pub request: Request,
    pub deliver: Deliver,
}

/// Result of a call of a [`Batch`], available once the batch has been sent.
pub struct Pending<T>(Arc<Mutex<Option<Result<T, Error>>>>);

impl Batch {
    /// Creates an empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Returns the number of queued calls.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns true if no calls are queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends all queued calls, and waits for the replies. The batch is empty afterwards.
    ///
    /// If the connection breaks and every call is repeatable, the client retries the whole batch.
    ///
    /// # Errors
    /// The error of the first call that got no reply because the server could not be reached. For
    /// errors that the server returned, see the [`Pending`] of each call.
    pub fn send(&self, server: &Server) -> Result<(), Error> {
        server.send(self)
    }

    /// Sends all queued calls as [`send`](Batch::send) does, over an async server.
    ///
    /// # Errors
    /// The errors of [`send`](Batch::send).
    pub async fn send_async(&self, server: &AsyncServer) -> Result<(), Error> {
        server.step_batch(self).await
    }

    pub(super) fn take(&self) -> Vec<QueuedCall> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Ask for Batch {
    type Answer<T: Send + 'static> = Pending<T>;

    fn ask<T: Send + 'static>(&self, call: Call<T>) -> Pending<T> {
        let (request, read) = call.split();
        let answer = Arc::new(Mutex::new(None));
        let pending = Pending(Arc::clone(&answer));
        let deliver = move |reply: Result<Option<Value>, Error>| {
            let read = reply.and_then(read);
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
        };
        if request.command.is_none() {
            deliver(Ok(None));
        } else {
            let deliver = Box::new(deliver);
            let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            calls.push(QueuedCall { request, deliver });
        }
        pending
    }
}

impl<T> Pending<T> {
    /// Returns the result of the call.
    ///
    /// # Errors
    /// Fails if the server refused the command or could not be reached, or if the batch was not
    /// sent.
    pub fn take(self) -> Result<T, Error> {
        let mut answer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answer.take().unwrap_or_else(|| {
            let unsent = (redis::ErrorKind::Client, "the batch has not been sent");
            Err(Error::new("batch", unsent))
        })
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").field("len", &self.len()).finish()
    }
}

impl<T> std::fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}
