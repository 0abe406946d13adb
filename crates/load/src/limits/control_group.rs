//! Control groups of a process, versions 1 and 2, and the folders where they are mounted.

use std::path::{Path, PathBuf};

/// Version of a hierarchy of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupVersion {
    /// One hierarchy per controller or set of controllers.
    One,
    /// One hierarchy for all controllers.
    Two,
}

/// A process's group in one hierarchy, and the folder where the hierarchy is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedGroup {
    /// Version of the hierarchy.
    pub version: GroupVersion,
    /// Folder where the hierarchy is mounted.
    pub mount: PathBuf,
    /// Path of the group below the mount, which is empty or begins with a slash.
    pub path: String,
}

impl MountedGroup {
    /// Returns the groups of a process, given by its ID or `self`, in the hierarchies that can have
    /// the controller: the hierarchy of version 1 that has it, and the hierarchy of version 2.
    pub fn of_process(process: &str, controller: &str) -> Vec<MountedGroup> {
        let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
        let groups = read(format!("/proc/{process}/cgroup"));
        let mounts = read("/proc/self/mountinfo".to_owned());
        mounted_groups(&groups, &mounts, controller)
    }

    /// Iterates over the group and its ancestors, the innermost first: the path below the mount, and
    /// the folder.
    pub fn with_ancestors(&self) -> impl Iterator<Item = (&str, PathBuf)> {
        let paths = ancestors(&self.path);
        paths.map(|path| (path, self.mount.join(path.trim_start_matches('/'))))
    }
}

/// Finds the folders of the groups in `/proc/PID/cgroup`, given `/proc/self/mountinfo`.
fn mounted_groups(groups: &str, mountinfo: &str, controller: &str) -> Vec<MountedGroup> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let version = match controllers {
            "" => GroupVersion::Two,
            _ if has_word(controllers, controller) => GroupVersion::One,
            _ => continue,
        };
        let mut mounts = mountinfo
            .lines()
            .filter_map(|line| mount_of(line, version, controller));
        if let Some((root, mount)) = mounts.next() {
            // Without a namespace of its own, a container sees only a part of the hierarchy.
            let below = path.strip_prefix(root.trim_end_matches('/'));
            let below = below.filter(|below| below.is_empty() || below.starts_with('/'));
            found.push(MountedGroup {
                version,
                mount: mount.to_owned(),
                path: below.unwrap_or_default().trim_end_matches('/').to_owned(),
            });
        }
    }
    found
}

/// Parses a line of mountinfo (proc_pid_mountinfo(5)): the root of the mount within its file system,
/// and the mount point, if it is the hierarchy with the controller.
fn mount_of<'a>(
    line: &'a str,
    version: GroupVersion,
    controller: &str,
) -> Option<(&'a str, &'a Path)> {
    let (mount, system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, point) = (mount.next()?, mount.next()?);
    let mut system = system.split(' ');
    let kind = system.next()?;
    let is_wanted = match version {
        GroupVersion::Two => kind == "cgroup2",
        GroupVersion::One => kind == "cgroup" && has_word(system.nth(1)?, controller),
    };
    is_wanted.then_some((root, Path::new(point)))
}

fn has_word(list: &str, word: &str) -> bool {
    list.split(',').any(|listed| listed == word)
}

/// Iterates over a path and its ancestors: `/a/b`, `/a`, and the empty path.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rfind('/').map(|end| &path[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS_ONE: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
33 31 0:30 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const MOUNTS_TWO: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn groups_of_both_versions_are_found_where_they_are_mounted() {
        let found = |groups: &str, mounts: &str| -> Vec<(String, String)> {
            let found = mounted_groups(groups, mounts, "cpu").into_iter();
            found
                .map(|group| (group.mount.display().to_string(), group.path))
                .collect()
        };
        let pair = |mount: &str, path: &str| (mount.to_owned(), path.to_owned());
        let one = "3:cpuset:/x\n2:cpu,cpuacct:/a/b\n0::/\n";
        assert_eq!(
            found(one, MOUNTS_ONE),
            [
                pair("/sys/fs/cgroup/cpu,cpuacct", "/a/b"),
                pair("/sys/fs/cgroup/unified", "")
            ]
        );
        let two = "0::/system.slice/web.service\n";
        let expected = pair("/sys/fs/cgroup", "/system.slice/web.service");
        assert_eq!(found(two, MOUNTS_TWO), [expected]);
        // A container that sees only its own part of the hierarchy.
        let part = "30 23 0:26 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
        assert_eq!(
            found("0::/docker/1/x\n", part),
            [pair("/sys/fs/cgroup", "/x")]
        );
        assert_eq!(found("0::/docker/12\n", part), [pair("/sys/fs/cgroup", "")]);
        assert_eq!(found("", MOUNTS_TWO), []);
        assert_eq!(found("nonsense", "more\nnonsense - x"), []);
        let cpusets = mounted_groups(one, MOUNTS_ONE, "cpuset");
        assert_eq!(cpusets[0].mount, Path::new("/sys/fs/cgroup/cpuset"));
        let folders: Vec<_> = cpusets[0].with_ancestors().collect();
        assert_eq!(folders[0], ("/x", "/sys/fs/cgroup/cpuset/x".into()));
        assert_eq!(folders[1], ("", "/sys/fs/cgroup/cpuset/".into()));
    }

    #[test]
    fn ancestors_end_at_the_mount() {
        assert_eq!(ancestors("/a/b").collect::<Vec<_>>(), ["/a/b", "/a", ""]);
        assert_eq!(ancestors("").collect::<Vec<_>>(), [""]);
    }
}
