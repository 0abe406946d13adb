//! The arguments of `prony doctor`.

use std::path::PathBuf;

use clap::Args;

/// `prony doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  prony doctor                               this machine as a generator
  prony doctor --pid $(cat /run/nginx.pid)   a running server, and this machine
  prony doctor --pid 1234 --json - | jq '.subjects[0].crypto'

Of a server: the libcrypto that it has really mapped, measured with the processor's instructions and
with those masked; its listen queues, limits and the settings that cap a load (nginx, Apache httpd,
HAProxy, php-fpm). As root it sees every server; otherwise your own, and what could not be read is
said. It changes nothing.")]
pub(crate) struct DoctorArgs {
    /// A process of the server to look at; repeatable
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Vec<i32>,
    /// Show checks that passed, too
    #[arg(long)]
    pub(crate) all: bool,
    /// Write everything as JSON; - for standard output instead of the text
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
