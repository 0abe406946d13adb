//! HAProxy in front of the embedded origin.

use std::process::Command;

use crate::checks::check_all;
use crate::process::program;
use crate::server::{Server, ServerSetup};

const CONFIGURATION: &str = "
global
  maxconn 500
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
  default_backend origin
frontend tls
  bind 127.0.0.1:{tls} ssl crt {folder}/both.pem{alpn}
  {more}
frontend clear
  bind 127.0.0.1:{clear}
  {more}
backend origin
  server origin {origin}
";

/// Starts a HAProxy that supports HTTP/2 on its frontend.
pub(crate) fn start() -> Server {
    start_with("")
}

/// Starts HAProxy with an additional directive for its frontends.
pub(crate) fn start_with(more: &str) -> Server {
    start_offering(" alpn h2,http/1.1", more)
}

pub(crate) fn start_without_alpn() -> Server {
    start_offering("", "")
}

fn start_offering(alpn: &str, more: &str) -> Server {
    let place = ServerSetup::new();
    let configuration = CONFIGURATION
        .replace("{alpn}", alpn)
        .replace("{more}", more);
    let file = place.site.file("haproxy.cfg", &place.fill(&configuration));
    let mut command = Command::new(program(&["haproxy"]));
    command.args(["-db", "-f"]).arg(&file);
    place.start(&mut command)
}

check_all!(start());
