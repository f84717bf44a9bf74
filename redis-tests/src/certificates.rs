//! Certificates for TLS servers.

use std::path::Path;
use std::process::Command;

/// Writes a certificate authority (`ca.pem`) and, for each of `names`, a certificate (`name.pem`)
/// and its key (`name.key`) into a folder. Each certificate is for 127.0.0.1, or for the host
/// `name` if the name contains a dot.
///
/// # Panics
/// Panics if `openssl` is not installed.
pub fn certificates(dir: &Path, names: &[&str]) {
    let script = r#"set -e
cd "$0"
key() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "$@"; }
key -x509 -days 2 -subj /CN=authority -keyout ca.key -out ca.pem
for name in "$@"; do
    case $name in *[a-z]*.*) who=DNS:$name;; *) who=IP:127.0.0.1;; esac
    printf 'subjectAltName=%s\nbasicConstraints=CA:FALSE\n' "$who" > extensions
    key -subj "/CN=$name" -keyout "$name.key" -out "$name.csr"
    openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out "$name.pem"
done"#;
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(dir)
        .args(names)
        .output()
        .expect("sh runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
