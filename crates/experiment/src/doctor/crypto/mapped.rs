//! Which TLS libraries a process has really mapped, and the files behind them.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use procfs::process::{MMapPath, MemoryMap};
use serde::Serialize;

use super::super::process::{Server, without_mark};

/// What a mapped library is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// A libcrypto: what encrypts.
    Crypto,
    /// A libssl: what speaks TLS.
    Ssl,
    /// A module of OpenSSL's, such as its FIPS provider.
    Module,
    /// Another library that can do TLS.
    Other,
}

/// One mapped library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mapped {
    /// Its path as the process knows it.
    pub path: PathBuf,
    /// What it is.
    pub part: Part,
    /// Whether the file that the process uses is gone from that path: an upgrade put another one
    /// there, or none.
    pub replaced: bool,
    #[serde(skip)]
    pub(super) file: ((i32, i32), u64),
    #[serde(skip)]
    range: (u64, u64),
}

/// Libraries other than OpenSSL's kind, by how their file names begin.
const OTHERS: [&str; 8] = [
    "libgnutls.so",
    "libnss3.so",
    "libssl3.so",
    "libmbedtls.so",
    "libwolfssl.so",
    "libs2n.so",
    "libjvm.so",
    "libboringssl",
];

/// Every library of a process that has to do with TLS, each file once, in the order of the map.
pub(super) fn libraries(maps: &[MemoryMap]) -> Vec<Mapped> {
    let mut found: Vec<Mapped> = Vec::new();
    for map in maps {
        let MMapPath::Path(path) = &map.pathname else {
            continue;
        };
        let plain = without_mark(path.clone());
        let file = (map.dev, map.inode);
        let Some(part) = part(&plain) else { continue };
        if found.iter().any(|known| known.file == file) {
            continue;
        }
        found.push(Mapped {
            part,
            replaced: plain != *path,
            file,
            range: map.address,
            path: plain,
        });
    }
    found
}

/// `libcrypto.so.3`, or `libcrypto-1f2e.so.1.1` as Python's wheels bring it.
fn part(path: &Path) -> Option<Part> {
    let name = path.file_name()?.to_str()?;
    let is = |stem: &str| {
        let rest = name.strip_prefix(stem);
        rest.is_some_and(|rest| {
            rest.starts_with(".so") || (rest.starts_with('-') && name.contains(".so"))
        })
    };
    if is("libcrypto") {
        Some(Part::Crypto)
    } else if is("libssl") {
        Some(Part::Ssl)
    } else if OTHERS.iter().any(|other| name.starts_with(other)) {
        Some(Part::Other)
    } else {
        let parent = path.parent()?.file_name()?.to_str()?;
        let is_module = parent.starts_with("ossl-modules") || parent.starts_with("engines-");
        (is_module && name.ends_with(".so")).then_some(Part::Module)
    }
}

#[cfg(test)]
impl Mapped {
    /// A library without a process that maps it.
    pub(super) fn of(path: &str, part: Part) -> Mapped {
        Mapped {
            path: path.into(),
            part,
            replaced: false,
            file: ((0, 0), 0),
            range: (0, 0),
        }
    }
}

impl Mapped {
    /// Opens the very file that is mapped: by its path where that still leads to it, otherwise by
    /// the kernel's link to the mapping.
    pub(super) fn open(&self, server: &Server) -> io::Result<File> {
        if !self.replaced
            && let Ok(file) = server.open(&self.path)
            && file.metadata().is_ok_and(|data| data.ino() == self.file.1)
        {
            return Ok(file);
        }
        let (from, to) = self.range;
        File::open(format!("/proc/{}/map_files/{from:x}-{to:x}", server.pid))
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
    fn libraries_come_once_and_by_what_they_are() {
        let maps: Vec<MemoryMap> = MemoryMaps::from_read(MAPS.as_bytes())
            .unwrap()
            .into_iter()
            .collect();
        let found = libraries(&maps);
        let brief: Vec<_> = found
            .iter()
            .map(|l| (l.path.to_str().unwrap(), l.part, l.replaced))
            .collect();
        let expected = [
            ("/usr/lib/libcrypto.so.3", Part::Crypto, false),
            ("/opt/libssl-1f2e.so.1.1", Part::Ssl, true),
            ("/usr/lib/ossl-modules/fips.so", Part::Module, false),
            ("/usr/lib/libssl3.so", Part::Other, false),
        ];
        assert_eq!(brief, expected);
    }
}
