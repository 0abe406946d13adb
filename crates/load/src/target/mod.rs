//! Targets of requests: addresses, sources and proxies.

pub(crate) mod address_list;
pub(crate) mod addresses;
pub(crate) mod bypass;
mod destination;
pub(crate) mod http_proxy;
pub(crate) mod proxy_protocol;
pub(crate) mod resolve;
pub(crate) mod source;

pub(crate) use destination::*;
