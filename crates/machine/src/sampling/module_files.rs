//! Files of programs and libraries, as the processes that mapped them see them.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use object::Object;
use object::read::ReadCache;

use crate::crypto::ProcessFiles;

/// Mark at the end of a path whose file was deleted or replaced.
pub(super) const DELETED_MARK: &str = " (deleted)";

/// Opens the file of a module.
pub(super) fn open(path: &Path, pid: i32) -> Result<File, String> {
    let text = path.to_string_lossy();
    let opened = match text.strip_suffix(DELETED_MARK) {
        // Another file may have the name now. The kernel still offers the program itself.
        Some(_) => {
            let program = format!("/proc/{pid}/exe");
            match std::fs::read_link(&program) {
                Ok(target) if target == path => File::open(program),
                _ => return Err("the file was deleted".to_owned()),
            }
        }
        None if Path::new(&format!("/proc/{pid}")).exists() => ProcessFiles::of(pid)
            .open(path)
            .or_else(|_| File::open(path)),
        None => File::open(path),
    };
    opened.map_err(|error| error.to_string())
}

/// Identity of a build of a program or library: its build ID, or without one the file's inode, size
/// and time of the last change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileIdentity {
    BuildId(Vec<u8>),
    Inode([i64; 4]),
}

impl FileIdentity {
    pub(super) fn of(file: &File) -> Option<Self> {
        let cache = ReadCache::new(file);
        let parsed = object::File::parse(&cache).ok();
        if let Some(id) = parsed.and_then(|it| Some(it.build_id().ok()??.to_vec())) {
            return Some(Self::BuildId(id));
        }
        let known = file.metadata().ok()?;
        let (inode, bytes) = (known.ino().cast_signed(), known.size().cast_signed());
        Some(Self::Inode([
            inode,
            bytes,
            known.mtime(),
            known.mtime_nsec(),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_build_has_another_identity() {
        let program = File::open("/proc/self/exe").unwrap();
        let own = FileIdentity::of(&program).unwrap();
        assert_eq!(FileIdentity::of(&program), Some(own.clone()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web");
        std::fs::write(&path, "no program").unwrap();
        let first = FileIdentity::of(&File::open(&path).unwrap()).unwrap();
        assert!(matches!(first, FileIdentity::Inode(_)) && first != own);
        std::fs::write(&path, "another one").unwrap();
        let second = FileIdentity::of(&File::open(&path).unwrap()).unwrap();
        assert_ne!(second, first);
    }
}
