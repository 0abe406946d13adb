//! The arguments of `prony doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use prony_record::quantity;

/// Arguments of `prony doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  prony doctor                               this machine as a generator
  prony doctor --pid $(cat /run/nginx.pid)   a running server, and this machine
  prony doctor --pid 1234 --json - | jq '.subjects[0].crypto'
  prony doctor --pid 1234 --profile 10s      the functions that use its CPU time
  prony doctor --url http://localhost:8080/  how a server's responses arrive
  prony doctor --interface eth0 --all        an interface for --io xdp

For a server, the doctor inspects the libcrypto that the process has mapped, and measures it with
and without the processor's special instructions. To do so, it loads that file into a process of its
own, which runs the file's code: as nobody if the doctor runs as root. It also inspects listen
queues, limits, and settings that limit a load (nginx, Apache httpd, HAProxy, php-fpm). As root it
inspects every server, otherwise only yours. It lists what it could not read, and changes nothing.

With --profile, it samples the call chains of a server's processes, 199 times per second of CPU
time, and shows the share of each function itself. It needs no debugging information: functions of
stripped programs are shown by their addresses. Code of Node, Java or Python is named if they write
perf maps (node --perf-basic-prof, python -X perf).

For a URL, it sends up to 100 requests over one connection, and finds responses that wait for
delayed acknowledgments (Nagle's algorithm).

For an interface, it checks what a load over AF_XDP needs or benefits from: privileges, the kernel,
other XDP programs, queues, zero copy, offloads and the receive hash.")]
pub(crate) struct DoctorArgs {
    /// A server process to inspect; repeatable
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Vec<i32>,
    /// Sample the servers of --pid for this time, and show the functions that use the CPU time
    #[arg(long, value_name = "TIME", requires = "pid", value_parser = quantity::positive_time)]
    pub(crate) profile: Option<Duration>,
    /// A URL whose responses to inspect, with up to 100 requests; repeatable
    #[arg(long, value_name = "URL")]
    pub(crate) url: Vec<String>,
    /// Allow --url to name a public address
    #[arg(long)]
    pub(crate) public: bool,
    /// A network interface to inspect for --io xdp; repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Vec<String>,
    /// Show passed checks, too
    #[arg(long)]
    pub(crate) all: bool,
    /// Write everything as JSON to FILE (`-` for standard output, in place of the text)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
