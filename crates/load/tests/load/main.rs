//! Tests of loads over real sockets, against the embedded origin and against misbehaving servers.

mod acknowledgments;
mod addresses;
mod before;
mod bytes_out;
mod connecting;
mod differing;
mod entries;
mod event_streams;
mod expectations;
mod faults;
mod following;
mod grpc;
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
mod h3;
mod harness;
mod hostile;
mod http_proxy;
mod journeys;
mod lifetimes;
mod limits;
mod parts;
mod placeholders;
mod proxied;
mod replay;
mod requests;
mod scripts;
mod sliced;
mod sources;
mod tls;
mod watched;
mod websockets;

/// Runs the tests again, in a separate process whose loads use the readiness backend. That process
/// prints its own results.
#[test]
fn the_readiness_backend_passes_the_same_tests() {
    if std::env::var_os(harness::READINESS).is_some() {
        return;
    }
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        // The skipped tests don't depend on the socket backend.
        .args(["--skip", "h3::", "--skip", "placeholders::"])
        .env(harness::READINESS, "1")
        .status()
        .unwrap();
    assert!(run.success());
}
