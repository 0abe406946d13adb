//! TLS libraries that a process has mapped into its memory, and their files.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use procfs::process::{MMapPath, MemoryMap};
use serde::Serialize;

use super::process_files::{ProcessFiles, without_deleted_mark};

/// The kind of a mapped library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LibraryKind {
    /// A libcrypto, which implements the cryptography.
    Crypto,
    /// A libssl, which implements TLS.
    Ssl,
    /// An OpenSSL module, such as its FIPS provider.
    Module,
    /// Another library that implements TLS.
    Other,
}

/// A library that a process has mapped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MappedLibrary {
    /// Path of the library, valid inside the process.
    pub path: PathBuf,
    /// Kind of the library.
    #[serde(rename = "part")]
    pub kind: LibraryKind,
    /// True if the path no longer refers to the file that the process uses, for example after an
    /// upgrade.
    pub replaced: bool,
    #[serde(skip)]
    pub(super) file: ((i32, i32), u64),
    #[serde(skip)]
    range: (u64, u64),
}

/// File name prefixes of TLS libraries that are unrelated to OpenSSL.
const OTHER_LIBRARIES: [&str; 8] = [
    "libgnutls.so",
    "libnss3.so",
    "libssl3.so",
    "libmbedtls.so",
    "libwolfssl.so",
    "libs2n.so",
    "libjvm.so",
    "libboringssl",
];

/// Returns the TLS libraries of a process in the order of its memory map. Each file is listed once.
pub(super) fn libraries(maps: &[MemoryMap]) -> Vec<MappedLibrary> {
    let mut found: Vec<MappedLibrary> = Vec::new();
    for map in maps {
        let MMapPath::Path(path) = &map.pathname else {
            continue;
        };
        let plain = without_deleted_mark(path.clone());
        let file = (map.dev, map.inode);
        let Some(kind) = kind(&plain) else { continue };
        if found.iter().any(|known| known.file == file) {
            continue;
        }
        found.push(MappedLibrary {
            kind,
            replaced: plain != *path,
            file,
            range: map.address,
            path: plain,
        });
    }
    found
}

/// Returns the kind of a library according to its file name, such as `libcrypto.so.3`, or
/// `libcrypto-1f2e.so.1.1` in Python wheels.
fn kind(path: &Path) -> Option<LibraryKind> {
    let name = path.file_name()?.to_str()?;
    let is = |stem: &str| {
        let rest = name.strip_prefix(stem);
        rest.is_some_and(|rest| {
            rest.starts_with(".so") || (rest.starts_with('-') && name.contains(".so"))
        })
    };
    if is("libcrypto") {
        Some(LibraryKind::Crypto)
    } else if is("libssl") {
        Some(LibraryKind::Ssl)
    } else if OTHER_LIBRARIES.iter().any(|other| name.starts_with(other)) {
        Some(LibraryKind::Other)
    } else {
        let parent = path.parent()?.file_name()?.to_str()?;
        let is_module = parent.starts_with("ossl-modules") || parent.starts_with("engines-");
        (is_module && name.ends_with(".so")).then_some(LibraryKind::Module)
    }
}

#[cfg(test)]
impl MappedLibrary {
    /// Creates the description of a library that no process has mapped, for tests.
    pub(crate) fn of(path: &str, kind: LibraryKind) -> MappedLibrary {
        MappedLibrary {
            path: path.into(),
            kind,
            replaced: false,
            file: ((0, 0), 0),
            range: (0, 0),
        }
    }
}

impl MappedLibrary {
    /// Opens the mapped file by its path if the path still refers to that file, and otherwise
    /// through the kernel's link to the mapping.
    pub(super) fn open(&self, process: &ProcessFiles) -> io::Result<File> {
        if !self.replaced
            && let Ok(file) = process.open(&self.path)
            && file.metadata().is_ok_and(|data| data.ino() == self.file.1)
        {
            return Ok(file);
        }
        let (from, to) = self.range;
        File::open(format!("/proc/{}/map_files/{from:x}-{to:x}", process.pid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::FromRead;
    use procfs::process::MemoryMaps;

    const MAPS: &str = "\
1000-2000 r-xp 00000000 fe:00 7 /usr/lib/libcrypto.so.3
2000-3000 rw-p 00001000 fe:00 7 /usr/lib/libcrypto.so.3
3000-4000 rw-p 00000000 00:00 0\x20
4000-5000 r-xp 00000000 fe:00 8 /opt/libssl-1f2e.so.1.1 (deleted)
5000-6000 r-xp 00000000 fe:00 9 /usr/lib/libc.so.6
6000-7000 r-xp 00000000 fe:00 10 /usr/lib/ossl-modules/fips.so
7000-8000 r-xp 00000000 fe:00 11 /usr/lib/libssl3.so
8000-9000 r-xp 00000000 fe:00 12 /usr/lib/libcryptopp.so.8
";

    #[test]
    fn each_library_is_listed_once_with_its_kind() {
        let maps: Vec<MemoryMap> = MemoryMaps::from_read(MAPS.as_bytes())
            .unwrap()
            .into_iter()
            .collect();
        let found = libraries(&maps);
        let brief: Vec<_> = found
            .iter()
            .map(|l| (l.path.to_str().unwrap(), l.kind, l.replaced))
            .collect();
        let expected = [
            ("/usr/lib/libcrypto.so.3", LibraryKind::Crypto, false),
            ("/opt/libssl-1f2e.so.1.1", LibraryKind::Ssl, true),
            ("/usr/lib/ossl-modules/fips.so", LibraryKind::Module, false),
            ("/usr/lib/libssl3.so", LibraryKind::Other, false),
        ];
        assert_eq!(brief, expected);
    }
}
