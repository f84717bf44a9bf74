//! Tests waiting, progress and cancellation while an index is built.

use std::fs;

use redis_tests::{Program, assert_contains, ends, on_terminal, until};

use crate::index_cache::stage::{Stage, lock_as_another_process};

#[test]
fn running_build_is_waited_for_and_named() {
    let stage = Stage::of([1]);
    let folder = stage.cache().join("crawllog");
    fs::create_dir_all(&folder).unwrap();
    let lock = folder.join("crawllog-1-cache.working");
    fs::write(&lock, "").unwrap();
    let held = lock_as_another_process(&lock);
    let late = ends(stage.get("full", "1", "--wait 0"), 1);
    assert_contains(&late.errors, "crawllog-1-cache");
    assert_contains(&late.errors, "still being built");
    let waiting = Program::start(stage.get("full", "1", ""));
    drop(held);
    assert!(waiting.end().status.success());
}

#[test]
fn interrupted_command_can_be_repeated() {
    let stage = Stage::of([1, 2]);
    ends(stage.get("full", "1", ""), 0);
    // The build must wait, so that it cannot finish before it is interrupted.
    let lock = stage.entry("crawllog", "crawllog-2-cache.working");
    fs::write(&lock, "").unwrap();
    let held = lock_as_another_process(&lock);
    for interrupt in [Program::interrupt, |program: &mut Program| {
        program.signal(15)
    }] {
        let mut waiting = Program::start(stage.get("full", "1-2", ""));
        until("the process handles signals", || {
            handles_signals(waiting.pid())
        });
        interrupt(&mut waiting);
        let ended = waiting.end();
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        assert_eq!(ended.out, "");
        let expected = "crawlspace: stopped; repeat the request to resume\n";
        assert_eq!(ended.errors, expected);
    }
    drop(held);
    ends(stage.get("full", "1-2", "--strict"), 0);
}

/// Returns true if a process has handlers for SIGINT and SIGTERM.
fn handles_signals(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & (1 << 1) != 0 && mask & (1 << 14) != 0)
}

#[test]
fn progress_bar_is_cleared_from_the_terminal() {
    let stage = Stage::of([1]);
    stage.add(2, 60_000);
    let (status, seen) = on_terminal(stage.get("full", "1-2", ""), 100, "");
    assert_eq!(status, 0, "{seen}");
    let last: Vec<&str> = seen.lines().rev().take(4).collect();
    assert!(last[0].starts_with("  bytes"), "{seen:?}");
    assert_contains(&seen, "1-2-cache");
}
