//! Caddy, which uses Go's own implementation of HTTP/2, and quic-go for HTTP/3.

use std::process::Command;

use crate::checks::check_all;
use crate::process::program;
use crate::server::{Server, ServerSetup};

const CONFIGURATION: &str = "{
  admin off
  log {
    level WARN
  }
  auto_https off
  storage file_system {folder}/storage
  servers {
    protocols {protocols}
  }
}
(site) {
  bind 127.0.0.1
  root * {folder}/www
  reverse_proxy /echo {origin}
  file_server
  {more}
}
https://127.0.0.1:{tls} {
  tls {folder}/certificate.pem {folder}/key.pem
  import site
}
http://127.0.0.1:{clear} {
  import site
}
";

pub(crate) fn start() -> Server {
    start_with("")
}

/// Starts Caddy with additional directives for its site.
pub(crate) fn start_with(more: &str) -> Server {
    start_speaking("h1 h2 h2c", more)
}

/// Starts Caddy with HTTP/3 on the UDP port that has the same number as its TLS port.
pub(crate) fn start_http3() -> Server {
    let server = start_speaking("h1 h2 h3", "");
    // Caddy accepts TCP connections before it has opened its UDP port.
    server.wait_for_http3();
    server
}

fn start_speaking(protocols: &str, more: &str) -> Server {
    let configuration = CONFIGURATION
        .replace("{protocols}", protocols)
        .replace("{more}", more);
    let place = ServerSetup::new();
    let file = place.site.file("Caddyfile", &place.fill(&configuration));
    let mut command = Command::new(program(&["caddy"]));
    command.args(["run", "--adapter", "caddyfile", "--config"]);
    command.arg(&file);
    for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        command.env(variable, place.site.root());
    }
    place.start(&mut command)
}

check_all!(start());
