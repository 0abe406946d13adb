//! The load generator: takes a load spec and produces a record.
//!
//! Input: settings ([`LoadSettings`]), resolved once into a [`LoadSpec`]. Output: a
//! [`prony_record::Record`]. In between, one worker per thread runs pacing, connections and
//! sockets. Workers share nothing while they run. This crate does not depend on plans, services or
//! reports.
//!
//! The modules form layers. A module uses only modules of its own layer and of the layers above it
//! in this table, without cycles:
//!
//! | layer | modules |
//! |---|---|
//! | values and tools | `error`, `status_set`, `reference`, `url`, `credentials`, `template`, `url_list`, `input_file`, `shard`, `pacing`, `slices`, `permits`, `lookup`, `stall`, `content_coding`, `cookies`, `response_head` |
//! | settings | `settings` |
//! | transport | `socket`, `tls`, `quic` |
//! | destinations | `target`, `address_list`, `proxy_protocol`, `source`, `ports`, `open_files`, `resolve`, `http_proxy`, `bypass` |
//! | requests | `draft`, `scope`, `protocols`, `request`, `request_template`, `request_list`, `writer`, `location`, `entries`, `info`, `script`, `expect`, `exchange` |
//! | the load | `spec`, `sequence` |
//! | engine | `carrier`, `meter`, `findings`, `progress`, `reasons`, `worker`, `run`, `probe`, `readiness`, `scripted` |

// Files that are also part of the tests below `tests` name this crate by its name.
#[cfg(test)]
extern crate self as prony_load;

mod address_list;
mod bypass;
mod carrier;
mod content_coding;
mod cookies;
mod cpu_quota;
mod credentials;
mod draft;
mod entries;
mod error;
pub mod exchange;
mod expect;
mod findings;
mod http_proxy;
mod info;
pub mod input_file;
mod location;
mod long_list;
mod lookup;
mod meter;
mod open_files;
mod pacing;
mod permits;
mod ports;
mod probe;
mod progress;
mod protocols;
mod proxy_protocol;
mod quic;
mod readiness;
mod reasons;
pub mod reference;
mod request;
mod request_list;
mod request_template;
mod resolve;
pub mod response_head;
mod run;
mod scope;
pub mod script;
mod scripted;
mod sequence;
mod settings;
mod shard;
mod slices;
mod socket;
mod source;
mod spec;
mod stall;
mod status_set;
mod target;
mod template;
mod tls;
mod url;
mod url_list;
mod worker;
mod writer;

pub use content_coding::{BodyDigest, DecodeError, decode_beginning};
pub use cookies::{CookieJar, CookieUrl};
pub use cpu_quota::{CpuQuotas, QuotaCounters, QuotaGroup, cpu_quota_finding};
pub use credentials::{Credentials, split_url};
pub use draft::Braces;
pub use error::{Notation, SettingsError, SpecError, flag_of};
pub use findings::so_far as findings_so_far;
pub use info::typed_info;
pub use meter::WorkerUtilization;
pub use open_files::{open_files_limit, open_files_needed};
pub use pacing::{ArrivalSchedule, Arrivals, ScheduleEnd, arrivals_by_worker};
pub use permits::Permits;
pub use ports::local_port_count;
pub use probe::{ProbeError, ProbeResponse, probe, probe_until, reach};
pub use progress::Control;
pub use readiness::{NotReady, wait_for_server};
pub use request::Request;
pub use resolve::is_metadata;
pub use run::{RunError, RunResult, run, run_at, run_in_slices, run_with};
pub use scope::LoadScope;
pub use scripted::{LoadedScript, ScriptLoader, ScriptSetup, ScriptedRun, run_scripted};
pub use settings::{
    ArrivalRate, CoreList, DataOrder, FormField, GatewayMac, GivenSetting, HttpProxy, HttpVersion,
    IoChoice, LoadSettings, PUBLIC_VARIABLE, ProxyVersion, RequestOrder, Setting, Sha256,
    SourceOrder, SourceRange, Stage, ThinkDistribution, ThinkTime, TlsVersion, ValueKind,
};
pub use shard::{Shard, ShardRange};
pub use slices::{LoadSlice, SliceReport, Slices};
pub use spec::LoadSpec;
pub use status_set::StatusSet;
pub use template::{data_columns, placeholder, request_filters, request_functions, with_filter};
pub use tls::openssl_name;
pub use url_list::{is_one_word, read_text, split_body_file};
pub use writer::Writer;
