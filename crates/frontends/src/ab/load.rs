//! Converts ab's arguments to settings of the load engine.

use std::time::Duration;

use prony_load::{HttpProxy, HttpVersion, LoadSettings, Notation, StatusSet, TlsVersion};

use super::arguments::AbArguments;
use super::secured;
use crate::session::PUBLIC;
use crate::tool::openssl_groups;

/// Maximum connect timeout, whatever the value of `-s`. It is about as long as TCP itself retries.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(130);

/// Returns the settings of the load, except for its request.
pub(super) fn engine_settings(arguments: &AbArguments) -> LoadSettings {
    let mut options = LoadSettings {
        connections: Some(arguments.concurrency),
        requests: Some(arguments.requests),
        duration: arguments.time_limit,
        method: Some(arguments.method.clone()),
        path_as_is: true,
        http: Some(HttpVersion::Http10),
        no_keepalive: !arguments.keepalive,
        source: arguments.sources.clone(),
        socket_buffer: arguments.window.map(u64::from),
        proxy: proxy(arguments),
        timeout: Some(arguments.timeout),
        connect_timeout: Some(arguments.timeout.min(CONNECT_TIMEOUT_MAX)),
        expect_status: Some(StatusSet::all()),
        expect_size: arguments.expected_size,
        // Like ab, don't verify certificates and don't resume sessions.
        insecure: true,
        no_resumption: true,
        tls_min: arguments.tls,
        tls_max: arguments.tls,
        ciphers: ciphers(arguments),
        groups: openssl_groups(),
        cert: arguments.certificate.clone(),
        key: arguments.certificate.clone(),
        ..LoadSettings::from_environment()
    };
    // If the host is an address, the handshake contains no server name (RFC 6066, section 3).
    let named = secured::server_name(arguments).unwrap_or_else(|| "127.0.0.1".to_owned());
    options.sni = arguments.url.is_tls.then_some(named);
    if arguments.verbosity >= 2 {
        options.threads = Some(1);
    }
    options
}

/// Returns the proxy with its credentials. The engine uses the credentials only to open tunnels;
/// other requests already contain the header.
fn proxy(arguments: &AbArguments) -> Option<HttpProxy> {
    let proxy = arguments.proxy.as_ref()?.target.clone();
    Some(match &arguments.proxy_login {
        Some(login) => proxy.with_login(login.clone()),
        None => proxy,
    })
}

/// Cipher suites that are offered by default. They are in OpenSSL's order, so that servers that
/// follow the client's preference select the same suite as with ab.
const TLS13: [&str; 3] = [
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
];
const TLS12: [&str; 6] = [
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
];

/// OpenSSL's names for groups of cipher suites. From each of these groups, the TLS library supports
/// the suites in `TLS12`.
const CIPHER_GROUPS: [&str; 4] = ["ALL", "DEFAULT", "HIGH", "TLSv1.2"];

/// Returns the cipher suites to offer. As in OpenSSL, `-Z` selects TLS 1.2 suites; TLS 1.3 suites
/// are offered, too, unless `-Z` names some of them or `-f` excludes TLS 1.3.
fn ciphers(arguments: &AbArguments) -> Vec<String> {
    let is_13 = |name: &str| name.starts_with("TLS_") && !name.contains("_WITH_");
    let mut text: Vec<&str> = Vec::new();
    for name in arguments.ciphers.iter().map(String::as_str) {
        match name {
            many if CIPHER_GROUPS.contains(&many) => text.extend(TLS12),
            // Excluding suites such as null ciphers, MD5 or RC4 has no effect, because the library
            // doesn't support them anyway.
            left_out if left_out.starts_with('!') && lacks(&left_out[1..]) => {}
            name => text.push(name),
        }
    }
    let (names_12, names_13) = (
        text.iter().any(|name| !is_13(name)),
        text.iter().any(|name| is_13(name)),
    );
    let mut suites: Vec<&str> = Vec::new();
    if arguments.tls != Some(TlsVersion::Tls12) && !names_13 {
        suites.extend(TLS13);
    }
    if arguments.tls != Some(TlsVersion::Tls13) && !names_12 {
        text.extend(TLS12);
    }
    suites.extend(text);
    suites.into_iter().map(str::to_owned).collect()
}

/// Returns true if the TLS library supports no suites of this kind.
fn lacks(kind: &str) -> bool {
    const KINDS: [&str; 16] = [
        "3DES", "aNULL", "ADH", "AECDH", "CAMELLIA", "DES", "DSS", "eNULL", "EXP", "EXPORT", "LOW",
        "MD5", "NULL", "PSK", "RC4", "SRP",
    ];
    KINDS.contains(&kind)
}

/// The engine's settings and ab's options.
pub(crate) const NOTATION: Notation = Notation::Options(&[
    PUBLIC,
    ("connections", "-c"),
    ("requests", "-n"),
    ("duration", "-t"),
    ("timeout", "-s"),
    ("method", "-m"),
    ("source", "-B"),
    ("socket_buffer", "-b"),
    ("ciphers", "-Z"),
    ("tls_min", "-f"),
    ("tls_max", "-f"),
    ("cert", "-E"),
    ("key", "-E"),
    ("proxy", "-X"),
    ("expect_size", "--expect-size"),
]);

#[cfg(test)]
mod tests {
    use super::super::arguments::{AbCommand, parse};
    use super::*;

    fn of(words: &str) -> LoadSettings {
        let words: Vec<_> = words.split(' ').map(Into::into).collect();
        match parse(&words) {
            Ok(AbCommand::Load(arguments)) => engine_settings(&arguments),
            other => panic!("{words:?}: {other:?}"),
        }
    }

    #[test]
    fn a_plain_run_is_one_http_1_0_request_on_its_own_connection() {
        let load = of("h/");
        assert_eq!(
            (load.connections, load.requests, load.duration),
            (Some(1), Some(1), None)
        );
        assert_eq!(
            (load.http, load.no_keepalive),
            (Some(HttpVersion::Http10), true)
        );
        assert_eq!(load.timeout, Some(Duration::from_secs(30)));
        assert!(load.insecure && load.no_resumption);
        assert!(load.expect_status.unwrap().contains(503));
        assert_eq!((load.sni, load.threads), (None, None));
    }

    #[test]
    fn the_server_is_named_in_the_handshake_as_ab_names_it() {
        assert_eq!(of("https://h/").sni.unwrap(), "h");
        assert_eq!(of("-H Host:other:81 https://h/").sni.unwrap(), "other");
        for nameless in ["-I https://h/", "https://127.0.0.2/", "https://[::1]/"] {
            // If the host is an address, the handshake contains no server name.
            assert_eq!(of(nameless).sni.unwrap(), "127.0.0.1", "{nameless}");
        }
    }

    #[test]
    fn suites_are_offered_as_openssl_would() {
        let all = of("https://h/").ciphers;
        assert_eq!((all.len(), all[0].as_str()), (9, "TLS_AES_256_GCM_SHA384"));
        assert_eq!(of("-f TLS1.2 https://h/").ciphers, TLS12);
        assert_eq!(of("-f TLS1.3 https://h/").ciphers, TLS13);
        let one = "ECDHE-RSA-AES128-GCM-SHA256";
        let with_tls13 = of(&format!("-Z {one} https://h/")).ciphers;
        assert_eq!((with_tls13.len(), with_tls13[3].as_str()), (4, one));
        assert_eq!(of(&format!("-f TLS1.2 -Z {one} https://h/")).ciphers, [one]);
        let chosen = of("-f TLS1.3 -Z TLS_AES_128_GCM_SHA256 https://h/").ciphers;
        assert_eq!(chosen, ["TLS_AES_128_GCM_SHA256"]);
        assert_eq!(of("-Z HIGH:!aNULL:!MD5 https://h/").ciphers, all);
        // Unknown names are passed to the engine, whose error message names them.
        assert!(
            of("-Z AES128-SHA https://h/")
                .ciphers
                .contains(&"AES128-SHA".to_owned())
        );
    }
}
