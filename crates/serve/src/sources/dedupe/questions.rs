//! Batches lookups by URL of many requests into shared calls to the server.
//!
//! Lookups that arrive while calls are in flight are sent together in the next call. Dropping a request drops only its
//! own lookup.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::Inner;
use crawlspace_client::Error;
use crawlspace_client::dedupe::{Capture, Captures};

/// Maximum number of calls in flight.
const FLIGHTS: usize = 2;
/// Maximum number of lookups in a call.
const URLS: usize = 128;

/// Page of a URL's captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// Maximum number of captures.
    pub limit: u64,
    /// Exclusive upper bound of the date.
    pub before: Option<Vec<u8>>,
}

/// Lookups waiting to be sent.
#[derive(Default)]
pub(super) struct Questions(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    questions: Vec<Question>,
    flights: usize,
}

struct Question {
    url: Vec<u8>,
    page: Page,
    answer: oneshot::Sender<Result<Vec<Capture>, Error>>,
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a lookup. Returns whether the caller must start a call.
    fn add(&self, question: Question) -> bool {
        let mut waiting = self.lock();
        waiting.questions.push(question);
        let takes_off = waiting.flights < FLIGHTS;
        waiting.flights += usize::from(takes_off);
        takes_off
    }

    /// Returns the lookups of the next call, which share the same page; `None` ends the sequence of calls.
    fn next(&self) -> Option<(Page, Vec<Question>)> {
        let mut waiting = self.lock();
        waiting.questions.retain(|one| !one.answer.is_closed());
        let Some(first) = waiting.questions.first() else {
            waiting.flights -= 1;
            return None;
        };
        let page = first.page.clone();
        let mut left = URLS;
        let fits = |one: &mut Question| {
            let fits = left > 0 && one.page == page;
            left -= usize::from(fits);
            fits
        };
        let taken = waiting.questions.extract_if(.., fits).collect();
        Some((page, taken))
    }
}

impl Inner {
    /// Returns captures of a URL, newest first.
    ///
    /// # Errors
    /// Fails if the server refuses the call or is unreachable. `None` if the runtime is shutting
    /// down.
    pub(super) async fn captures(
        self: &Arc<Self>,
        url: &[u8],
        page: &Page,
    ) -> Option<Result<Vec<Capture>, Error>> {
        let (answer, answered) = oneshot::channel();
        let takes_off = self.questions.add(Question {
            url: url.to_vec(),
            page: page.clone(),
            answer,
        });
        if takes_off {
            tokio::spawn(fly(Arc::clone(self)));
        }
        answered.await.ok()
    }

    async fn ask(&self, page: &Page, questions: &[Question]) -> Result<Vec<Vec<Capture>>, Error> {
        let urls: Vec<&[u8]> = questions.iter().map(|one| &one.url[..]).collect();
        let captures = Captures {
            crawl: self.crawl.as_deref().map(str::as_bytes),
            limit: Some(page.limit),
            before: page.before.as_deref(),
        };
        self.index().await?.lookup_urls(captures, &urls).await
    }
}

/// Sends calls while lookups are waiting.
async fn fly(inner: Arc<Inner>) {
    while let Some((page, questions)) = inner.questions.next() {
        let answers = inner.ask(&page, &questions).await;
        match answers {
            Ok(answers) => {
                for (question, captures) in questions.into_iter().zip(answers) {
                    // Sending fails if the request that asked has been dropped, which is not an error.
                    let _ = question.answer.send(Ok(captures));
                }
            }
            Err(error) => {
                for question in questions {
                    let _ = question.answer.send(Err(error.clone()));
                }
            }
        }
    }
}
