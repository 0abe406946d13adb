//! The tools: names and sources.

use crate::test::packages::HEY_SOURCE;

/// A load generator, or prony with other settings than the row's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tool {
    Floor,
    Prony,
    /// An earlier build of prony, for comparison.
    OldProny,
    /// prony over HTTP/2 and TLS.
    PronyHttp2,
    /// prony over io_uring.
    PronyUring,
    /// prony over AF_XDP with busy polling.
    PronyBusyPoll,
    /// prony over AF_XDP with 200,000 source addresses.
    PronySources,
    /// prony over AF_XDP with one connection.
    PronyOneConnection,
    Wrk,
    Ab,
    H2load,
    Fortio,
    Oha,
    Hey,
    Siege,
    Wrk2,
    Vegeta,
    K6,
    Zrk,
    Shb,
}

/// Every peer, in the order of the tables' columns.
pub(super) const PEERS: &[Tool] = &[
    Tool::Wrk,
    Tool::Ab,
    Tool::H2load,
    Tool::Fortio,
    Tool::Oha,
    Tool::Hey,
    Tool::Siege,
    Tool::Wrk2,
    Tool::Vegeta,
    Tool::K6,
    Tool::Zrk,
    Tool::Shb,
];

/// Where a peer that isn't a package is installed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A crate, with its version if it isn't the newest.
    Cargo(&'static str, Option<&'static str>),
    /// A module of Go.
    Go(&'static str),
}

impl Tool {
    /// Name of the program and of its column.
    pub(super) fn name(self) -> &'static str {
        match self {
            Tool::Floor => "floor",
            Tool::Prony => "prony",
            Tool::OldProny => "old prony",
            Tool::PronyHttp2 => "prony h2",
            Tool::PronyUring => "io_uring",
            Tool::PronyBusyPoll => "busy polling",
            Tool::PronySources => "200,000 sources",
            Tool::PronyOneConnection => "1 connection",
            Tool::Wrk => "wrk",
            Tool::Ab => "ab",
            Tool::H2load => "h2load",
            Tool::Fortio => "fortio",
            Tool::Oha => "oha",
            Tool::Hey => "hey",
            Tool::Siege => "siege",
            Tool::Wrk2 => "wrk2",
            Tool::Vegeta => "vegeta",
            Tool::K6 => "k6",
            Tool::Zrk => "zrk",
            Tool::Shb => "shb",
        }
    }

    /// Returns true if the tool is another program than prony and the floor.
    pub(super) fn is_peer(self) -> bool {
        PEERS.contains(&self)
    }

    /// Returns true if the tool is prony with any settings.
    pub(super) fn is_prony(self) -> bool {
        !self.is_peer() && self != Tool::Floor
    }

    pub(super) fn source(self) -> Option<Source> {
        Some(match self {
            Tool::Oha => Source::Cargo("oha", None),
            // It needs Rust 1.91.
            Tool::Shb => Source::Cargo("shb", Some("0.6.0")),
            Tool::Hey => Source::Go(HEY_SOURCE),
            // The last version that `go install` accepts.
            Tool::Fortio => Source::Go("fortio.org/fortio@v1.66.5"),
            Tool::Vegeta => Source::Go("github.com/tsenart/vegeta/v12@v12.13.0"),
            Tool::K6 => Source::Go("go.k6.io/k6@v1.8.1"),
            _ => return None,
        })
    }

    /// Returns the arguments that print the version, or `None` if the tool can't print it.
    pub(super) fn version_arguments(self) -> Option<&'static [&'static str]> {
        Some(match self {
            Tool::Hey | Tool::Vegeta | Tool::Shb => return None,
            Tool::Wrk | Tool::Wrk2 => &["-v"],
            Tool::Ab => &["-V"],
            Tool::Fortio | Tool::K6 => &["version"],
            _ => &["--version"],
        })
    }
}
