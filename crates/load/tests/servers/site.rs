//! Content of every server: a certificate, and the same bodies under the same paths as on the
//! embedded origin.

use std::fmt::Write;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use prony_origin::pattern;
use rcgen::{CertificateParams, KeyPair};
use sha2::{Digest, Sha256};

/// Body sizes in bytes: zero, one, one frame, one frame and a byte, more than a window (65,535),
/// and larger.
pub(crate) const SIZES: [usize; 8] = [0, 1, 1 << 10, 16_384, 16_385, 100 << 10, 1 << 20, 10 << 20];

/// SHA-256 of the body of each size in [`SIZES`], in the form that `--expect-sha256` takes.
static HASHES: LazyLock<Vec<String>> = LazyLock::new(|| {
    SIZES
        .iter()
        .map(|&size| hash(&pattern::first(size)))
        .collect()
});

/// Returns the SHA-256 of the body of `size` bytes.
pub(crate) fn hash_of(size: usize) -> &'static str {
    let at = SIZES.iter().position(|&other| other == size).unwrap();
    &HASHES[at]
}

pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        })
}

/// A server's folder with its content, its certificate and its own files. Removed when dropped.
pub(crate) struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    /// Creates a folder with the bodies at `www/bytes/SIZE` and a certificate for 127.0.0.1.
    pub(crate) fn new() -> Site {
        let folder = tempfile::tempdir().unwrap();
        // Servers started by root run their workers as other users, which must be able to read the
        // folder.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let site = Site { folder };
        let bodies = site.path("www/bytes");
        fs::create_dir_all(&bodies).unwrap();
        for size in SIZES {
            fs::write(bodies.join(size.to_string()), pattern::first(size)).unwrap();
        }
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap();
        let certificate = certificate.self_signed(&key).unwrap().pem();
        site.file("certificate.pem", &certificate);
        site.file("key.pem", &key.serialize_pem());
        site.file("both.pem", &(certificate + &key.serialize_pem()));
        site
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }
}

#[test]
fn hashes_are_of_the_bodies() {
    // The well-known SHA-256 of empty input.
    assert!(hash_of(0).starts_with("e3b0c44298fc1c14"));
    assert_eq!(hash_of(16_385), hash(&pattern::first(16_385)));
}
