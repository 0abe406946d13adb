//! Options of all commands that build and start revisions of a repository.

use clap::Args;

/// How revisions are built and started.
#[derive(Debug, Clone, Args)]
pub(crate) struct RevisionArgs {
    /// Shell command that builds a revision in the root folder of its files; each commit is built
    /// once and cached [default: nothing to build]
    #[arg(long, value_name = "COMMAND", help_heading = "Revisions")]
    pub(crate) build: Option<String>,
    /// Shell command that starts the server in the same folder; {{ port }} is its port, also in
    /// $PORT
    #[arg(
        long,
        alias = "run",
        value_name = "COMMAND",
        help_heading = "Revisions"
    )]
    pub(crate) start: Option<String>,
    /// Path to request [default: /]
    #[arg(long, value_name = "PATH", help_heading = "Revisions")]
    pub(crate) path: Option<String>,
}
