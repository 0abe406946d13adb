//! Control groups that limit services (`cpu`, `memory` and `pids` in plans).
//!
//! In version 1, each controller has a hierarchy, and the service gets a group below prony's own in
//! each of them. In version 2, a group that contains processes can't pass controllers on to the
//! groups below it. The service's group is therefore created below the nearest ancestor of prony's
//! group that passes on the necessary controllers, or can be made to.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use prony_load::{GroupVersion, MountedGroup};
use prony_plan::service::{CPU_PERIOD_US, LimitKey, ResourceLimits};

use super::refused::LimitRefused;
use crate::run_state::{self, CreatedResource, RemovedResource, RunState};
use crate::system::group_usage::MemoryGroup;
use crate::system::{self, HostError, program};

/// Time limit for the processes of a group to disappear after they were killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval at which a group with processes is checked again.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Maximum number of hierarchies that a service joins: three controllers and the accounting of CPU
/// time.
pub(crate) const HIERARCHIES_MAX: usize = 4;

/// The control group of a service, which may consist of one folder for each of several hierarchies.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    folders: Vec<PathBuf>,
    accounting: Option<PathBuf>,
    memory: Option<MemoryGroup>,
}

impl ControlGroup {
    /// Creates a group with these limits, and records its folders in the run state.
    ///
    /// # Errors
    /// The limit that can't be set. The run state then lists the folders that were created before
    /// the error.
    pub(crate) fn make(
        name: &str,
        limits: &ResourceLimits,
        state: &mut RunState,
    ) -> Result<Self, (LimitKey, LimitRefused)> {
        let mut group = Self {
            folders: Vec::new(),
            accounting: None,
            memory: None,
        };
        let mut unified: Vec<LimitKey> = Vec::new();
        for (key, value) in limits.iter() {
            if let Some(folder) = own_folder_one(key.name()) {
                let folder = folder.join(name);
                group.add(&folder, state).map_err(|error| (key, error))?;
                set(key, GroupVersion::One, value, &folder).map_err(|error| (key, error))?;
                group.find_memory(key, GroupVersion::One, &folder);
            } else {
                unified.push(key);
            }
        }
        if !unified.is_empty() {
            let folder = group.add_unified(name, &unified, &parents_two(), state)?;
            for (key, value) in limits.iter().filter(|(key, _)| unified.contains(key)) {
                set(key, GroupVersion::Two, value, &folder).map_err(|error| (key, error))?;
                group.find_memory(key, GroupVersion::Two, &folder);
            }
            group.accounting = Some(folder);
        }
        // Groups of version 1 count CPU time only in a hierarchy that is often separate.
        if group.accounting.is_none()
            && let Some(folder) = own_folder_one("cpuacct")
        {
            let folder = folder.join(name);
            // Without it, CPU time is counted by process.
            if group.folders.contains(&folder) || group.add(&folder, state).is_ok() {
                group.accounting = Some(folder);
            }
        }
        Ok(group)
    }

    fn find_memory(&mut self, key: LimitKey, version: GroupVersion, folder: &Path) {
        if key == LimitKey::Memory {
            self.memory = MemoryGroup::at(version, folder);
        }
    }

    /// Creates a folder unless it belongs to this group already.
    fn add(&mut self, folder: &Path, state: &mut RunState) -> Result<(), LimitRefused> {
        if self.folders.iter().any(|known| known == folder) {
            return Ok(());
        }
        let group = CreatedResource::ControlGroup {
            folder: folder.to_owned(),
        };
        state.record(&group).map_err(LimitRefused::Host)?;
        match fs::create_dir(folder) {
            // The service was started before.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(LimitRefused::NotCreated(folder.to_owned(), error))
            }
            _ => {
                self.folders.push(folder.to_owned());
                Ok(())
            }
        }
    }

    /// Creates the group in the hierarchy of version 2, below one of `parents`.
    fn add_unified(
        &mut self,
        name: &str,
        keys: &[LimitKey],
        parents: &[PathBuf],
        state: &mut RunState,
    ) -> Result<PathBuf, (LimitKey, LimitRefused)> {
        let lacking = |folder: &Path, file: &str| {
            let words = fs::read_to_string(folder.join(file)).unwrap_or_default();
            let has = |key: &&LimitKey| words.split_whitespace().any(|word| word == key.name());
            keys.iter().copied().filter(|key| !has(&key)).collect()
        };
        let mut refused = None;
        // Prefer a group that needs no change.
        for may_enable in [false, true] {
            for parent in parents {
                let absent: Vec<LimitKey> = lacking(parent, "cgroup.controllers");
                if let Some(key) = absent.first() {
                    refused.get_or_insert((*key, LimitRefused::NoController(*key)));
                    continue;
                }
                let disabled: Vec<LimitKey> = lacking(parent, "cgroup.subtree_control");
                if let Some(key) = disabled.first() {
                    if !may_enable {
                        continue;
                    }
                    if let Err(error) = enable(&disabled, parent) {
                        refused = Some((*key, error));
                        continue;
                    }
                }
                let folder = parent.join(name);
                match self.add(&folder, state) {
                    Ok(()) => return Ok(folder),
                    Err(error) => refused = Some((keys[0], error)),
                }
            }
        }
        Err(refused.unwrap_or((keys[0], LimitRefused::NoController(keys[0]))))
    }

    /// Opens the files through which a process joins the group.
    pub(crate) fn entries(&self) -> Result<Vec<File>, HostError> {
        let files = self
            .folders
            .iter()
            .map(|folder| folder.join("cgroup.procs"));
        let open = |path: PathBuf| {
            let opened = File::options().write(true).open(&path);
            opened.map_err(HostError::file("open", path))
        };
        files.map(open).collect()
    }

    /// Returns the words of a command that removes the group when no process is left in it, with
    /// which a keeper cleans up after prony was killed; `None` if the command is missing.
    pub(crate) fn removal(&self) -> Option<Vec<String>> {
        let program = program::find("rmdir", Path::new("/"), None).ok()?;
        let folders = self.folders.iter().rev();
        let words = std::iter::once(&program).chain(folders);
        Some(words.map(|path| path.display().to_string()).collect())
    }

    /// Returns the folder of the group that counts CPU time.
    pub(crate) fn accounting(&self) -> Option<&Path> {
        self.accounting.as_deref()
    }

    /// Returns the group's memory limit, if the kernel has killed a process that exceeded it.
    pub(crate) fn exceeded_memory_bytes(&self) -> Option<u64> {
        let events = self.memory.as_ref()?.events()?;
        (events.oom_kills > 0).then_some(events.limit_bytes)
    }
}

/// Returns the folder of prony's own group in the hierarchy of version 1 that has the controller.
fn own_folder_one(controller: &str) -> Option<PathBuf> {
    let groups = MountedGroup::of_process("self", controller);
    let one = groups.iter().find(|it| it.version == GroupVersion::One)?;
    one.with_ancestors().next().map(|(_, folder)| folder)
}

/// Returns the folders of prony's own group of version 2 and of its ancestors, the innermost first.
fn parents_two() -> Vec<PathBuf> {
    let groups = MountedGroup::of_process("self", "");
    let two = groups.iter().find(|it| it.version == GroupVersion::Two);
    let folders = two.into_iter().flat_map(MountedGroup::with_ancestors);
    folders.map(|(_, folder)| folder).collect()
}

/// Makes a group of version 2 pass on controllers to the groups below it.
fn enable(controllers: &[LimitKey], parent: &Path) -> Result<(), LimitRefused> {
    let file = parent.join("cgroup.subtree_control");
    let words: Vec<String> = controllers
        .iter()
        .map(|it| format!("+{}", it.name()))
        .collect();
    fs::write(&file, words.join(" ")).map_err(|error| LimitRefused::NotWritten(file, error))
}

/// Sets a limit of the group in `folder`.
fn set(
    key: LimitKey,
    version: GroupVersion,
    value: u64,
    folder: &Path,
) -> Result<(), LimitRefused> {
    let write = |name: &str, text: String| {
        let file = folder.join(name);
        fs::write(&file, text).map_err(|error| LimitRefused::NotWritten(file, error))
    };
    match (key, version) {
        (LimitKey::Cpu, GroupVersion::One) => {
            write("cpu.cfs_period_us", CPU_PERIOD_US.to_string())?;
            write("cpu.cfs_quota_us", value.to_string())
        }
        (LimitKey::Cpu, GroupVersion::Two) => write("cpu.max", format!("{value} {CPU_PERIOD_US}")),
        (LimitKey::Memory, GroupVersion::One) => {
            write("memory.limit_in_bytes", value.to_string())?;
            write_if_present(
                &folder.join("memory.memsw.limit_in_bytes"),
                &value.to_string(),
            )
        }
        (LimitKey::Memory, GroupVersion::Two) => {
            write("memory.max", value.to_string())?;
            write_if_present(&folder.join("memory.swap.max"), "0")
        }
        (LimitKey::Pids, _) => write("pids.max", value.to_string()),
    }
}

/// Writes a file that exists only if the kernel accounts swap space.
fn write_if_present(file: &Path, text: &str) -> Result<(), LimitRefused> {
    if !file.exists() {
        return Ok(());
    }
    fs::write(file, text).map_err(|error| LimitRefused::NotWritten(file.to_owned(), error))
}

/// Checks that this user can create a group with these limits, by creating one and removing it.
///
/// # Errors
/// The limit that can't be set, and the reason, with a hint.
pub(crate) fn check(limits: &ResourceLimits) -> Result<(), (LimitKey, LimitRefused)> {
    let Some((key, _)) = limits.iter().next() else {
        return Ok(());
    };
    let failed = |error| (key, LimitRefused::Host(error));
    let base = run_state::base().map_err(failed)?;
    let mut state = RunState::create(&base, &system::boot_id()).map_err(failed)?;
    let name = format!("{}-check", state.resource_prefix());
    let made = ControlGroup::make(&name, limits, &mut state).map(drop);
    let folders = state
        .created()
        .iter()
        .rev()
        .map(|created| remove(created).map(drop));
    let removed = folders.collect::<Result<(), HostError>>();
    let removed = removed.and_then(|()| state.remove());
    made?;
    removed.map_err(failed)
}

/// Removes a group that a run created, if it still exists, along with its processes and the groups
/// below it.
pub(super) fn remove(created: &CreatedResource) -> Result<Option<RemovedResource>, HostError> {
    let CreatedResource::ControlGroup { folder } = created else {
        return Ok(None);
    };
    let began = Instant::now();
    loop {
        let error = match remove_tree(folder) {
            Ok(()) => return Ok(Some(RemovedResource::ControlGroup(folder.clone()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => error,
        };
        if began.elapsed() > KILL_TIMEOUT {
            return Err(HostError::file("remove", folder)(error));
        }
        for pid in processes_in(created) {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                // An error means that the process has ended in the meantime.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Removes a group and the groups below it. The kernel refuses to remove a group with processes.
fn remove_tree(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(folder)
}

/// Lists the processes in a group that a run created, and in the groups below it.
pub(super) fn processes_in(created: &CreatedResource) -> Vec<i32> {
    match created {
        CreatedResource::ControlGroup { folder } => system::group_usage::members(folder),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hierarchy of version 2 in ordinary folders: the root, a slice, and a scope with prony.
    struct Hierarchy(tempfile::TempDir);

    impl Hierarchy {
        /// Creates the groups with the given `cgroup.controllers` and `cgroup.subtree_control`.
        fn new(groups: [(&str, &str); 3]) -> Hierarchy {
            let hierarchy = Hierarchy(tempfile::tempdir().unwrap());
            for (folder, (controllers, enabled)) in hierarchy.parents().iter().rev().zip(groups) {
                fs::create_dir_all(folder).unwrap();
                fs::write(folder.join("cgroup.controllers"), controllers).unwrap();
                fs::write(folder.join("cgroup.subtree_control"), enabled).unwrap();
            }
            hierarchy
        }

        fn parents(&self) -> Vec<PathBuf> {
            let root = self.0.path().join("root");
            vec![root.join("a.slice/b.scope"), root.join("a.slice"), root]
        }

        /// Creates a group with limits. Returns its path below the root, or the refused key.
        fn add(&self, keys: &[LimitKey]) -> Result<PathBuf, LimitKey> {
            let base = self.0.path().join("state");
            fs::create_dir_all(&base).unwrap();
            let mut state = RunState::create(&base, "boot").unwrap();
            let mut group = ControlGroup {
                folders: Vec::new(),
                accounting: None,
                memory: None,
            };
            let added = group.add_unified("new", keys, &self.parents(), &mut state);
            let folder = added.map_err(|(key, _)| key)?;
            let root = self.0.path().join("root");
            Ok(folder.strip_prefix(root).unwrap().to_owned())
        }
    }

    #[test]
    fn a_group_of_version_two_is_below_an_ancestor_that_passes_on_the_controllers() {
        let all = "cpu memory pids";
        let groups = [(all, all), (all, "memory pids"), ("memory pids", "")];
        let hierarchy = Hierarchy::new(groups);
        let added = |keys: &[LimitKey]| hierarchy.add(keys);
        let memory = [LimitKey::Memory, LimitKey::Pids];
        assert_eq!(added(&memory), Ok("a.slice/new".into()));
        assert_eq!(added(&[LimitKey::Cpu]), Ok("new".into()));
    }

    #[test]
    fn controllers_are_enabled_only_if_no_ancestor_passes_them_on() {
        let hierarchy = Hierarchy::new([("cpu", ""), ("cpu", ""), ("", "")]);
        assert_eq!(hierarchy.add(&[LimitKey::Cpu]), Ok("a.slice/new".into()));
        let enabled = hierarchy.parents()[1].join("cgroup.subtree_control");
        assert_eq!(fs::read_to_string(enabled).unwrap(), "+cpu");
        assert_eq!(hierarchy.add(&[LimitKey::Pids]), Err(LimitKey::Pids));
    }

    #[test]
    fn limits_are_written_in_the_notation_of_each_version() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        for (key, value) in [
            (LimitKey::Cpu, 50_000),
            (LimitKey::Memory, 64 << 20),
            (LimitKey::Pids, 100),
        ] {
            set(key, GroupVersion::Two, value, folder.path()).unwrap();
            set(key, GroupVersion::One, value, folder.path()).unwrap();
        }
        assert_eq!(read("cpu.max"), "50000 100000");
        assert_eq!(read("memory.max"), "67108864");
        assert_eq!(read("pids.max"), "100");
        assert_eq!(read("cpu.cfs_period_us"), "100000");
        assert_eq!(read("cpu.cfs_quota_us"), "50000");
        assert_eq!(read("memory.limit_in_bytes"), "67108864");
        assert!(!folder.path().join("memory.swap.max").exists());
        fs::write(folder.path().join("memory.swap.max"), "max").unwrap();
        set(LimitKey::Memory, GroupVersion::Two, 1 << 20, folder.path()).unwrap();
        assert_eq!(read("memory.swap.max"), "0");
    }
}
