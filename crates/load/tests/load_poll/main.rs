//! The same loads over the readiness backend; [`harness`] tells by this crate's name.

#[path = "../load/expectations.rs"]
mod expectations;
#[path = "../load/faults.rs"]
mod faults;
#[path = "../load/harness.rs"]
mod harness;
#[path = "../load/hostile.rs"]
mod hostile;
#[path = "../load/limits.rs"]
mod limits;
#[path = "../load/requests.rs"]
mod requests;
#[path = "../load/sources.rs"]
mod sources;
#[path = "../load/tls.rs"]
mod tls;
