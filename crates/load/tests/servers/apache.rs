//! Apache httpd with mod_http2.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::checks::check_all;
use crate::process::program;
use crate::server::{Server, ServerSetup};

/// Folders of Apache's modules in different distributions.
const MODULES: &[&str] = &[
    "/usr/lib/apache2/modules",
    "/usr/lib64/httpd/modules",
    "/usr/lib/httpd/modules",
    "/usr/lib/apache2",
];

/// Apache refuses to serve as root, so the configuration names the user with the ID of `nobody`.
/// `User` has no effect unless root starts Apache.
const CONFIGURATION: &str = "
ServerRoot {folder}
ServerName localhost
PidFile {folder}/pid
DefaultRuntimeDir {folder}
ErrorLog {folder}/error.log
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule ssl_module {modules}/mod_ssl.so
LoadModule http2_module {modules}/mod_http2.so
LoadModule proxy_module {modules}/mod_proxy.so
LoadModule proxy_http_module {modules}/mod_proxy_http.so
<IfModule !unixd_module>
  LoadModule unixd_module {modules}/mod_unixd.so
</IfModule>
User #65534
Group #65534
StartServers 1
ServerLimit 1
ThreadsPerChild 25
MaxRequestWorkers 25
MaxKeepAliveRequests 0
Protocols {protocols}
Listen 127.0.0.1:{tls} https
Listen 127.0.0.1:{clear} http
DocumentRoot {folder}/www
ProxyPass /echo http://{origin}/echo
<VirtualHost 127.0.0.1:{tls}>
  SSLEngine on
  SSLCertificateFile {folder}/certificate.pem
  SSLCertificateKeyFile {folder}/key.pem
</VirtualHost>
";

/// Starts an Apache that supports HTTP/2 and also HTTP/1.1.
pub(crate) fn start() -> Server {
    start_speaking("h2 h2c http/1.1")
}

/// Starts an Apache that supports HTTP/1.1 only.
pub(crate) fn start_http11() -> Server {
    start_speaking("http/1.1")
}

fn start_speaking(protocols: &str) -> Server {
    let place = ServerSetup::new();
    let configuration = CONFIGURATION
        .replace("{modules}", modules().to_str().unwrap())
        .replace("{protocols}", protocols);
    let file = place.site.file("httpd.conf", &place.fill(&configuration));
    let mut command = Command::new(program(&["apache2", "httpd"]));
    command.arg("-DFOREGROUND").arg("-f").arg(&file);
    command.arg("-E").arg(place.site.path("log"));
    place.start(&mut command)
}

pub(crate) fn modules() -> PathBuf {
    let found = MODULES.iter().map(Path::new);
    let found = found.filter(|folder| folder.join("mod_http2.so").is_file());
    found
        .map(Path::to_owned)
        .next()
        .expect("mod_http2.so of Apache httpd is not installed (cargo xtask test installs it)")
}

check_all!(start());
