//! `prony origin`: runs the built-in server until a signal ends it.

use std::net::{Ipv4Addr, SocketAddr};

use prony_origin::{Config, Origin, Tls};

use crate::arguments::{ListenAddress, OriginArgs, QuicListen};
use crate::ending::{Ending, Failure};
use crate::{signals, terminal};

/// Default address to listen on.
const DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// Runs `prony origin`.
pub(crate) fn run(arguments: OriginArgs) -> Result<Ending, Failure> {
    let mut config = Config {
        unix: arguments.unix,
        work: arguments.work,
        service_time: arguments.service_time,
        ..Config::default()
    };
    for listen in arguments.listen {
        match listen {
            ListenAddress::Tcp(address) => config.listen.push(address),
            ListenAddress::Unix(path) => config.unix.push(path),
        }
    }
    for quic in arguments.quic {
        match quic {
            QuicListen::TcpPorts => config.quic_on_tcp_ports = true,
            QuicListen::Udp(address) => config.quic.push(address),
        }
    }
    if config.listen.is_empty() && config.unix.is_empty() && config.quic.is_empty() {
        config.listen.push(DEFAULT);
    }
    config.cores = arguments.cores.map(|cores| cores.0).unwrap_or_default();
    config.tls = arguments.tls.then_some(Tls::Generated);
    let origin = Origin::start(config).map_err(Failure::refused)?;
    let scheme = if arguments.tls { "https" } else { "http" };
    let tcp = origin
        .addresses()
        .iter()
        .map(|address| format!("{scheme}://{address}/\n"));
    let quic = origin
        .quic_addresses()
        .iter()
        .map(|address| format!("quic:{address}\n"));
    let unix = origin
        .unix_paths()
        .iter()
        .map(|path| format!("unix:{}\n", path.display()));
    terminal::print(&tcp.chain(quic).chain(unix).collect::<String>());
    if origin.certificate_pem().is_some() {
        terminal::print_message("the certificate is self-signed; load it with --insecure");
    }
    signals::wait()?;
    origin.stop();
    Ok(Ending::Done)
}
