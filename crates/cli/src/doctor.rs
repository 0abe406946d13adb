//! `prony doctor`: finds reasons why a server, or this machine as a generator, may be slow.

use std::path::PathBuf;

use clap::Args;
use prony_experiment::doctor::examine;
use prony_report::doctor::DoctorDocument;

use crate::ending::{Ending, Failure};
use crate::output::Output;
use crate::terminal;

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

/// Inspects the machine or the server and prints what it found.
pub(crate) fn run(typed: &DoctorArgs) -> Result<Ending, Failure> {
    let output = Output::open("--json", typed.json.as_deref())?;
    if terminal::is_live() {
        terminal::print_message("Inspecting; this takes a few seconds for each server.");
    }
    let report = examine(&typed.pid).map_err(Failure::wrong)?;
    let json = serde_json::to_string_pretty(&report).map_err(Failure::refused)? + "\n";
    let in_place = output.as_ref().is_some_and(Output::is_standard);
    if !in_place {
        let doctor = DoctorDocument::read(&json).map_err(Failure::refused)?;
        let text = prony_report::text::doctor(&doctor, typed.all, terminal::text_options(true));
        terminal::print(&text);
    }
    if let Some(output) = output {
        output.write(&json)?;
    }
    Ok(Ending::Done)
}
