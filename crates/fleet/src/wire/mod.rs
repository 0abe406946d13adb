//! Messages between coordinator, agents and registrar.
//!
//! All messages are JSON: orders and replies, registrations, results, and the data of a run that
//! the NATS server stores. Both sides need the same version of prony and the same [`WIRE_VERSION`].
//! An agent rejects orders from other versions.

pub(crate) mod claims;
mod enrollment;
mod file_chunk;
mod host_call;
mod legible;
mod manifest;
mod order;
mod registration;
mod result;
mod version;

pub use enrollment::{EnrollReply, EnrollRequest};
pub use file_chunk::{CHUNK_BYTES_MAX, FileChunk};
pub(crate) use file_chunk::{ChunkFault, file_chunks, sha256_hex};
pub use host_call::{HostCall, HostReply, NumberedCall, OpenRequest};
pub(crate) use host_call::{LOG_READ_BYTES_MAX, LOG_SENT_BYTES_MAX, service_file_name};
pub use manifest::{PartAssignment, RUN_SCHEMA, RunManifest};
pub(crate) use order::OrderHeader;
pub use order::{AgentOrder, CheckReport, Command, LEASE_RANGE_MS, LoadOrder, ReadyReport, Reply};
pub use registration::{Registration, Reservation};
pub use result::{EndReason, PartEnd, ResultMessage};
pub use version::{PRONY_VERSION, SenderVersion, WIRE_VERSION};
