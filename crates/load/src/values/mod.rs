//! Values of settings, requests and responses: parsed text, without knowledge of loads.

pub(crate) mod content_coding;
pub(crate) mod cookies;
pub(crate) mod credentials;
pub(crate) mod error;
pub mod input_file;
pub(crate) mod location;
pub(crate) mod lookup;
pub(crate) mod pacing;
pub(crate) mod permits;
pub(crate) mod placeholder;
pub mod reference;
pub mod response_head;
pub(crate) mod shard;
pub(crate) mod status_set;
pub(crate) mod url;
pub(crate) mod url_list;
