//! HTTP/2, the PROXY protocol and source addresses against servers that others wrote: each from the
//! system's packages, started by its test, on ports and in a folder of its own, and stopped at the
//! test's end however that comes.
//!
//! `cargo xtask test` installs what they need; without it they fail and say what is missing.
#![cfg(target_os = "linux")]

mod agreement;
mod apache;
mod caddy;
mod checks;
mod forward;
mod haproxy;
mod hyper;
mod limits;
mod load;
mod modes;
mod namespace;
mod nghttpd;
mod nginx;
mod process;
mod proxied;
mod server;
mod site;
