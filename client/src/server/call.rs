//! A command and the type of its reply.

use redis::{Arg, Cmd, FromRedisValue, RedisError, Value};

use super::{Ask, Error, slot};

/// A command, the type of its reply, and whether it may arrive twice.
///
/// ```no_run
/// use crawlspace_client::{redis, Ask, Call, Server};
/// let mut get = redis::cmd("GET");
/// get.arg("{coll-42}:note");
/// let server = Server::open("redis://127.0.0.1/")?;
/// let note: Option<String> = server.ask(Call::new(get).repeatable())?;
/// # Ok::<(), crawlspace_client::Error>(())
/// ```
pub struct Call<T> {
    pub(super) request: Request,
    read: Read<T>,
}

type Read<T> = Box<dyn FnOnce(Option<Value>) -> Result<T, RedisError> + Send>;
type Renewal = Box<dyn Fn() -> Cmd + Send + Sync>;

/// What of a call concerns its way to the server.
pub(super) struct Request {
    /// What it is called in errors.
    pub name: String,
    /// `None`: the answer is known without a server.
    pub command: Option<Cmd>,
    /// What to send the next time in its place.
    renewal: Option<Renewal>,
    /// The slot of its key; `None` when it has none.
    pub slot: Option<u16>,
    pub repeatable: bool,
    pub waits: bool,
}

impl<T: Send + 'static> Call<T> {
    /// Any command, plain ones of Redis included. It is sent once at most, unless it is
    /// [`repeatable`](Call::repeatable). In a cluster its first argument is taken for its key (the third one
    /// of a script); see [`key`](Call::key) for others.
    pub fn new(command: Cmd) -> Call<T>
    where
        T: FromRedisValue,
    {
        Call {
            request: Request {
                name: name_of(&command),
                slot: slot::of_command(&command),
                command: Some(command),
                renewal: None,
                repeatable: false,
                waits: false,
            },
            read: Box::new(|reply| {
                let reply = reply.unwrap_or(Value::Nil).extract_error()?;
                Ok(T::from_redis_value(reply)?)
            }),
        }
    }

    /// A call whose answer is known: nothing is sent.
    pub fn known(answer: T) -> Call<T> {
        Call {
            request: Request {
                name: String::new(),
                command: None,
                renewal: None,
                slot: None,
                repeatable: true,
                waits: false,
            },
            read: Box::new(|_| Ok(answer)),
        }
    }

    /// Marks a call that may arrive twice, so that it is sent again after a connection that broke.
    pub fn repeatable(mut self) -> Call<T> {
        self.request.repeatable = true;
        self
    }

    /// Marks a call that may keep its connection busy for long, so that it gets one that others do not wait for.
    pub fn waits(mut self) -> Call<T> {
        self.request.waits = true;
        self
    }

    /// The key that says where in a cluster it belongs.
    pub fn key(mut self, key: impl AsRef<[u8]>) -> Call<T> {
        let key = key.as_ref();
        self.request.slot = Some(slot::of(key));
        self
    }

    /// What to send in its place when it is sent again.
    pub(crate) fn renewal(mut self, command: impl Fn() -> Cmd + Send + Sync + 'static) -> Call<T> {
        self.request.renewal = Some(Box::new(command));
        self
    }

    /// Makes something else of the answer.
    pub fn map<U>(self, f: impl FnOnce(T) -> U + Send + 'static) -> Call<U> {
        Call {
            request: self.request,
            read: Box::new(move |reply| (self.read)(reply).map(f)),
        }
    }

    /// What is sent, and what is to be done with the reply to it.
    pub(super) fn split(
        self,
    ) -> (
        Request,
        impl FnOnce(Option<Value>) -> Result<T, Error> + Send,
    ) {
        let name = self.request.name.clone();
        let read = self.read;
        let read = move |reply| read(reply).map_err(|cause| Error::new(name, cause));
        (self.request, read)
    }
}

/// Gives calls back unsent, for the caller to send.
///
/// ```no_run
/// use crawlspace_client::dedupe::Index;
/// use crawlspace_client::{Ask, Server, Unsent};
/// let commit = Index::on(&Unsent, "{coll-42}:").commit(b"crawl-1");
/// let committed = Server::open("redis://127.0.0.1/")?.ask(commit)?;
/// println!("{} new hashes", committed.new);
/// # Ok::<(), crawlspace_client::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Unsent;

impl Ask for Unsent {
    type Answer<T: Send + 'static> = Call<T>;

    fn ask<T: Send + 'static>(&self, call: Call<T>) -> Call<T> {
        call
    }
}

impl<T> std::fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the arguments: a password may be among them.
        f.debug_struct("Call")
            .field("name", &self.request.name)
            .field("repeatable", &self.request.repeatable)
            .field("waits", &self.request.waits)
            .finish_non_exhaustive()
    }
}

impl Request {
    /// Prepares the call for a retry.
    pub fn renew(&mut self) {
        if let Some(renewal) = &self.renewal {
            self.command = Some(renewal());
        }
    }
}

fn name_of(command: &Cmd) -> String {
    match command.args_iter().next() {
        Some(Arg::Simple(name)) => String::from_utf8_lossy(name).into_owned(),
        _ => String::new(),
    }
}
