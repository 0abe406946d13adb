//! The engine's settings in siege's messages.

use prony_load::Notation;

use crate::session::PUBLIC;

/// The engine's settings and siege's options or keys of its configuration file.
pub(crate) const NOTATION: Notation = Notation::Options(&[
    PUBLIC,
    ("proxy", "proxy-host"),
    ("connections", "-c"),
    ("duration", "-t"),
    ("ciphers", "ssl-ciphers"),
    ("cert", "ssl-cert"),
    ("key", "ssl-key"),
]);
