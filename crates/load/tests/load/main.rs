//! Loads over real sockets, against the embedded origin and against misbehaving servers.

mod before;
mod bytes_out;
mod expectations;
mod faults;
mod following;
mod h2_faults;
mod h2_floods;
mod h2_frames;
mod h2_hostile;
mod h2_limits;
mod h2_odd;
mod h2_peer;
mod h2_random;
mod h2_server;
mod h2_tls;
mod harness;
mod hostile;
mod http_proxy;
mod limits;
mod parts;
mod proxied;
mod requests;
mod scripts;
mod sources;
mod tls;
mod watched;
