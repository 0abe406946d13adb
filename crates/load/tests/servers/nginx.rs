//! The nginx server.

use std::process::Command;

use crate::checks::check_all;
use crate::process::program;
use crate::server::{Server, ServerSetup, Transport};

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

#[test]
fn key_exchange_groups_are_those_that_nginx_logs() {
    let server = start(
        "ssl_protocols TLSv1.2 TLSv1.3; ssl_ecdh_curve secp384r1:prime256v1:X25519; location = /curve { return 200 $ssl_curve; }",
    );
    // nginx follows the order of the client. It knows no group with ML-KEM.
    for (words, curve, group, retries) in [
        ("", "X25519", "X25519", 0),
        ("--groups P-256,X25519", "prime256v1", "secp256r1", 0),
        (
            "--groups X25519MLKEM768,P-256",
            "prime256v1",
            "secp256r1",
            6,
        ),
        ("--tls-max 1.2", "X25519", "X25519", 0),
    ] {
        let words = format!(
            "-n 6 -c 2 --no-keepalive --no-resumption --expect-sha256 {} {words}",
            crate::site::hash(curve.as_bytes())
        );
        let record = server.load(Transport::Tls, "/curve", &words);
        assert_eq!(record.totals.ok, 6, "{words}: {:?}", record.findings);
        let totals = &record.totals;
        assert_eq!(totals.tls_groups, [(group.to_owned(), 6)].into(), "{words}");
        assert_eq!(totals.tls_hello_retries, retries, "{words}");
    }
}
