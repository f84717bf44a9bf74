//! A hash in Redis, from names of files to where they are.

use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::resource::record::LoadError;
use crawlspace_client::server::{Ask, AsyncServer, Call};

/// Timeout of a look-up.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A hash, whose fields are names, and whose values paths or URLs.
pub(super) struct RedisIndex {
    /// `redis://host:port/db`.
    server: String,
    key: String,
    connection: OnceCell<AsyncServer>,
}

impl RedisIndex {
    /// The hash at `redis://host:port/db/key`. Nothing is asked yet.
    pub(super) fn new(url: &str) -> RedisIndex {
        // The configuration has the number of a database in each.
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

    /// Where the file of that name is, if it is known.
    ///
    /// # Errors
    /// When the server cannot be reached, or does not answer in time.
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
                tracing::warn!(key = self.key, %error, "a hash of files cannot be asked");
                Err(LoadError::Io("Redis does not answer".to_owned()))
            }
            Err(_) => Err(LoadError::Io("Redis does not answer in time".to_owned())),
        }
    }
}
