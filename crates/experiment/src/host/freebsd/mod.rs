//! FreeBSD: what its commands print. Pure functions.
