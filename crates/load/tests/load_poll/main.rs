//! The loads of `tests/load` over the readiness backend. [`harness`] recognizes it by the name of
//! this crate.

#[path = "../load/before.rs"]
mod before;
#[path = "../load/bytes_out.rs"]
mod bytes_out;
#[path = "../load/differing.rs"]
mod differing;
#[path = "../load/entries.rs"]
mod entries;
#[path = "../load/expectations.rs"]
mod expectations;
#[path = "../load/faults.rs"]
mod faults;
#[path = "../load/following.rs"]
mod following;
#[path = "../load/h2_faults.rs"]
mod h2_faults;
#[path = "../load/h2_floods.rs"]
mod h2_floods;
#[path = "../load/h2_frames.rs"]
mod h2_frames;
#[path = "../load/h2_hostile.rs"]
mod h2_hostile;
#[path = "../load/h2_limits.rs"]
mod h2_limits;
#[path = "../load/h2_odd.rs"]
mod h2_odd;
#[path = "../load/h2_peer.rs"]
mod h2_peer;
#[path = "../load/h2_random.rs"]
mod h2_random;
#[path = "../load/h2_server.rs"]
mod h2_server;
#[path = "../load/h2_tls.rs"]
mod h2_tls;
#[path = "../load/harness.rs"]
mod harness;
#[path = "../load/hostile.rs"]
mod hostile;
#[path = "../load/http_proxy.rs"]
mod http_proxy;
#[path = "../load/limits.rs"]
mod limits;
#[path = "../load/parts.rs"]
mod parts;
#[path = "../load/proxied.rs"]
mod proxied;
#[path = "../load/requests.rs"]
mod requests;
#[path = "../load/scripts.rs"]
mod scripts;
#[path = "../load/sliced.rs"]
mod sliced;
#[path = "../load/sources.rs"]
mod sources;
#[path = "../load/tls.rs"]
mod tls;
#[path = "../load/watched.rs"]
mod watched;
