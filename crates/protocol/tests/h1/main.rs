//! HTTP/1 against tables of answers, against itself at every split, against random bytes and
//! against another parser.

mod answers;
mod generated;
mod requests;
mod smoke;
mod splits;
mod use_again;
mod violations;

#[expect(unreachable_pub, dead_code, reason = "a library for the fuzz targets")]
#[path = "../../../../fuzz/src/lib.rs"]
mod bodies;

use bodies::drive::{Trace, drive};
use prony_protocol::h1::{Expects, Limits, ResponseParser};

/// What comes of these bytes and the close after them.
fn answer(expects: Expects, bytes: &[u8]) -> Trace {
    drive(
        &mut ResponseParser::new(Limits::default()),
        expects,
        [bytes],
    )
}
