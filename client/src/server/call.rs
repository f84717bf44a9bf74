//! A command and the type of its reply.

use redis::{Arg, Cmd, FromRedisValue, RedisError, Value};

use super::{Ask, Error, slot};

/// A command, the type of its reply, and a flag that is true if the command can safely be sent
/// twice.
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

/// Routing and retry information of a call.
pub(super) struct Request {
    /// Name of the command in error messages.
    pub name: String,
    /// The command to send; `None` if the client knows the result without asking.
    pub command: Option<Cmd>,
    /// Builds the command for a retry, if it differs from the first one.
    renewal: Option<Renewal>,
    /// Cluster slot of the key; `None` if the command has no key.
    pub slot: Option<u16>,
    pub repeatable: bool,
    pub waits: bool,
}

impl<T: Send + 'static> Call<T> {
    /// Creates a call of any command, including plain Redis commands. The client sends it at most
    /// once, unless it is [`repeatable`](Call::repeatable). In a cluster, the first argument of a
    /// command and the third argument of a script are used as the key; for other commands, use
    /// [`key`](Call::key).
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

    /// Creates a call with a known result. No command is sent.
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

    /// Marks the call as repeatable: it can safely be sent twice, so the client retries it if the
    /// connection breaks.
    pub fn repeatable(mut self) -> Call<T> {
        self.request.repeatable = true;
        self
    }

    /// Marks the call as blocking: it may use its connection for a long time, so it does not share
    /// the connection with other calls.
    pub fn waits(mut self) -> Call<T> {
        self.request.waits = true;
        self
    }

    /// Sets the key that determines the cluster slot of the call.
    pub fn key(mut self, key: impl AsRef<[u8]>) -> Call<T> {
        let key = key.as_ref();
        self.request.slot = Some(slot::of(key));
        self
    }

    /// Sets a function that builds the command for a retry.
    pub(crate) fn renewal(mut self, command: impl Fn() -> Cmd + Send + Sync + 'static) -> Call<T> {
        self.request.renewal = Some(Box::new(command));
        self
    }

    /// Transforms the result of the call.
    pub fn map<U>(self, f: impl FnOnce(T) -> U + Send + 'static) -> Call<U> {
        Call {
            request: self.request,
            read: Box::new(move |reply| (self.read)(reply).map(f)),
        }
    }

    /// Splits the call into the request to send and the function that reads its reply.
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

/// Returns calls without sending them, so that the caller can send them.
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
        // Omit the arguments, because they may contain a password.
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
