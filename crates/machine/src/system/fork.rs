//! Functions and types for code that runs between `fork` and `exec`.

/// Process name of keepers. It differs from prony's, so `pkill prony` doesn't match keepers.
pub(crate) const KEEPER_NAME: &str = "keeper";

/// A step that prony performs between `fork` and `exec`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaunchStep {
    Session = 1,
    Orphans,
    Fork,
    JoinNetwork,
    NewProcessSpace,
    NewMountSpace,
    MountProc,
    NewUserSpace,
    MapUsers,
    Cores,
    OpenFiles,
    Group,
}

impl LaunchStep {
    pub(crate) const ALL: [Self; 12] = [
        Self::Session,
        Self::Orphans,
        Self::Fork,
        Self::JoinNetwork,
        Self::NewProcessSpace,
        Self::NewMountSpace,
        Self::MountProc,
        Self::NewUserSpace,
        Self::MapUsers,
        Self::Cores,
        Self::OpenFiles,
        Self::Group,
    ];

    /// Describes the step, to follow "could not" in a message.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Session => "start a session",
            Self::Orphans => "register as the parent of orphaned processes",
            Self::Fork => "fork",
            Self::JoinNetwork => "join the network namespace",
            Self::NewProcessSpace => {
                "create a process namespace (in a container, run it privileged)"
            }
            Self::NewMountSpace => "create a mount namespace (in a container, run it privileged)",
            Self::MountProc => "mount /proc in the namespace",
            Self::NewUserSpace => "create a user namespace (see sysctl user.max_user_namespaces)",
            Self::MapUsers => "map users into the namespace",
            Self::Cores => "bind to the plan's cores (check that they are online and allowed)",
            Self::Group => "join the service's control group",
            Self::OpenFiles => "set the limit on open files",
        }
    }
}

/// Forks this process. Returns 0 in the child, the child's ID in the parent, and -1 on error. The
/// child may only make calls that are safe after a fork.
pub(crate) fn fork() -> i32 {
    // SAFETY: callers ensure that the child only makes calls that are safe after a fork.
    unsafe { libc::fork() }
}
