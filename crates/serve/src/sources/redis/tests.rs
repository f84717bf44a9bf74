//! Tests against a real server.

use std::collections::BTreeSet;

use redis_tests::{Options, Rng, Server};

use super::super::file::tests::{
    ask, assert_same, identity, lookup, query, random_lookup, runtime, text,
};
use super::*;
use crawlspace_index::sorted::line::trimmed;

#[test]
fn url_names_a_database_and_a_key() {
    for (url, database, key) in [
        ("redis://h:1/2/k:{coll}", "redis://h:1/2", "k:{coll}"),
        ("rediss://u:p@h/0/a/b", "rediss://u:p@h/0", "a/b"),
        ("redis://h/k", "redis://h/0", "k"),
        ("redis://h//k", "redis://h/0", "k"),
        ("redis://h/3", "redis://h/3", ""),
        ("redis://h", "redis://h/0", ""),
    ] {
        assert_eq!(parts(url), (database.to_owned(), key.to_owned()), "{url}");
    }
}

#[test]
fn sorted_sets_equal_a_naive_reader() {
    let server = Server::with(Options::new().no_module());
    let mut connection = server.conn();
    let mut rng = Rng::new("sorted_sets_equal_a_naive_reader");
    for round in 0..8 {
        let members = text(&mut rng);
        let members: BTreeSet<&[u8]> = members
            .split(|&byte| byte == b'\n')
            .map(trimmed)
            .filter(|line| line.len() < 1 << 16)
            .collect();
        let mut all = Vec::new();
        for member in &members {
            all.extend_from_slice(member);
            all.push(b'\n');
            let mut add = ::redis::cmd("ZADD");
            add.arg(format!("set:{round}:coll")).arg(0).arg(*member);
            let _: u64 = add.query(&mut connection).unwrap();
        }
        let url = format!("redis://127.0.0.1:{}/0/set:{round}:{{coll}}", server.port());
        let source = RedisSource::new(&url, false, identity());
        for _ in 0..30 {
            assert_same(&source, &[all.clone()], &random_lookup(&mut rng));
        }
        assert_eq!(source.health(), Ok(()));
    }
}

#[test]
fn unreachable_server_is_reported_without_its_password() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let url = format!("redis://user:secret@127.0.0.1:{port}/0/k");
    let source = RedisSource::new(&url, false, identity());
    let all = lookup(query("http://a.com/", Default::default()), Order::Ascending);
    let error = runtime().block_on(async {
        let mut rows = source.rows(all).await.unwrap();
        rows.batches.next().await.unwrap().unwrap_err()
    });
    let SourceError::Connection(text) = error else {
        panic!("{error:?}");
    };
    assert!(
        text.contains("127.0.0.1") && !text.contains("secret"),
        "{text}"
    );
    assert!(source.health().is_err() && !format!("{source:?}").contains("secret"));
}

#[test]
fn key_of_another_type_is_a_bad_answer() {
    let server = Server::with(Options::new().no_module());
    let _: () = ::redis::cmd("SET")
        .arg("k")
        .arg(1)
        .query(&mut server.conn())
        .unwrap();
    let url = format!("redis://127.0.0.1:{}/0/k", server.port());
    let source = RedisSource::new(&url, false, identity());
    let all = lookup(
        query("http://a.com/", Default::default()),
        Order::Descending,
    );
    let error = runtime().block_on(async {
        let mut rows = source.rows(all).await.unwrap();
        rows.batches.next().await.unwrap().unwrap_err()
    });
    assert!(matches!(error, SourceError::Answer(_)), "{error:?}");
    let nothing = format!("redis://127.0.0.1:{}/0/none", server.port());
    let source = RedisSource::new(&nothing, false, identity());
    let all = lookup(
        query("http://a.com/", Default::default()),
        Order::Descending,
    );
    assert_eq!(ask(&source, &all).0, []);
}

#[test]
fn key_with_a_wildcard_is_refused() {
    let source = RedisSource::new("redis://127.0.0.1:1/0/set:*", false, identity());
    let all = lookup(query("http://a.com/", Default::default()), Order::Ascending);
    let refused = runtime().block_on(source.rows(all)).err();
    assert!(matches!(refused, Some(SourceError::Unsupported(_))));
    assert!(source.health().is_err());
}

#[test]
fn server_that_starts_later_is_found() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    let url = format!("redis://127.0.0.1:{}/0/k", address.port());
    drop(free);
    let source = RedisSource::new(&url, false, identity());
    let all = lookup(query("http://a.com/", Default::default()), Order::Ascending);
    let asked = || {
        runtime().block_on(async {
            let mut rows = source.rows(Arc::clone(&all)).await?;
            rows.batches.next().await.transpose()
        })
    };
    assert!(asked().is_err());
    // A minimal imitation of a Redis server.
    let server = std::net::TcpListener::bind(address).unwrap();
    let serving = std::thread::spawn(move || {
        let (stream, _) = server.accept().unwrap();
        let mut reader = std::io::BufReader::new(stream.try_clone().unwrap());
        serve(&mut reader, stream);
    });
    let rows = asked().unwrap().unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(source.health(), Ok(()));
    drop(source);
    let _ = serving;
}

/// Answers every command until the connection ends.
fn serve(reader: &mut impl std::io::BufRead, mut stream: impl std::io::Write) {
    let mut line = String::new();
    let mut number = |reader: &mut dyn std::io::BufRead| -> Option<usize> {
        line.clear();
        reader.read_line(&mut line).ok()?;
        line.get(1..)?.trim().parse().ok()
    };
    while let Some(words) = number(reader) {
        let mut command = Vec::new();
        for _ in 0..words {
            let Some(length) = number(reader) else { return };
            let mut word = vec![0; length + 2];
            if reader.read_exact(&mut word).is_err() {
                return;
            }
            command.push(word);
        }
        let answer = match command.first().map(|name| name.trim_ascii()) {
            Some(b"ZRANGEBYLEX") => "*1\r\n$15\r\ncom,a)/ 2016 {}\r\n",
            Some(b"INFO" | b"CLUSTER") => "-ERR no such command\r\n",
            _ => "+OK\r\n",
        };
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
