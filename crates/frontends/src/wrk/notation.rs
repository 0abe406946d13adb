//! The engine's settings in wrk's messages.

use prony_load::Notation;

use crate::session::PUBLIC;

/// The engine's settings and wrk's options.
pub(crate) const NOTATION: Notation = Notation::Options(&[
    PUBLIC,
    ("connections", "--connections"),
    ("duration", "--duration"),
    ("threads", "--threads"),
    ("rate", "--rate"),
    ("header", "--header"),
    ("script", "--script"),
]);
