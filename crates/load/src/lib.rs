//! The load generator: takes a load spec and produces a record.
//!
//! Input: settings ([`LoadSettings`]), resolved once into a [`LoadSpec`]. Output: a
//! [`prony_record::Record`]. In between, one worker per thread runs pacing, connections and
//! sockets. Workers share nothing while they run. This crate does not depend on plans, services or
//! reports.
//!
//! Only `socket` contains code that differs by operating system.

mod connection;
mod content_coding;
mod credentials;
mod expect;
mod findings;
mod forward;
mod info;
pub mod input_file;
mod location;
mod lookup;
mod meter;
mod pacing;
mod part;
mod permits;
mod ports;
mod probe;
mod progress;
mod protocols;
mod proxy;
pub mod quantity;
mod readiness;
mod reasons;
mod request;
mod run;
pub mod script;
mod sequence;
mod settings;
mod socket;
mod source;
mod spec;
mod stall;
mod target;
mod tls;
mod urls;
mod worker;
mod writer;

pub use content_coding::{BodyDigest, DecodeError};
pub use credentials::{Credentials, split_url};
pub use findings::{so_far as findings_so_far, stall_text};
pub use forward::HttpProxy;
pub use info::typed_info;
pub use meter::WorkerUtilization;
pub use pacing::{ArrivalSchedule, Arrivals, ScheduleEnd, Share, arrivals_by_worker};
pub use part::Part;
pub use permits::Permits;
pub use probe::{ProbeResponse, probe, probe_until, reach};
pub use progress::Control;
pub use readiness::{NotReady, wait_for_server};
pub use request::Request;
pub use run::{RunError, RunResult, run, run_at, run_with};
pub use settings::{
    CoreList, GivenSetting, HttpVersion, IoChoice, LoadSettings, Notation, PUBLIC_VARIABLE,
    ProxyVersion, RequestOrder, SettingsError, Sha256, SourceOrder, TlsVersion, flag_of,
};
pub use source::SourceRange;
pub use spec::{LoadSpec, Model, SpecError};
pub use writer::Writer;
