//! Facts about the machine on which a plan is read: the only input that doesn't come from the plan or
//! from files that it names.

use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prony_load::{LoadSettings, SpecError};
pub use prony_stats::WorktreeChanges;

use super::service::{ContainerSpec, LimitKey, PlaceKind, ResourceLimits};
use super::topology::{AddressBlock, EmulatorChoice};

/// The machine on which a plan is read. Tests simulate other machines.
///
/// The text of a reason, such as that of [`PlanMachine::check_place`], ends a message: "… is not
/// possible here: REASON".
pub trait PlanMachine: Debug + Send + Sync {
    /// Returns the cores that prony may use, in ascending order.
    fn cores(&self) -> &[usize];

    /// Returns true if the user's environment allows loads against public addresses.
    fn allows_public_targets(&self) -> bool;

    /// Resolves the name of a program to the path that the host starts.
    ///
    /// `prony` becomes the path of the running prony binary. A name with a slash is a path relative
    /// to `folder`. Any other name is unchanged, or gets a version suffix if only a versioned
    /// program is installed. `env` contains the variables that the plan sets.
    ///
    /// # Errors
    /// The program was not found.
    fn program(
        &self,
        name: &str,
        folder: &Path,
        env: &BTreeMap<String, String>,
    ) -> Result<String, ProgramNotFound>;

    /// Returns the first address of a host.
    fn first_address(&self, host: &str, port: u16) -> Option<SocketAddr>;

    /// Checks that this user can create places of this kind.
    ///
    /// # Errors
    /// The missing requirement, with a hint.
    fn check_place(&self, kind: PlaceKind) -> Result<(), String>;

    /// Checks that this user can create a control group with these limits.
    ///
    /// # Errors
    /// The limit that can't be set, and the reason, with a hint.
    fn check_limits(&self, limits: &ResourceLimits) -> Result<(), (LimitKey, String)>;

    /// Checks that a container's image is on this machine, and fetches the image if it is not.
    ///
    /// # Errors
    /// The cause, with a hint.
    fn fetch_image(&self, container: &ContainerSpec) -> Result<(), ImageRefused>;

    /// Checks that links between named places can have rate limits.
    ///
    /// # Errors
    /// The missing requirement, with a hint.
    fn check_rates(&self) -> Result<(), String>;

    /// Checks that links between named places can drop packets at random.
    ///
    /// # Errors
    /// The missing requirement, with a hint.
    fn check_losses(&self) -> Result<(), String>;

    /// Checks that an emulator can provide the delay of links between named places.
    ///
    /// # Errors
    /// The missing requirement, with a hint.
    fn check_emulator(&self, emulator: EmulatorChoice) -> Result<(), String>;

    /// Divides kernel settings into those that exist per network namespace and all others.
    ///
    /// # Errors
    /// The reason why no namespace can be created.
    fn sort_settings(&self, settings: &BTreeMap<String, String>)
    -> Result<NetworkSettings, String>;

    /// Checks that this machine can generate a load: its addresses, cores and files. With
    /// `sources`, the load runs in a network that has these addresses. If such a network can't be
    /// created, the load is not checked.
    ///
    /// # Errors
    /// The first error in the settings.
    fn check_load(
        &self,
        url: &str,
        settings: &LoadSettings,
        sources: Option<&[AddressBlock]>,
    ) -> Result<(), SpecError>;

    /// Finds the commit of a revision and the folder of its build. A revision is looked up once per
    /// process, so that all variants and trials use the same commit.
    ///
    /// # Errors
    /// The revision can't be built.
    fn build(&self, repository: &Path, revision: &str, run: &str)
    -> Result<Build, RevisionRefused>;

    /// Calls `render` in another process, which has little memory and time. Its effects are lost.
    ///
    /// # Errors
    /// The reason why `render` didn't end normally.
    fn rehearse(&self, render: &mut dyn FnMut()) -> Result<(), &'static str>;
}

/// A revision of a repository and the command that builds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// Folder of the repository.
    pub repository: PathBuf,
    /// The revision as written in the plan.
    pub revision: String,
    /// Commit of the revision; for the working tree, the commit that is checked out.
    pub commit: String,
    /// First line of the commit's message.
    pub subject: String,
    /// The state of the working tree, if it is built as it is; `None` for a commit.
    pub worktree: Option<WorktreeChanges>,
    /// Shell command that builds the revision.
    pub run: String,
    /// Folder that contains the revision's files, in which the command runs.
    pub dir: PathBuf,
    /// Limits on the command.
    pub limits: BuildLimits,
}

/// Limits on the command of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildLimits {
    /// Time limit.
    pub within: Duration,
    /// Maximum size of the build's folder and log, in bytes.
    pub size_max: u64,
}

impl Default for BuildLimits {
    fn default() -> Self {
        Self {
            within: Duration::from_secs(30 * 60),
            size_max: 10 << 30,
        }
    }
}

/// The reason why a revision can't be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionRefused {
    /// What was observed.
    pub message: String,
    /// A hint.
    pub hint: String,
}

/// A program that was not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramNotFound {
    /// Command that would start the program.
    pub started: String,
    /// Hint for installing the program.
    pub hint: String,
    /// Debian package that contains the program, if installing it would help.
    pub package: Option<&'static str>,
}

/// Reason why a container can't run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageRefused {
    /// None of these programs is installed.
    NoRuntime(Vec<&'static str>),
    /// The image can't be fetched, or the program can't run containers.
    Failed(String),
}

/// Kernel settings of a plan, divided into those that exist per network namespace and all others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkSettings {
    /// Settings (sysctls) that exist per network namespace, with their values.
    pub own: BTreeMap<String, String>,
    /// Settings that can't be applied in a namespace, each with the reason.
    pub not_applicable: BTreeMap<String, String>,
}
