//! Look-ups by URL of many requests, which share calls to the server.
//!
//! While a call is under way, the look-ups that come meanwhile wait, and go out together in the next one. A request
//! that is dropped drops its look-up alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::Inner;
use crawlspace_client::Error;
use crawlspace_client::dedupe::{Capture, Captures};

/// Maximum number of calls under way at a time.
const FLIGHTS: usize = 2;
/// Maximum number of look-ups in a call.
const URLS: usize = 128;

/// Which captures of a URL are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// At most this many.
    pub limit: u64,
    /// Only those older than this date.
    pub before: Option<Vec<u8>>,
}

/// Look-ups that wait to be sent.
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

    /// Adds a look-up. Whether a call has to be begun for it.
    fn add(&self, question: Question) -> bool {
        let mut waiting = self.lock();
        waiting.questions.push(question);
        let takes_off = waiting.flights < FLIGHTS;
        waiting.flights += usize::from(takes_off);
        takes_off
    }

    /// The look-ups of the next call, which all ask for the same captures; `None` ends the flight.
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
    /// Captures of a URL, newest first.
    ///
    /// # Errors
    /// When the server refuses, or cannot be reached. `None` when the runtime ends.
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

/// Makes one call after the other, for as long as look-ups wait.
async fn fly(inner: Arc<Inner>) {
    while let Some((page, questions)) = inner.questions.next() {
        let answers = inner.ask(&page, &questions).await;
        match answers {
            Ok(answers) => {
                for (question, captures) in questions.into_iter().zip(answers) {
                    // Whoever asked may be gone.
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
