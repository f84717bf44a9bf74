//! URLs of Redis servers on the command line.

use std::convert::Infallible;

/// Parses the URL of a server, or `host:port` as `redis://host:port`. Invalid URLs are reported when connecting,
/// without the password that they may contain.
pub(crate) fn redis_url(given: &str) -> Result<String, Infallible> {
    let is_socket = given.starts_with("unix:") || given.starts_with("redis+unix:");
    Ok(if is_socket || given.contains("://") {
        given.to_owned()
    } else {
        format!("redis://{given}")
    })
}

#[cfg(test)]
mod tests {
    use super::redis_url;

    #[test]
    fn host_and_port_become_a_url() {
        for (given, url) in [
            ("127.0.0.1:6379", "redis://127.0.0.1:6379"),
            ("db.example", "redis://db.example"),
            ("[::1]:6379/2", "redis://[::1]:6379/2"),
            ("user:password@db:6379", "redis://user:password@db:6379"),
            ("rediss://db.example/", "rediss://db.example/"),
            ("unix:/run/redis.sock", "unix:/run/redis.sock"),
        ] {
            assert_eq!(redis_url(given).as_deref(), Ok(url));
        }
    }
}
