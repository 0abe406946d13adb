//! Checks of a server's configuration.
//!
//! prony reads the files itself, because the servers' own checks have side effects: `nginx -T`
//! opens logs, creates the pid file and binds sockets, and Apache has no such command. The files
//! may have changed since the server started. Only settings that limit a load are checked.

mod apache;
mod files;
mod haproxy;
mod nginx;
mod php_fpm;

use super::check::CheckResults;
use super::process::ServerProcess;

/// Checks the configuration of a server that prony recognizes.
pub(super) fn check_config(server: &ServerProcess) -> CheckResults {
    match server.program_without_version().as_str() {
        "nginx" | "nginx-debug" | "openresty" | "angie" => nginx::check_nginx(server),
        "apache" | "httpd" => apache::check_apache(server),
        "haproxy" => haproxy::check_haproxy(server),
        "php-fpm" => php_fpm::check_php_fpm(server),
        _ => {
            let mut results = CheckResults::default();
            results.add_undetermined(
                format!("{} settings that limit a load", server.program()),
                "prony can check only nginx, Apache httpd, HAProxy and php-fpm",
            );
            results
        }
    }
}
