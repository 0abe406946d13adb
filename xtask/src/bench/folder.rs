//! The folder of one run of the benchmark.

use std::path::{Path, PathBuf};

/// Folder for one run of the benchmark, removed on drop. Creating one also removes the folders of
/// runs that were killed.
pub(super) struct BenchFolder {
    path: PathBuf,
}

impl BenchFolder {
    /// Creates a folder below `parent`.
    pub(super) fn new(parent: &Path) -> std::io::Result<BenchFolder> {
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|n| n.strip_prefix("run-"));
            if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                std::fs::remove_dir_all(entry.path())?;
            }
        }
        let path = parent.join(format!("run-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(BenchFolder { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for BenchFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_runs_that_are_gone_are_swept() {
        let parent = std::env::temp_dir().join(format!("xtask-bench-{}", std::process::id()));
        let stale = parent.join("run-999999999");
        std::fs::create_dir_all(&stale).unwrap();
        let folder = BenchFolder::new(&parent).unwrap();
        assert!(folder.path().is_dir() && !stale.exists());
        drop(folder);
        assert_eq!(std::fs::read_dir(&parent).unwrap().count(), 0);
        std::fs::remove_dir(&parent).unwrap();
    }
}
