//! Tests of HTTP/2, with many requests per connection, against a server in memory.

mod calls;
mod chaos;
mod ends;
mod limits;
mod loops;
mod preconnect;
mod server;
mod slices;
mod timeouts;
mod tls;

use super::*;
use server::{Call, ScriptedH2Server, ServerLog, Steps, after, ok};

/// Creates a server that responds to every request after the same time.
fn steady(service: Nanos) -> ScriptedH2Server {
    ScriptedH2Server::new(move |call| after(service, ok(call.stream)))
}

/// The results of a load, and the log of its server.
fn load(words: &str, server: ScriptedH2Server) -> (Outcomes, Rc<RefCell<ServerLog>>) {
    let seen = server.seen();
    let spec = spec(&format!("--http 2 {words}"));
    (simulate(&spec, vec![Box::new(server)]), seen)
}

/// Asserts equality within the histogram's resolution.
fn assert_us(seen: f64, expected: u64) {
    let expected = expected as f64;
    let is_close = (seen - expected).abs() <= expected * 0.001;
    assert!(is_close, "reported {seen} µs, expected {expected} µs");
}

fn has_finding(outcomes: &Outcomes, id: &str) -> bool {
    outcomes.record.findings.iter().any(|f| f.id.as_str() == id)
}
