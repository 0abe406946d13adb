//! Detects addresses that a plan sets for its services instead of using the allocated ones.
//!
//! Two services can't listen on the same address at the same time. Only common flags and directives
//! are recognized, because no list of programs is complete. Other conflicts are detected when the
//! services start.

use std::collections::BTreeMap;
use std::fmt;

use prony_plan::service::PlaceKind;
use prony_plan::{ResolvedService, is_placeholder_path, is_placeholder_port};

use super::named_variants::NamedVariants;

/// Flags whose value is an address or a port to listen on.
const FLAGS: &[&str] = &[
    "--address",
    "--addr",
    "--bind",
    "--http-port",
    "--https-port",
    "--listen",
    "--listen-address",
    "--port",
    "-a",
    "-b",
    "-l",
];
/// Environment variables that contain an address or a port to listen on.
const VARIABLES: &[&str] = &["BIND", "LISTEN", "PORT"];
/// First words of configuration lines that set an address or a port to listen on.
const DIRECTIVES: &[&str] = &["bind", "listen", "server.port"];
/// Lowest number that counts as a port after a one-letter flag. Lower numbers are often counts.
const UNNAMED_PORT_MIN: u16 = 1024;

/// An address that a service listens on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum FixedAddress {
    Port(u16),
    Socket(String),
}

impl fmt::Display for FixedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FixedAddress::Port(port) => write!(f, "port {port}"),
            FixedAddress::Socket(path) => write!(f, "socket {path}"),
        }
    }
}

/// Describes the first address on which services of several variants would listen; `None` if there
/// is no such address.
pub(super) fn shared_address(all: NamedVariants<'_>) -> Option<String> {
    let mut known: BTreeMap<FixedAddress, usize> = BTreeMap::new();
    for (index, variant) in all.iter() {
        for service in variant.services.iter().filter(|it| shares_network(it)) {
            for address in addresses(service) {
                let first = *known.entry(address.clone()).or_insert(index);
                if first != index {
                    let name = &service.spec.name;
                    return Some(format!(
                        "service \"{name}\" listens on {address} in several variants (write \
                         {{{{ {name}.address }}}} instead)"
                    ));
                }
            }
        }
    }
    None
}

fn shares_network(service: &ResolvedService) -> bool {
    service.remote.is_none() && service.spec.place == PlaceKind::Native
}

/// Collects the addresses that a service's command, environment and files set.
fn addresses(service: &ResolvedService) -> Vec<FixedAddress> {
    let spec = &service.spec;
    let flags = spec.command.iter().enumerate().filter_map(|(index, word)| {
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) => (flag, value),
            None => (word.as_str(), spec.command.get(index + 1)?.as_str()),
        };
        let found = FLAGS.contains(&flag).then(|| address(value)).flatten();
        let is_short = !flag.starts_with("--");
        found.filter(|it| match it {
            FixedAddress::Port(port) => !is_short || *port >= UNNAMED_PORT_MIN,
            FixedAddress::Socket(_) => true,
        })
    });
    let variables = spec.env.iter().filter_map(|(name, value)| {
        let listens = VARIABLES.contains(&name.as_str());
        listens.then(|| address(value)).flatten()
    });
    let texts = spec.files.values();
    let texts = texts.filter_map(|contents| std::str::from_utf8(contents).ok());
    let directives = texts.flat_map(str::lines).filter_map(directive);
    let all = flags.chain(variables).chain(directives);
    all.filter(is_fixed).collect()
}

/// Parses the address in a line of a configuration file; `None` unless the line contains a known
/// directive.
fn directive(line: &str) -> Option<FixedAddress> {
    let line = line.trim();
    let end = line.find(|c: char| c.is_whitespace() || c == '=')?;
    let (name, value) = line.split_at(end);
    let is_known = DIRECTIVES.iter().any(|it| name.eq_ignore_ascii_case(it));
    let value = value.trim_start_matches(|c: char| c.is_whitespace() || c == '=');
    is_known.then(|| address(value)).flatten()
}

/// Parses an address such as `80`, `*:80`, `127.0.0.1:80`, `http://[::1]:80/` or
/// `unix:/run/web.sock`. Text after the address is ignored.
fn address(text: &str) -> Option<FixedAddress> {
    let text = text.split([' ', '\t', ';', ',']).next()?;
    let text = text.trim_matches(['"', '\'']);
    let path = text.strip_prefix("unix:").unwrap_or(text);
    if path.starts_with('/') {
        return Some(FixedAddress::Socket(path.to_owned()));
    }
    let authority = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = authority.split('/').next()?;
    let port = authority.rsplit(':').next()?.parse().ok();
    // Ignore port 0, with which the system chooses a free port.
    port.filter(|port| *port > 0).map(FixedAddress::Port)
}

/// Returns true if the plan sets this address; false if prony allocates it.
fn is_fixed(address: &FixedAddress) -> bool {
    match address {
        FixedAddress::Port(port) => !is_placeholder_port(*port),
        FixedAddress::Socket(path) => !is_placeholder_path(path.as_ref()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_the_usual_notations() {
        let port = |port| Some(FixedAddress::Port(port));
        let socket = |path: &str| Some(FixedAddress::Socket(path.to_owned()));
        for (text, expected) in [
            ("80", port(80)),
            ("*:8080", port(8080)),
            ("127.0.0.1:8080;", port(8080)),
            ("[::]:443 ssl", port(443)),
            ("\"0.0.0.0:9000\"", port(9000)),
            ("http://127.0.0.1:8000/", port(8000)),
            ("unix:/run/web.sock", socket("/run/web.sock")),
            ("/run/php.sock", socket("/run/php.sock")),
            ("0", None),
            ("127.0.0.1:0", None),
            ("70000", None),
            ("localhost", None),
            ("", None),
        ] {
            assert_eq!(address(text), expected, "{text}");
        }
    }

    #[test]
    fn lines_of_configuration_files_are_read() {
        let port = |port| Some(FixedAddress::Port(port));
        for (line, expected) in [
            ("    listen 8080;", port(8080)),
            ("Listen 0.0.0.0:8081", port(8081)),
            ("listen = 127.0.0.1:9000", port(9000)),
            ("  bind *:80,*:81 ssl", port(80)),
            ("server.port=3000", port(3000)),
            ("# listen 8080;", None),
            ("listener 8080", None),
            ("listen_backlog 4096", None),
            ("listen", None),
            ("port = 5432", None),
        ] {
            assert_eq!(directive(line), expected, "{line}");
        }
    }
}
