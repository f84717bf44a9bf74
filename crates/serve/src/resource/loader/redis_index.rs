//! Path indexes in Redis: a hash from file names to locations.

use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::resource::record::LoadError;
use crawlspace_client::server::{Ask, AsyncServer, Call};

/// Timeout of a lookup.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A hash with file names as fields, and paths or URLs as values.
pub(super) struct RedisIndex {
    /// `redis://host:port/db`.
    server: String,
    key: String,
    connection: OnceCell<AsyncServer>,
}

impl RedisIndex {
    /// Creates a client of the hash at `redis://host:port/db/key`, which connects on first use.
    pub(super) fn new(url: &str) -> RedisIndex {
        // The normal form of the URL always has a database number.
        let slash = url
            .match_indices('/')
            .nth(3)
            .map_or(url.len(), |(at, _)| at);
        let (server, key) = url.split_at_checked(slash).unwrap_or((url, ""));
        RedisIndex {
            server: server.to_owned(),
            key: key.strip_prefix('/').unwrap_or(key).to_owned(),
            connection: OnceCell::new(),
        }
    }

    /// Returns the location of the file with that name, if the hash has one.
    ///
    /// # Errors
    /// Fails if the server is unreachable, or does not answer in time.
    pub(super) async fn path(&self, name: &str) -> Result<Option<String>, LoadError> {
        let mut command = redis::cmd("HGET");
        command.arg(&self.key).arg(name);
        let asked = async {
            let options = AsyncServer::options(&self.server)
                .retries(1)
                .timeout(TIMEOUT);
            let server = self
                .connection
                .get_or_try_init(|| options.open_async())
                .await?;
            server.ask(Call::new(command).repeatable()).await
        };
        match timeout(TIMEOUT, asked).await {
            Ok(Ok(path)) => Ok(path),
            Ok(Err(error)) => {
                tracing::warn!(key = self.key, %error, "the hash of file locations cannot be queried");
                Err(LoadError::Io("Redis does not answer".to_owned()))
            }
            Err(_) => Err(LoadError::Io("Redis does not answer in time".to_owned())),
        }
    }
}
