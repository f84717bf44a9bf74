//! Tests the statements of the client guide about using the crate `redis` directly.

use crawlspace_client::redis::{self, AsyncConnectionConfig, Value};
use redis_tests::Server as Redis;

use crate::server::{command, run};

fn open(redis: &Redis, protocol: &str) -> redis::Client {
    redis::Client::open(format!("{}?protocol={protocol}", redis.url())).unwrap()
}

#[test]
fn maps_are_maps_in_resp3_and_lists_in_resp2() {
    let redis = Redis::start();
    for (protocol, is_map) in [("resp2", false), ("resp3", true)] {
        let mut connection = open(&redis, protocol).get_connection().unwrap();
        let stats: Value = command("DEDUPE.STATS {a}:").query(&mut connection).unwrap();
        assert_eq!(matches!(stats, Value::Map(_)), is_map, "{stats:?}");
    }
    let default = redis::Client::open(redis.url()).unwrap();
    let mut connection = default.get_connection().unwrap();
    let stats: Value = command("DEDUPE.STATS {a}:").query(&mut connection).unwrap();
    assert!(matches!(stats, Value::Array(_)), "{stats:?}");
}

#[test]
fn futures_of_redis_rs_time_out_after_half_a_second_by_default() {
    let redis = Redis::start();
    let next = command("CHG.NEXT {web}: BLOCK 1000");
    let client = open(&redis, "resp3");
    let mut blocking = client.get_connection().unwrap();
    assert_eq!(next.query::<Value>(&mut blocking).unwrap(), Value::Nil);
    run(async {
        let mut short = client.get_multiplexed_async_connection().await.unwrap();
        let error = next.query_async::<Value>(&mut short).await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let patient = client.get_multiplexed_async_connection_with_config(&config);
        let mut patient = patient.await.unwrap();
        assert_eq!(
            next.query_async::<Value>(&mut patient).await.unwrap(),
            Value::Nil
        );
    });
}

#[test]
fn error_has_a_separate_code_word() {
    let redis = Redis::start();
    let mut connection = open(&redis, "resp3").get_connection().unwrap();
    let commit = command("DEDUPE.COMMIT {a}: nobody");
    let error = commit.query::<Value>(&mut connection).unwrap_err();
    assert_eq!(error.code(), Some("NOCRAWL"), "{error}");
}
