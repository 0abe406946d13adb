//! Rows of the benchmark: the load, the server, the tools, and prony's targets.

use super::figures::Measure;
use super::targets::{Target, at_least, at_most, without_limit};
use super::tool::PEERS;
use super::tool::Tool::{self, *};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ConnectionUse {
    /// Each connection sends one request after the other without a pause.
    KeepAlive,
    /// A new connection for each request.
    Close,
    /// Requests on persistent connections at this total rate, in requests per second.
    Paced(u32),
}

/// Encryption of a row's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Security {
    /// No encryption.
    Clear,
    /// TLS from a server with session resumption.
    Resumable,
    /// TLS from a server without session resumption, so each handshake is a full handshake.
    Full,
}

/// HTTP version of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Http {
    /// HTTP/1.1, or 1.0 if a tool supports nothing else: one request at a time per connection.
    One,
    /// HTTP/2 with this many concurrent requests per connection, negotiated by ALPN over TLS or by
    /// prior knowledge in cleartext.
    Two { streams: u32 },
    /// HTTP/3 with this many concurrent requests per connection.
    Three { streams: u32 },
}

impl Http {
    /// Number of concurrent requests per connection; `None` for HTTP/1.
    pub(super) fn streams(self) -> Option<u32> {
        match self {
            Http::One => None,
            Http::Two { streams } | Http::Three { streams } => Some(streams),
        }
    }
}

/// The part of docs/performance.md that shows a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    /// Comparison of tools against nginx.
    Tools,
    /// The coordinator and agents of a fleet.
    Fleet,
    /// Highest sustained rates.
    Ceiling,
    /// HTTP/3.
    Quic,
    /// Bypass of the kernel.
    Bypass,
}

/// What a row's load runs against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ServerKind {
    /// nginx on the loopback interface.
    Nginx,
    /// prony's origin, for HTTP/3.
    Origin,
    /// Caddy, for HTTP/3.
    Caddy,
    /// A minimal server that records when each request arrives.
    Arrivals,
    /// nginx at the far end of a link between two network namespaces.
    FarNginx,
    /// A program in the kernel at the far end of the link.
    FarKernel,
    /// A fleet of four agents and nginx, which start together many times.
    FleetStarts,
    /// The same fleet under one load.
    FleetLoad,
    /// Hundreds of agents that one process simulates.
    SimulatedFleet,
}

/// One row of the tables.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    /// Name of the row on the command line.
    pub(super) id: &'static str,
    /// Name of the row in the tables.
    pub(super) title: &'static str,
    pub(super) section: Section,
    /// The row is measured once with each of these servers.
    pub(super) servers: &'static [ServerKind],
    pub(super) shape: ConnectionUse,
    pub(super) security: Security,
    pub(super) http: Http,
    pub(super) connections: u32,
    /// True if URL and header values differ in each request. Only prony supports this; the floor
    /// sends the same bytes each time.
    pub(super) values: bool,
    /// Path of the request; the server must provide it (see `server`).
    pub(super) path: &'static str,
    /// The floor, and prony with its settings. An earlier build of prony is added if there is one.
    pub(super) tools: &'static [Tool],
    /// Other tools. Those that don't support the load are omitted.
    pub(super) peers: &'static [Tool],
    /// Reference tools in order of preference. The first one that is available is used.
    pub(super) references: &'static [Tool],
    /// The peer with the lowest cost in earlier benchmarks, which is the only one that `--quick`
    /// runs. If it is `None`, `--quick` skips the row.
    pub(super) quick: Option<Tool>,
    pub(super) targets: &'static [Target],
}

impl Row {
    /// Requests per second of an open loop; `None` for a closed loop.
    pub(super) fn rate(&self) -> Option<u32> {
        match self.shape {
            ConnectionUse::Paced(rate) => Some(rate),
            ConnectionUse::KeepAlive | ConnectionUse::Close => None,
        }
    }

    /// Returns true if each request has a connection of its own.
    pub(super) fn closes(&self) -> bool {
        self.shape == ConnectionUse::Close
    }

    /// Returns true if the server is at the far end of a link between two network namespaces.
    pub(super) fn is_far(&self) -> bool {
        let is_far = |kind| matches!(kind, &ServerKind::FarNginx | &ServerKind::FarKernel);
        self.servers.iter().all(is_far)
    }

    pub(super) fn is_secure(&self) -> bool {
        self.security != Security::Clear
    }

    /// Number of concurrent requests of a tool that behaves as the row requires.
    pub(super) fn at_once(&self) -> u32 {
        self.connections * self.http.streams().unwrap_or(1)
    }
}

/// Minimum rate of a closed loop as a ratio to the fastest peer's. The server's core is full under
/// both, so the rate depends on the load that the generator leaves to the server.
const AS_FAST: Target = at_least(Measure::Rate, 0.97).times_every_peer();
/// The cost must be below every peer's.
const AHEAD: Target = at_most(Measure::Cost, 1.0).times_every_peer();

const fn cost(limit: f64, reference: Tool) -> Target {
    at_most(Measure::Cost, limit).times(reference)
}

const KEEP_ALIVE: &[Target] = &[cost(1.08, Floor), AHEAD, AS_FAST];
const CEILING: &[Target] = &[
    at_least(Measure::Rate, 1.0),
    at_least(Measure::Rate, 1.0)
        .times_every_peer()
        .if_measured(),
];
const H2: &[Target] = &[cost(0.75, H2load), AHEAD];
const H3: &[Target] = &[cost(1.5, PronyHttp2), cost(0.5, Oha).if_measured()];

const fn keep_alive(id: &'static str, title: &'static str, path: &'static str) -> Row {
    Row {
        id,
        title,
        section: Section::Tools,
        servers: &[ServerKind::Nginx],
        shape: ConnectionUse::KeepAlive,
        security: Security::Clear,
        http: Http::One,
        connections: 64,
        values: false,
        path,
        tools: &[Floor, Prony],
        peers: PEERS,
        references: &[Floor],
        quick: None,
        targets: KEEP_ALIVE,
    }
}

/// A row with HTTP/2 over TLS and responses of 13 bytes.
const fn h2(id: &'static str, title: &'static str, connections: u32, streams: u32) -> Row {
    Row {
        security: Security::Resumable,
        http: Http::Two { streams },
        connections,
        references: &[H2load, Prony],
        targets: H2,
        ..keep_alive(id, title, "/13")
    }
}

/// A row with HTTP/3. Debian 12's nginx doesn't support QUIC.
const fn h3(id: &'static str, title: &'static str, connections: u32, streams: u32) -> Row {
    Row {
        section: Section::Quic,
        servers: &[ServerKind::Origin, ServerKind::Caddy],
        http: Http::Three { streams },
        tools: &[Floor, Prony, PronyHttp2],
        peers: &[Oha, Shb],
        references: &[PronyHttp2],
        targets: H3,
        ..h2(id, title, connections, streams)
    }
}

/// A row that searches the highest rate of an open loop.
const fn open_max(id: &'static str, title: &'static str, connections: u32) -> Row {
    Row {
        section: Section::Ceiling,
        servers: &[ServerKind::Arrivals],
        // The search sets the rate.
        shape: ConnectionUse::Paced(1),
        connections,
        // The floor sends at timer ticks and has no schedule.
        tools: &[Prony],
        references: &[],
        targets: CEILING,
        ..keep_alive(id, title, "/")
    }
}

/// A row in which prony bypasses the kernel, over a link between two network namespaces.
const fn bypass(
    id: &'static str,
    title: &'static str,
    tools: &'static [Tool],
    targets: &'static [Target],
) -> Row {
    Row {
        section: Section::Bypass,
        servers: &[ServerKind::FarNginx],
        tools,
        peers: &[],
        references: &[],
        targets,
        ..keep_alive(id, title, "/1k")
    }
}

/// A row whose load is that of a fleet. Only the builds of prony are compared.
const fn fleet(
    id: &'static str,
    title: &'static str,
    servers: &'static [ServerKind],
    targets: &'static [Target],
) -> Row {
    Row {
        section: Section::Fleet,
        servers,
        tools: &[Prony],
        peers: &[],
        references: &[],
        targets,
        ..keep_alive(id, title, "/")
    }
}

/// All rows, in the order of the tables.
pub(super) const ROWS: &[Row] = &[
    keep_alive("ka-13", "keep-alive, 64, 13 bytes", "/13"),
    Row {
        quick: Some(Ab),
        ..keep_alive("ka-1k", "keep-alive, 64, 1K", "/1k")
    },
    Row {
        connections: 256,
        ..keep_alive("ka-256", "keep-alive, 256, 1K", "/1k")
    },
    keep_alive("ka-10k", "keep-alive, 64, 10K", "/10k"),
    keep_alive("ka-100k", "keep-alive, 64, 100K", "/100k"),
    Row {
        values: true,
        // This is 1.25 times the limit of `ka-1k`, which is the same row with constant requests.
        targets: &[cost(1.25 * 1.08, Floor)],
        ..keep_alive("ka-values", "keep-alive, 64, 1K, values", "/1k")
    },
    Row {
        shape: ConnectionUse::Close,
        connections: 192,
        targets: &[cost(1.06, Floor), AHEAD, AS_FAST],
        quick: Some(H2load),
        ..keep_alive("close-1k", "connection per request, 192, 1K", "/1k")
    },
    Row {
        connections: 10_000,
        targets: &[
            cost(1.10, Floor),
            AS_FAST,
            at_most(Measure::PeakMemory, 25.0),
        ],
        ..keep_alive("many-1k", "keep-alive, 10,000, 1K", "/1k")
    },
    Row {
        security: Security::Resumable,
        references: &[Wrk, H2load, Prony],
        targets: &[cost(0.90, Wrk), AS_FAST],
        quick: Some(Wrk),
        ..keep_alive("tls-1k", "TLS keep-alive, 64, 1K", "/1k")
    },
    Row {
        shape: ConnectionUse::Close,
        security: Security::Resumable,
        references: &[Oha, Wrk, Prony],
        targets: &[cost(0.95, Oha)],
        ..keep_alive(
            "tls-resumed",
            "TLS handshake per request, 64, resumed",
            "/13",
        )
    },
    Row {
        shape: ConnectionUse::Close,
        security: Security::Full,
        references: &[Fortio, Wrk, Prony],
        targets: &[cost(0.90, Fortio)],
        ..keep_alive("tls-full", "TLS handshake per request, 64, full", "/13")
    },
    Row {
        shape: ConnectionUse::Paced(20_000),
        references: &[H2load, Wrk2, Prony],
        targets: &[cost(1.1, Floor), at_most(Measure::LateP99, 200.0)],
        quick: Some(H2load),
        ..keep_alive("open-1k", "open loop, 20,000/s, 64, 1K", "/1k")
    },
    Row {
        quick: Some(H2load),
        ..h2("h2-tls-16x32", "HTTP/2 over TLS, 16 × 32, 13 bytes", 16, 32)
    },
    h2("h2-tls-1x100", "HTTP/2 over TLS, 1 × 100, 13 bytes", 1, 100),
    Row {
        path: "/100k",
        targets: &[cost(0.90, H2load), AHEAD],
        ..h2("h2-tls-100k", "HTTP/2 over TLS, 16 × 8, 100K", 16, 8)
    },
    Row {
        security: Security::Clear,
        ..h2(
            "h2-clear-16x32",
            "HTTP/2 cleartext, 16 × 32, 13 bytes",
            16,
            32,
        )
    },
    Row {
        security: Security::Clear,
        ..h2(
            "h2-clear-100x100",
            "HTTP/2 cleartext, 100 × 100, 13 bytes",
            100,
            100,
        )
    },
    fleet(
        "fleet-skew",
        "4 agents in namespaces, 100 starts",
        &[ServerKind::FleetStarts],
        &[
            at_most(Measure::SkewP99, 2.0),
            without_limit(Measure::SkewP50),
            without_limit(Measure::SkewMax),
            without_limit(Measure::RecordedSkewP99),
            without_limit(Measure::ClockErrorP99),
        ],
    ),
    fleet(
        "fleet-cost",
        "4 agents in namespaces, 20 s at 2,000/s each",
        &[ServerKind::FleetLoad],
        &[
            at_most(Measure::CoordinatorShare, 1.0),
            at_most(Measure::Unstarted, 0.0),
            without_limit(Measure::PeakMemory),
        ],
    ),
    fleet(
        "fleet-500",
        "500 simulated agents, 20 s at 1,000/s each",
        &[ServerKind::SimulatedFleet],
        &[
            at_most(Measure::CoordinatorShare, 50.0),
            at_most(Measure::IncompleteAgents, 0.0),
            at_most(Measure::DifferentParts, 0.0),
            without_limit(Measure::PeakMemory),
            without_limit(Measure::NatsCpu),
        ],
    ),
    open_max("open-max", "highest rate, 64", 64),
    open_max("open-max-1024", "highest rate, 1,024", 1_024),
    Row {
        servers: &[ServerKind::FarKernel],
        peers: &[],
        targets: &[without_limit(Measure::Rate)],
        ..open_max(
            "open-max-kernel",
            "highest rate, 1,024, a responder in the kernel",
            1_024,
        )
    },
    h3("h3-16x32", "HTTP/3, 16 × 32, 13 bytes", 16, 32),
    h3("h3-16x128", "HTTP/3, 16 × 128, 13 bytes", 16, 128),
    h3("h3-1x100", "HTTP/3, 1 × 100, 13 bytes", 1, 100),
    Row {
        path: "/100000",
        ..h3("h3-16x8-100k", "HTTP/3, 16 × 8, 100 KB", 16, 8)
    },
    Row {
        shape: ConnectionUse::Close,
        connections: 192,
        peers: &[Wrk],
        references: &[Wrk],
        ..bypass(
            "xdp-close-1k",
            "connection per request, 192, 1K",
            &[PronyUring, Prony, PronySources],
            &[
                at_least(Measure::Rate, 2.5).times(Wrk),
                cost(0.4, Wrk),
                cost(1.1, Prony).of(PronySources),
            ],
        )
    },
    Row {
        path: "/13",
        peers: &[Wrk],
        references: &[Wrk],
        ..bypass(
            "xdp-ka-13",
            "keep-alive, 64, 13 bytes",
            &[PronyUring, Prony],
            &[cost(0.75, PronyUring)],
        )
    },
    Row {
        shape: ConnectionUse::Paced(20_000),
        ..bypass(
            "xdp-open-1k",
            "open loop, 20,000/s, 64, 1K",
            &[PronyUring, Prony, PronyBusyPoll],
            &[cost(0.5, PronyUring), at_most(Measure::LateP99, 50.0)],
        )
    },
    Row {
        connections: 10_000,
        ..bypass(
            "xdp-many-1k",
            "keep-alive, 10,000, 1K",
            &[PronyUring, Prony, PronyOneConnection],
            &[at_most(Measure::AnonymousMemory, 16.0)],
        )
    },
    Row {
        servers: &[ServerKind::FarKernel],
        connections: 256,
        path: "/",
        ..bypass(
            "xdp-echo",
            "keep-alive, 256, a responder in the kernel",
            &[Prony, PronyBusyPoll],
            &[at_least(Measure::Rate, 500_000.0)],
        )
    },
    Row {
        servers: &[ServerKind::FarKernel],
        shape: ConnectionUse::Close,
        connections: 256,
        path: "/",
        ..bypass(
            "xdp-close-echo",
            "connection per request, 256, a responder in the kernel",
            &[Prony, PronyBusyPoll],
            &[at_least(Measure::Rate, 1_000_000.0)],
        )
    },
];

/// The row with this name on the command line.
pub(super) fn find(id: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.id == id)
}
