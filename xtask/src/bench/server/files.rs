//! A server's port and certificate.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;

use crate::bench::process;

/// A port that is free for TCP and UDP, on every address.
pub(super) fn free_port() -> Result<u16, String> {
    let mut last = None;
    for _ in 0..100 {
        let bound = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|it| it.local_addr());
        let port = bound.map_err(|e| format!("no free port: {e}"))?.port();
        match UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)) {
            Ok(_) => return Ok(port),
            Err(error) => last = Some(error),
        }
    }
    Err(format!("no free port: {last:?}"))
}

/// Writes a self-signed certificate with a P-256 key, valid for 30 days: `cert.pem` and `key.pem`.
pub(super) fn write_certificate(folder: &Path) -> Result<(), String> {
    let mut command = Command::new("openssl");
    command
        .args(["req", "-x509", "-nodes", "-newkey", "ec"])
        .args(["-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-subj", "/CN=localhost", "-days", "30"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(folder);
    process::output_of(&mut command).map(drop)
}
