//! Tests PostgreSQL over TLS.

use std::process::Command;

use redis_tests::{assert_contains, certificates};

use crate::tags_sync::stage::Stage;

/// Gives the server a certificate for its address.
fn certified(stage: &mut Stage) {
    let dir = stage.postgres.dir();
    certificates(dir, &["server"]);
    let script = "cd \"$0\"; cp server.key data/server.key; cp server.pem data/server.crt
        chown --reference=data data/server.key data/server.crt; chmod 600 data/server.key";
    let done = Command::new("sh").args(["-euc", script]).arg(dir).status();
    assert!(done.unwrap().success());
    stage.postgres.restart_with("ssl=on");
}

#[test]
fn server_certificate_is_verified_when_tls_is_required() {
    let mut stage = Stage::new(5);
    let url = |mode: &str| format!("{}?sslmode={mode}", stage.postgres.url());
    let (require, prefer, disable, full) = (
        url("require"),
        url("prefer"),
        url("disable"),
        url("verify-full"),
    );
    let ca = stage.postgres.dir().join("ca.pem");
    let ca = ca.to_str().unwrap();

    let said = stage.refused(&format!("--postgres {require}"));
    assert_contains(&said, "TLS");
    stage.run(&format!("--once --postgres {prefer}")).exits(0);

    certified(&mut stage);
    for mode in [&require, &full] {
        let said = stage.refused(&format!("--postgres {mode}"));
        assert_contains(&said, "UnknownIssuer");
        stage
            .run(&format!("--once --postgres {mode} --postgres-ca {ca}"))
            .exits(0);
    }
    for mode in [&prefer, &disable] {
        stage.run(&format!("--once --postgres {mode}")).exits(0);
    }
    let elsewhere = require.replace("127.0.0.1", "localhost");
    let said = stage.refused(&format!("--postgres {elsewhere} --postgres-ca {ca}"));
    assert_contains(&said, "not valid for name");
    let said = stage.refused(&format!("--postgres {require} --postgres-ca /no/such/file"));
    assert_contains(&said, "/no/such/file");
}

#[test]
fn changes_are_mirrored_over_tls() {
    let mut stage = Stage::new(5);
    certified(&mut stage);
    let mut sql = stage.sql();
    let url = format!("{}?sslmode=require", stage.postgres.url());
    let ca = stage.postgres.dir().join("ca.pem");
    let sync = stage.follow(&format!("--postgres {url} --postgres-ca {}", ca.display()));
    sync.loaded_after(0);
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
        WHERE ssl AND application_name = 'crawlspace tags sync'";
    assert!(sql.query_one(encrypted, &[]).unwrap().get::<_, i64>(0) > 0);
    sql.batch_execute("UPDATE collection SET private = NOT private")
        .unwrap();
    stage.settled(&mut sql);
}
