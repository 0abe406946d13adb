//! HTTP/2, the PROXY protocol and source addresses with third-party servers. The servers come from
//! the system's packages. Each test starts its server on its own ports and in its own folder, and
//! stops it at the end, even if the test fails.
//!
//! `cargo xtask test` installs the servers; without them the tests fail and name the missing one.

mod agreement;
mod apache;
mod bypass;
mod caddy;
mod checks;
mod fastapi;
mod haproxy;
mod http3;
mod http_proxy;
mod hyper;
mod limits;
mod load;
mod modes;
mod namespace;
mod nghttpd;
mod nginx;
mod process;
mod proxied;
mod replaying;
mod resolving;
mod server;
mod site;
mod websockets;
