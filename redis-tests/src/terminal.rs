//! Runs programs on a pseudo-terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::Command;
use std::ptr;

/// Runs a program to its end on a pseudo-terminal with `columns` columns, and types `typed`. Returns
/// the exit status and the whole output.
///
/// # Panics
/// Panics if no pseudo-terminal can be opened, or the program does not start.
pub fn on_terminal(mut command: Command, columns: u16, typed: &str) -> (i32, String) {
    let size = libc::winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: the call writes to both descriptors, the name and the settings may be null, and the
    // size is only read.
    let opened =
        unsafe { libc::openpty(&mut ours, &mut theirs, ptr::null_mut(), ptr::null(), &size) };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: both descriptors were just opened and have no other owner.
    let (mut ours, theirs) = unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    let again = || theirs.try_clone().expect("one more descriptor");
    command.stdin(again()).stdout(again()).stderr(again());
    let mut child = command.spawn().expect("the program starts");
    // Reading ends only when the last writer has closed the terminal, so close this copy.
    drop(command);
    drop(theirs);
    ours.write_all(typed.as_bytes())
        .expect("the terminal accepts input");
    let mut seen = Vec::new();
    // Linux reports a closed terminal as an error, not as end-of-file.
    let _ = ours.read_to_end(&mut seen);
    let status = child.wait().expect("it ends");
    let text = String::from_utf8_lossy(&seen).replace("\r\n", "\n");
    (status.code().unwrap_or(-1), text)
}
