//! HTTP as bytes and events.
//!
//! What enters: the bytes that a peer sent, in pieces of any size, and once before the run what is
//! to be requested. What leaves: events (a head, a piece of body, the end) or the reason why the
//! bytes are not HTTP, and the bytes to send.
//!
//! What holds everywhere in this crate:
//!
//! - It never names a clock, a socket, a thread or an async type. Nothing here waits or sends.
//! - The caller owns the buffers; bodies leave as slices of what the caller passed in.
//! - How the bytes were split makes no difference: the same bytes give the same events, with the
//!   pieces of a body put together.
//! - A peer that breaks the protocol ends in a violation, which stays until the next exchange is
//!   started. No bytes lead to a panic, to a loop without progress or to memory beyond the limits.
//! - A steady exchange allocates nothing.
//!
//! Each version of HTTP has a module of its own, [`h1`] and [`h2`]; what they share about fields (RFC
//! 9110 §5) is in `field`. A request is described in the same words for both,
//! [`h1::RequestSpec`].

mod field;
pub mod h1;
pub mod h2;
