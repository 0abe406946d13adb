//! `prony origin`: the embedded server, until a signal ends it.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use prony_origin::{Config, Fault, Origin, PATHS, Tls, Work};
use prony_record::quantity;

use crate::arguments::OriginArgs;
use crate::ending::{Ending, Failure};
use crate::{signals, terminal};

/// The default address.
const DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// `--listen`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Listen {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A UNIX socket.
    Unix(PathBuf),
}

impl Listen {
    /// Parses `127.0.0.1:8080`, `localhost:8080`, `:8080`, `8080` or `unix:/path`. A plan's `{{
    /// service.address }}` has these forms.
    pub(crate) fn parse(typed: &str) -> Result<Listen, String> {
        if let Some(path) = typed.strip_prefix("unix:") {
            return Ok(Listen::Unix(PathBuf::from(path)));
        }
        if let Ok(port) = typed.trim_start_matches(':').parse::<u16>() {
            return Ok(Listen::Tcp((Ipv4Addr::LOCALHOST, port).into()));
        }
        let named = typed
            .to_socket_addrs()
            .ok()
            .and_then(|mut addresses| addresses.next());
        named.map(Listen::Tcp).ok_or_else(|| {
            format!(
                "\"{typed}\" is not an address; write 127.0.0.1:8080, a port alone, or unix:/path"
            )
        })
    }
}

/// `--cores`: a list in a type of its own, because a bare vector would make the option repeatable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cores(Vec<usize>);

impl Cores {
    /// Parses `0`, `0,2` or `0-3`.
    pub(crate) fn parse(typed: &str) -> Result<Cores, String> {
        quantity::cores(typed).map(Cores)
    }
}

/// Parses `--work`: a bare number counts rounds, a time has a unit.
pub(crate) fn parse_work(typed: &str) -> Result<Work, String> {
    if let Ok(rounds) = typed.parse::<u32>() {
        return Ok(Work::Rounds(rounds));
    }
    quantity::positive_time(typed)
        .map(Work::CpuTime)
        .map_err(|_| {
            format!("\"{typed}\" is not an amount of work; write a time such as 20us, or rounds such as 5000")
        })
}

/// The text after the options in the help page.
pub(crate) fn help() -> String {
    let faults: Vec<String> = Fault::all()
        .map(|fault| format!("    {:<24} {}", fault.name(), fault.effect()))
        .collect();
    format!(
        "The first lines of standard output are the addresses, one a line. It ends with Ctrl-C.\n\n\
         Paths:\n{}\n{}",
        indented(PATHS),
        faults.join("\n")
    )
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}

/// Serves until a signal arrives.
pub(crate) fn run(typed: OriginArgs) -> Result<Ending, Failure> {
    let mut config = Config {
        unix: typed.unix,
        work: typed.work,
        ..Config::default()
    };
    for listen in typed.listen {
        match listen {
            Listen::Tcp(address) => config.listen.push(address),
            Listen::Unix(path) => config.unix.push(path),
        }
    }
    if config.listen.is_empty() && config.unix.is_empty() {
        config.listen.push(DEFAULT);
    }
    config.cores = typed.cores.map(|cores| cores.0).unwrap_or_default();
    config.tls = typed.tls.then_some(Tls::Generated);
    let origin = Origin::start(config).map_err(Failure::refused)?;
    let scheme = if typed.tls { "https" } else { "http" };
    let tcp = origin
        .addresses()
        .iter()
        .map(|address| format!("{scheme}://{address}/\n"));
    let unix = origin
        .unix_paths()
        .iter()
        .map(|path| format!("unix:{}\n", path.display()));
    terminal::print(&tcp.chain(unix).collect::<String>());
    if typed.tls {
        terminal::print_message("prony: the certificate is self-signed; load it with --insecure");
    }
    signals::wait()?;
    origin.stop();
    Ok(Ending::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn addresses_are_what_people_and_plans_write() {
        let local = |port| Listen::Tcp((Ipv4Addr::LOCALHOST, port).into());
        for (typed, port) in [("127.0.0.1:8080", 8080), ("8080", 8080), (":0", 0)] {
            assert_eq!(Listen::parse(typed), Ok(local(port)), "{typed}");
        }
        assert_eq!(
            Listen::parse("unix:/run/a"),
            Ok(Listen::Unix("/run/a".into()))
        );
        for bad in ["", "70000", "/run/a", "127.0.0.1", "1.2.3.4:x"] {
            assert!(Listen::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_price_is_a_time_or_a_number_of_rounds() {
        assert_eq!(parse_work("5000"), Ok(Work::Rounds(5000)));
        assert_eq!(
            parse_work("20us"),
            Ok(Work::CpuTime(Duration::from_micros(20)))
        );
        for bad in ["", "-1", "0us", "x", "20 parrots"] {
            assert!(parse_work(bad).is_err(), "{bad}");
        }
    }
}
