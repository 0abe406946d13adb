//! ab's arguments as a load.

use std::time::Duration;

use prony_load::quantity::StatusSet;
use prony_load::{HttpFlag, LoadOptions};

use super::arguments::Arguments;
use super::secured;

/// The longest that a connect is waited for where `-s` says more: as long as TCP itself tries.
const LONGEST_CONNECT: Duration = Duration::from_secs(130);

/// The load; its request is written apart.
pub(super) fn options(arguments: &Arguments) -> LoadOptions {
    let mut options = LoadOptions {
        connections: arguments.concurrency,
        requests: Some(arguments.requests),
        duration: arguments.time_limit,
        method: arguments.method.clone(),
        http: Some(HttpFlag::Http10),
        no_keepalive: !arguments.keepalive,
        source: arguments.sources.clone(),
        timeout: arguments.timeout,
        connect_timeout: arguments.timeout.min(LONGEST_CONNECT),
        expect_status: StatusSet::all(),
        expect_size: arguments.expected_size,
        // ab looks at no certificate, and resumes no session.
        insecure: true,
        no_resumption: true,
        tls_min: arguments.tls,
        tls_max: arguments.tls,
        ciphers: ciphers(arguments),
        cert: arguments.certificate.clone(),
        key: arguments.certificate.clone(),
        ..LoadOptions::default()
    };
    // Where an address stands for the name, the handshake names nobody (RFC 6066 §3).
    let named = secured::name(arguments).unwrap_or_else(|| "127.0.0.1".to_owned());
    options.sni = arguments.url.is_tls.then_some(named);
    if arguments.verbosity >= 2 {
        options.threads = Some(1);
    }
    options
}

/// `-Z` chooses among the suites of TLS 1.2; those of 1.3 are offered beside them unless it names
/// some, as OpenSSL does.
fn ciphers(arguments: &Arguments) -> Vec<String> {
    const TLS13: [&str; 3] = [
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_GCM_SHA256",
    ];
    let mut ciphers = arguments.ciphers.clone();
    let is_13 = |name: &String| name.starts_with("TLS_") && !name.contains("_WITH_");
    if !ciphers.is_empty() && arguments.tls.is_none() && !ciphers.iter().any(is_13) {
        ciphers.splice(0..0, TLS13.map(str::to_owned));
    }
    ciphers
}
