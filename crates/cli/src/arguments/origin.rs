//! The arguments of `prony origin`.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use prony_origin::{Fault, PATHS, Work};
use prony_record::quantity::{self, QuantityError};

/// Arguments of `prony origin`.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub(crate) struct OriginArgs {
    /// Listen on ADDR: 127.0.0.1:8080, a port alone, port 0 for any free port, or unix:/path;
    /// repeatable [default: 127.0.0.1:8080, unless --unix or --quic=ADDR is given]
    #[arg(long, value_name = "ADDR", value_parser = ListenAddress::parse)]
    pub(crate) listen: Vec<ListenAddress>,
    /// Listen on a UNIX socket; repeatable
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Vec<PathBuf>,
    /// Use TLS on every listener, with a certificate generated for this run
    #[arg(long)]
    pub(crate) tls: bool,
    /// Also serve HTTP/3 over QUIC: on the UDP ports with the same numbers as the TCP ports, or on
    /// the UDP address ADDR; repeatable. QUIC always uses TLS, with or without --tls
    #[arg(
        long,
        value_name = "ADDR",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = QuicListen::parse
    )]
    pub(crate) quic: Vec<QuicListen>,
    /// Run one thread on each of these cores, such as 0 or 0-3 [default: one thread, on any core]
    #[arg(long, value_name = "LIST", value_parser = Cores::parse)]
    pub(crate) cores: Option<Cores>,
    /// Add work to each request: CPU time such as 20us, or rounds of arithmetic such as 5000
    /// [default: none]
    #[arg(long, value_name = "TIME|ROUNDS", value_parser = parse_work)]
    pub(crate) work: Option<Work>,
    /// Serve one request at a time, in the order of arrival, each for TIME without using CPU time, so
    /// that the capacity is 1/TIME [default: requests don't wait for each other]
    #[arg(long, value_name = "TIME", value_parser = quantity::positive_time)]
    pub(crate) service_time: Option<Duration>,
}

/// Values of `--listen`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A UNIX socket.
    Unix(PathBuf),
}

impl ListenAddress {
    /// Parses `127.0.0.1:8080`, `localhost:8080`, `:8080`, `8080` or `unix:/path`. The syntax
    /// includes the forms that `{{ service.address }}` takes in a plan.
    fn parse(text: &str) -> Result<ListenAddress, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(ListenAddress::Unix(PathBuf::from(path)));
        }
        if let Ok(port) = text.trim_start_matches(':').parse::<u16>() {
            return Ok(ListenAddress::Tcp((Ipv4Addr::LOCALHOST, port).into()));
        }
        let named = text
            .to_socket_addrs()
            .ok()
            .and_then(|mut addresses| addresses.next());
        named.map(ListenAddress::Tcp).ok_or_else(|| {
            format!(
                "\"{text}\" is not an address; write 127.0.0.1:8080, a port alone, or unix:/path"
            )
        })
    }
}

/// Values of `--quic`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuicListen {
    /// UDP ports with the same numbers as the TCP ports.
    TcpPorts,
    /// A UDP address.
    Udp(SocketAddr),
}

impl QuicListen {
    /// Parses an address in the same way as [`ListenAddress::parse`]. An empty value means
    /// [`QuicListen::TcpPorts`].
    fn parse(text: &str) -> Result<QuicListen, String> {
        if text.is_empty() {
            return Ok(QuicListen::TcpPorts);
        }
        match ListenAddress::parse(text) {
            Ok(ListenAddress::Tcp(address)) => Ok(QuicListen::Udp(address)),
            _ => Err(format!(
                "\"{text}\" is not a UDP address; write 127.0.0.1:8443, a port alone, or --quic \
                 without an address"
            )),
        }
    }
}

/// Value of `--cores`. It is a separate type because clap would make an option with a bare vector
/// repeatable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cores(pub(crate) Vec<usize>);

impl Cores {
    /// Parses a list of cores such as `0`, `0,2` or `0-3`.
    fn parse(text: &str) -> Result<Cores, QuantityError> {
        quantity::cores(text).map(Cores)
    }
}

/// Parses `--work`: a number without a unit counts rounds, a number with a unit is CPU time.
fn parse_work(text: &str) -> Result<Work, String> {
    if let Ok(rounds) = text.parse::<u32>() {
        return Ok(Work::Rounds(rounds));
    }
    quantity::positive_time(text)
        .map(Work::CpuTime)
        .map_err(|_| {
            format!("\"{text}\" is not an amount of work; write a time such as 20us, or a number of rounds such as 5000")
        })
}

/// Returns the text that follows the options on the help page.
fn help() -> String {
    let faults: Vec<String> = Fault::all()
        .map(|fault| format!("    {:<24} {}", fault.name(), fault.effect()))
        .collect();
    format!(
        "The first lines of standard output are the addresses, one per line. Stop the server \
            with Ctrl-C.\n\nPaths:\n{}\n{}\n\nFaults that exist only in HTTP/1.1 return status \
            501 over HTTP/2 and HTTP/3.",
        indented(PATHS),
        faults.join("\n")
    )
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_written_by_people_and_in_plans() {
        let local = |port| ListenAddress::Tcp((Ipv4Addr::LOCALHOST, port).into());
        for (text, port) in [("127.0.0.1:8080", 8080), ("8080", 8080), (":0", 0)] {
            assert_eq!(ListenAddress::parse(text), Ok(local(port)), "{text}");
        }
        assert_eq!(
            ListenAddress::parse("unix:/run/a"),
            Ok(ListenAddress::Unix("/run/a".into()))
        );
        for bad in ["", "70000", "/run/a", "127.0.0.1", "1.2.3.4:x"] {
            assert!(ListenAddress::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn quic_has_an_address_or_the_ports_of_tcp() {
        assert_eq!(QuicListen::parse(""), Ok(QuicListen::TcpPorts));
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 8443));
        assert_eq!(QuicListen::parse("8443"), Ok(QuicListen::Udp(local)));
        for bad in ["unix:/run/a", "70000", "x"] {
            assert!(QuicListen::parse(bad).is_err(), "{bad}");
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
