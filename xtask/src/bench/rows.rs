//! Rows of the benchmark: the load, the reference, and prony's target.

use super::tool::Tool;

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
}

/// Content of a row's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// The same bytes for each request.
    Same,
    /// URL and header values that differ in each request. Only prony supports this; the floor sends
    /// the same bytes each time.
    Differs,
}

/// Targets that prony must reach in one row of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Target {
    /// Maximum CPU time per request, as a ratio to the row's reference.
    pub(super) cost: f64,
    /// If true, prony must also cost less than every peer.
    pub(super) ahead: bool,
    /// Minimum rate as a ratio to the highest rate of a peer.
    pub(super) rate: Option<f64>,
    /// Maximum peak memory in MiB.
    pub(super) memory_mib: Option<f64>,
    /// Maximum 99th percentile of start lateness in microseconds.
    pub(super) late_p99_us: Option<f64>,
}

/// One row of the tables.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    /// Name of the row on the command line.
    pub(super) id: &'static str,
    /// Name of the row in the tables.
    pub(super) title: &'static str,
    pub(super) shape: ConnectionUse,
    pub(super) security: Security,
    pub(super) http: Http,
    pub(super) connections: u32,
    pub(super) content: Content,
    /// Path of the request; the server must provide it (see `server`).
    pub(super) path: &'static str,
    /// Reference tools in order of preference. The first one that is available is used.
    pub(super) references: &'static [Tool],
    /// The peer with the lowest cost in earlier benchmarks, which is the only one that `--quick`
    /// runs. If it is `None`, `--quick` skips the row.
    pub(super) quick: Option<Tool>,
    pub(super) target: Target,
}

impl Row {
    /// Number of concurrent requests of a tool that behaves as the row requires.
    pub(super) fn at_once(&self) -> u32 {
        match self.http {
            Http::One => self.connections,
            Http::Two { streams } => self.connections * streams,
        }
    }
}

const fn at_most(cost: f64) -> Target {
    Target {
        cost,
        ahead: false,
        rate: None,
        memory_mib: None,
        late_p99_us: None,
    }
}

const fn ahead(cost: f64) -> Target {
    Target {
        ahead: true,
        ..at_most(cost)
    }
}

/// Minimum rate of a closed loop as a ratio to the fastest peer's. The server's core is full under
/// both, so the rate depends on the load that the generator leaves to the server.
const RATE_MIN: f64 = 0.97;

const fn as_fast(target: Target) -> Target {
    Target {
        rate: Some(RATE_MIN),
        ..target
    }
}

const fn keep_alive(
    id: &'static str,
    title: &'static str,
    path: &'static str,
    quick: Option<Tool>,
) -> Row {
    Row {
        id,
        title,
        shape: ConnectionUse::KeepAlive,
        security: Security::Clear,
        http: Http::One,
        connections: 64,
        content: Content::Same,
        path,
        references: &[Tool::Floor],
        quick,
        target: as_fast(ahead(1.08)),
    }
}

/// A row with HTTP/2 over TLS and responses of 13 bytes.
const fn h2(id: &'static str, title: &'static str, connections: u32, streams: u32) -> Row {
    Row {
        security: Security::Resumable,
        http: Http::Two { streams },
        connections,
        references: &[Tool::H2load, Tool::Prony],
        target: ahead(0.75),
        ..keep_alive(id, title, "/13", None)
    }
}

/// All rows, in the order of the tables.
pub(super) const ROWS: &[Row] = &[
    keep_alive("ka-13", "keep-alive, 64, 13 bytes", "/13", None),
    keep_alive("ka-1k", "keep-alive, 64, 1K", "/1k", Some(Tool::Ab)),
    Row {
        connections: 256,
        ..keep_alive("ka-256", "keep-alive, 256, 1K", "/1k", None)
    },
    keep_alive("ka-10k", "keep-alive, 64, 10K", "/10k", None),
    keep_alive("ka-100k", "keep-alive, 64, 100K", "/100k", None),
    Row {
        content: Content::Differs,
        // This is 1.25 times the limit of `ka-1k`, which is the same row with constant requests.
        target: at_most(1.25 * 1.08),
        ..keep_alive("ka-values", "keep-alive, 64, 1K, values", "/1k", None)
    },
    Row {
        shape: ConnectionUse::Close,
        connections: 192,
        target: as_fast(ahead(1.06)),
        ..keep_alive(
            "close-1k",
            "connection per request, 192, 1K",
            "/1k",
            Some(Tool::H2load),
        )
    },
    Row {
        connections: 10_000,
        target: Target {
            memory_mib: Some(25.0),
            ..as_fast(at_most(1.10))
        },
        ..keep_alive("many-1k", "keep-alive, 10,000, 1K", "/1k", None)
    },
    Row {
        security: Security::Resumable,
        references: &[Tool::Wrk, Tool::H2load, Tool::Prony],
        target: as_fast(at_most(0.90)),
        ..keep_alive("tls-1k", "TLS keep-alive, 64, 1K", "/1k", Some(Tool::Wrk))
    },
    Row {
        shape: ConnectionUse::Close,
        security: Security::Resumable,
        references: &[Tool::Oha, Tool::Wrk, Tool::Prony],
        target: at_most(0.95),
        ..keep_alive(
            "tls-resumed",
            "TLS handshake per request, 64, resumed",
            "/13",
            None,
        )
    },
    Row {
        shape: ConnectionUse::Close,
        security: Security::Full,
        references: &[Tool::Fortio, Tool::Wrk, Tool::Prony],
        target: at_most(0.90),
        ..keep_alive(
            "tls-full",
            "TLS handshake per request, 64, full",
            "/13",
            None,
        )
    },
    Row {
        shape: ConnectionUse::Paced(20_000),
        references: &[Tool::H2load, Tool::Wrk2, Tool::Prony],
        target: Target {
            late_p99_us: Some(200.0),
            ..at_most(1.0)
        },
        ..keep_alive(
            "open-1k",
            "open loop, 20,000/s, 64, 1K",
            "/1k",
            Some(Tool::H2load),
        )
    },
    Row {
        quick: Some(Tool::H2load),
        ..h2("h2-tls-16x32", "HTTP/2 over TLS, 16 × 32, 13 bytes", 16, 32)
    },
    h2("h2-tls-1x100", "HTTP/2 over TLS, 1 × 100, 13 bytes", 1, 100),
    Row {
        path: "/100k",
        target: ahead(0.90),
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
];
