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
//! | values | `values`: text and numbers of settings, requests and responses |
//! | settings | `settings`: one table of all settings, parsing, contradictions |
//! | sockets | `socket`: bytes and streams, with every backend; `tls`; `quic` |
//! | targets | `target`: addresses, sources, proxies, name lookups |
//! | exchanges | `exchange`: the kinds of what occupies a request slot |
//! | logs | `replay`: requests of access logs, and when they are due |
//! | requests | `request`: drafts, lists, templates, and their serialized form |
//! | limits | `limits`: ports, open files and CPU quotas of this machine |
//! | the load | `spec`: what to send, at what rate, for how long |
//! | carriers | `carrier`: the protocols of connections |
//! | engine | `engine`: the worker, what it observes, and the run; `server_check`: single requests |

// Files that are also part of the tests below `tests` name this crate by its name.
#[cfg(test)]
extern crate self as prony_load;

mod carrier;
mod engine;
pub mod exchange;
mod limits;
mod quic;
mod replay;
mod request;
mod server_check;
mod settings;
mod socket;
mod spec;
mod target;
mod tls;
mod values;

pub use engine::findings::findings_so_far;
pub use engine::meter::WorkerUtilization;
pub use engine::progress::Control;
pub use engine::readiness::{NotReady, wait_for_server};
pub use engine::run::{RunError, RunResult, run, run_at, run_in_slices, run_with};
pub use engine::scripted::{LoadedScript, ScriptLoader, ScriptSetup, ScriptedRun, run_scripted};
pub use engine::slices::{LoadSlice, SliceReport, Slices};
pub use limits::control_group::{GroupVersion, MountedGroup};
pub use limits::cpu_quota::{CpuQuotas, QuotaCounters, QuotaGroup, cpu_quota_finding};
pub use limits::open_files::{open_files_limit, open_files_needed};
pub use limits::ports::local_port_count;
pub use request::Request;
pub use request::draft::Braces;
pub use request::grpc::{compiled_schema, has_streamed_responses, proto_imports};
pub use request::info::typed_info;
pub use request::journey::captures_in;
pub use request::scope::LoadScope;
pub use request::script;
pub use request::template::{
    data_columns, literal, placeholder, request_filters, request_functions, with_filter,
};
pub use request::writer::Writer;
pub use server_check::{
    CheckError, CheckedResponse, check_request, check_request_until, needs_reflection, reach,
    reflected_schema,
};
pub use settings::{
    AddressOrder, ArrivalRate, BodyPattern, CapturePlace, CoreList, DataOrder, FormField,
    GatewayMac, GivenSetting, GrpcMethod, HttpProxy, HttpVersion, IoChoice, JourneyStep,
    LoadSettings, PUBLIC_VARIABLE, ProxyVersion, RegexPattern, Repeat, ReplaySpeed, ReplayTiming,
    RequestOrder, Setting, Sha256, SourceOrder, SourceRange, Stage, StepThink, Table,
    ThinkDistribution, ThinkTime, TlsVersion, ValueKind, read_steps,
};
pub use spec::LoadSpec;
pub use target::resolve::is_metadata;
pub use tls::openssl_name;
pub use values::content_coding::{BodyDigest, DecodeError, decode_beginning};
pub use values::cookies::{CookieJar, CookieUrl};
pub use values::credentials::{Credentials, split_url};
pub use values::error::{Notation, SettingsError, SpecError, flag_of};
pub use values::pacing::{ArrivalSchedule, Arrivals, ScheduleEnd, arrivals_by_worker};
pub use values::permits::Permits;
pub use values::response_head;
pub use values::shard::{Shard, ShardRange};
pub use values::status_set::StatusSet;
pub use values::url_list::{is_one_word, read_text, split_body_file};
pub use values::{input_file, reference};
