//! Tests of HTTP/1 with tables of responses, with every split of the input, with random bytes, and
//! with another parser.

mod generated;
mod requests;
mod responses;
mod reuse;
mod smoke;
mod splits;
mod violations;

#[expect(unreachable_pub, dead_code, reason = "a library for the fuzz targets")]
#[path = "../../../../fuzz/src/lib.rs"]
mod bodies;

use bodies::drive::{Trace, drive};
use prony_protocol::h1::{Expects, Limits, ResponseParser};

/// Returns the trace of these bytes, after which the peer closes the connection.
fn answer(expects: Expects, bytes: &[u8]) -> Trace {
    drive(
        &mut ResponseParser::new(Limits::default()),
        expects,
        [bytes],
    )
}
