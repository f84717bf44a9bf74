//! Certificates for servers behind TLS.

use std::path::Path;
use std::process::Command;

/// Writes an authority, `ca.pem`, and a certificate with its key for each of `names` into a folder: `name.pem` and
/// `name.key`, for 127.0.0.1, or for the host that the name is where it has a dot.
///
/// # Panics
/// When there is no `openssl`.
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
