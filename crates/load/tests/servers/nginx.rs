//! The nginx server.

use std::process::Command;

use crate::checks::check_all;
use crate::process::program;
use crate::server::{Server, ServerSetup};

/// `{more}` is replaced by a test's directives, and `{h2}` by the directives that enable HTTP/2.
const CONFIGURATION: &str = "
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log stderr;
events { worker_connections 512; }
http {
  access_log off;
  keepalive_requests 1000000;
  client_max_body_size 32m;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  ssl_certificate {folder}/certificate.pem;
  ssl_certificate_key {folder}/key.pem;
  server {
    {more}
    listen 127.0.0.1:{tls} ssl{h2};
    listen 127.0.0.1:{clear}{h2};
    root {folder}/www;
    location = /echo {
      proxy_pass http://{origin};
      proxy_http_version 1.1;
    }
    location = /early { return 200 'no need to read that'; }
  }
}
";

/// Starts an nginx that supports HTTP/2, with additional directives for its `server` block. In
/// these, `{folder}` is replaced by the server's folder.
pub(crate) fn start(more: &str) -> Server {
    start_speaking(" http2", more)
}

/// Starts an nginx that supports HTTP/1.1 only.
pub(crate) fn start_http11() -> Server {
    start_speaking("", "")
}

fn start_speaking(h2: &str, more: &str) -> Server {
    let place = ServerSetup::new();
    let configuration = CONFIGURATION.replace("{h2}", h2).replace("{more}", more);
    let file = place.site.file("nginx.conf", &place.fill(&configuration));
    let mut command = Command::new(program(&["nginx"]));
    command.arg("-p").arg(place.site.root());
    // Before it reads its configuration, nginx writes to a log whose path was set at compile time.
    command.args(["-e", "stderr", "-c"]).arg(&file);
    place.start(&mut command)
}

check_all!(start(""));
