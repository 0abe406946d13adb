//! Loads over real sockets: against the embedded origin, and against servers that are worse.

mod expectations;
mod faults;
mod harness;
mod hostile;
mod limits;
mod requests;
mod sources;
mod tls;
