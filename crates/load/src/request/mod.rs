//! Requests: drafts, lists, templates, and their serialized form.

pub(crate) mod connection_journey;
pub(crate) mod draft;
mod encodings;
pub(crate) mod entries;
pub(crate) mod expect;
pub(crate) mod grpc;
pub(crate) mod info;
pub(crate) mod journey;
pub(crate) mod long_list;
mod messages;
pub(crate) mod protocols;
pub(crate) mod request_list;
pub(crate) mod request_template;
pub(crate) mod scope;
pub mod script;
mod serialized;
pub(crate) mod template;
pub(crate) mod websocket;
pub(crate) mod writer;

pub use serialized::Request;
pub(crate) use serialized::{RequestParts, SerializedParts, encode};
