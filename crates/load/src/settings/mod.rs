//! The settings of a load: one type that is filled from flags, plans and agents' messages.
//!
//! Settings that were not given are absent; [`LoadSettings::resolve`] applies the defaults. `table`
//! declares them all: flags, keys of plans, help and checks follow from it.

mod access;
mod combined;
mod declare;
mod deflate_offer;
mod event_field;
mod field;
mod form;
mod grpc_method;
mod http_proxy;
mod loop_model;
mod rate;
mod replay_timing;
mod setting;
mod source_range;
mod step;
mod table;
mod table_format;
mod think_time;
mod values;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prony_protocol::event_stream::{EventFormat, EventSyntax};
use serde_json::Value;

pub use form::FormField;
pub(crate) use form::{BodyPiece, encode as encode_form};
pub use grpc_method::GrpcMethod;
pub use http_proxy::HttpProxy;
pub use rate::{ArrivalRate, Stage};
pub use replay_timing::{ReplaySpeed, ReplayTiming};
pub use setting::{Setting, ValueKind};
pub use source_range::SourceRange;
pub(crate) use step::STEPS_MAX;
pub use step::{
    BodyPattern, CapturePlace, JourneyStep, RegexPattern, Repeat, StepThink, Table, read_steps,
};
pub use table::{LoadSettings, PUBLIC_VARIABLE};
pub use think_time::{ThinkDistribution, ThinkTime};
pub use values::{
    AddressOrder, CoreList, DataOrder, GatewayMac, HttpVersion, IoChoice, ProxyVersion,
    RequestOrder, Sha256, SourceOrder, TlsVersion,
};

pub(crate) use values::FanOut;

use field::TextValue;
use values::EventChoice;

use crate::values::error::{SettingsError, flag_of};
use crate::values::pacing::Arrivals;
use crate::values::status_set::StatusSet;
use crate::values::url_list;

/// Length of the measured part unless a time or a number of requests is given.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Maximum number of clients of a log with connections of their own, unless it is given.
const REPLAY_CONNECTIONS: u64 = 1_000;

/// One setting that was given, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenSetting {
    /// Key of the setting, such as `no_keepalive`.
    pub key: String,
    /// Values of the setting; empty for a switch.
    pub values: Vec<String>,
}

impl GivenSetting {
    /// The flags that set this value on the command line: `--header=A: 1`, or `--insecure`.
    pub fn flags(&self) -> Vec<String> {
        let flag = flag_of(&self.key);
        match self.values.as_slice() {
            [] => vec![flag],
            // A value after "=" may begin with a dash.
            values => values
                .iter()
                .map(|value| format!("{flag}={value}"))
                .collect(),
        }
    }
}

impl LoadSettings {
    /// Returns the settings that environment variables contain. Only `public` can be set in this
    /// way.
    pub fn from_environment() -> LoadSettings {
        LoadSettings {
            public: is_public_by_environment(),
            ..LoadSettings::default()
        }
    }

    /// The given settings, in the order of [`LoadSettings::KEYS`], including passwords.
    pub fn given(&self) -> Vec<GivenSetting> {
        let text = |value: Value| match value {
            Value::String(text) => text,
            // The JSON writer would write a whole float with a fraction, such as `2.0`.
            Value::Number(number) => match number.as_f64() {
                Some(float) if number.is_f64() => float.to_string(),
                _ => number.to_string(),
            },
            other => other.to_string(),
        };
        let given = self.entries().map(|(setting, value)| GivenSetting {
            key: setting.key.to_owned(),
            values: match value {
                Value::Bool(_) => Vec::new(),
                Value::Array(values) => values.into_iter().map(text).collect(),
                value => vec![text(value)],
            },
        });
        given.collect()
    }

    /// Length of the measured part, if it is limited by time.
    pub fn planned(&self) -> Option<Duration> {
        match (self.duration, self.requests) {
            _ if !self.stages.is_empty() => self.stages_length(),
            // A log is replayed to its end.
            (None, _) if self.replay.is_some() => None,
            (None, None) => Some(DEFAULT_DURATION),
            (duration, _) => duration,
        }
    }

    /// Every file that the load reads, including the files named in its list of URLs, as paths to
    /// open.
    ///
    /// # Errors
    ///
    /// The list can't be read.
    pub fn files(&self) -> Result<Vec<PathBuf>, SettingsError> {
        let fields = LoadSettings::TABLE.iter().zip(self.fields());
        let named = fields.filter(|(setting, _)| setting.kind == ValueKind::File);
        let mut files: Vec<PathBuf> = named.filter_map(|(_, field)| field.path()).collect();
        files.extend(self.form.iter().filter_map(FormField::file).cloned());
        files.extend_from_slice(&self.message_file);
        if let Some(list) = &self.urls {
            files.extend(url_list::bodies(list)?);
        }
        if self.has_steps() {
            let steps = self.journey_steps()?;
            files.extend(steps.iter().flat_map(JourneyStep::files).cloned());
        }
        Ok(files)
    }

    /// Checks that no settings contradict each other, and that each has the other settings that it
    /// needs.
    ///
    /// # Errors
    ///
    /// Returns the first contradiction.
    pub fn check(&self) -> Result<(), SettingsError> {
        for (setting, _) in self.entries() {
            for (other, reason) in setting.excludes {
                if self.has(other) {
                    let error = SettingsError::of(setting.key).text(" can't be combined with ");
                    let error = error.name(other);
                    return Err(match *reason {
                        "" => error.hint("remove one of them"),
                        reason => error.text(format!(", {reason}, or remove one of the two")),
                    });
                }
            }
            if let Some(other) = setting.needs.filter(|other| !self.has(other)) {
                let error = SettingsError::of(setting.key).text(" needs ");
                return Err(error.name(other).text(" as well"));
            }
        }
        let of_calls = ["proto", "protoset", "grpc_gzip", "grpc_message_max"];
        let may_call = self.grpc.is_some() || self.urls.is_some() || self.has_steps();
        if let Some(key) = of_calls.into_iter().find(|key| !may_call && self.has(key)) {
            let error = SettingsError::of(key).text(" needs ");
            return Err(error.name("grpc").text(" as well"));
        }
        if self.arrivals.is_some() && !self.is_open() {
            let error = SettingsError::of("arrivals").text(" needs ").name("rate");
            return Err(error.text(" or ").name("stages").text(" as well"));
        }
        if self.gap_timeout.is_some() && self.events.is_none() && self.grpc.is_none() {
            let error = SettingsError::of("gap_timeout")
                .text(" needs ")
                .name("events");
            return Err(error.text(" or ").name("grpc").text(" as well"));
        }
        if self.ramp_up.is_some() && !self.has_steps() {
            let error = SettingsError::of("ramp_up").text(" needs ");
            return Err(error.name("steps").text(" as well"));
        }
        self.check_rate()
    }

    /// Returns the order of the list. If requests have weights, `weighted` is the default, because
    /// weights have no effect in another order. Users with cookies each go through the list, because
    /// a request may need the cookies of earlier ones.
    pub(crate) fn order_of(&self, has_weights: bool) -> RequestOrder {
        let default_order = match (has_weights, self.cookies) {
            (true, _) => RequestOrder::Weighted,
            (false, true) => RequestOrder::PerUser,
            (false, false) => RequestOrder::Sequence,
        };
        self.order.unwrap_or(default_order)
    }

    /// Returns true if the load sends messages of WebSockets.
    pub(crate) fn has_messages(&self) -> bool {
        !self.message.is_empty() || !self.message_file.is_empty() || self.messages.is_some()
    }

    /// Returns true if the load is a journey.
    pub fn has_steps(&self) -> bool {
        self.steps.is_some() || !self.step.is_empty()
    }

    /// Returns true if virtual users pause between requests, or between the steps of a journey.
    pub fn has_pauses(&self) -> bool {
        let steps = self.journey_steps().unwrap_or_default();
        let mut thinks = steps.iter().filter_map(|step| step.think);
        self.think.is_some() || thinks.any(|think| think.0.is_some())
    }

    /// Returns true if each virtual user has a cookie jar.
    pub(crate) fn uses_cookies(&self) -> bool {
        self.cookies || self.has_steps()
    }

    /// Reads the steps of the load's journey: those of the file, or those in the plan. Empty if
    /// the load is not a journey.
    ///
    /// # Errors
    ///
    /// The file can't be read.
    pub fn journey_steps(&self) -> Result<Vec<JourneyStep>, SettingsError> {
        match &self.steps {
            Some(file) => read_steps(file),
            None => Ok(self.step.clone()),
        }
    }

    /// Connections to keep open, or, with a log, at most.
    pub fn connections(&self) -> u64 {
        self.connections.unwrap_or_else(|| match self.replay {
            Some(_) => REPLAY_CONNECTIONS,
            None => default_of("connections"),
        })
    }

    /// Duration of the warm-up, which precedes the measured part.
    pub fn warmup(&self) -> Duration {
        self.warmup.unwrap_or_default()
    }

    pub(crate) fn arrivals(&self) -> Arrivals {
        self.arrivals.unwrap_or(Arrivals::Constant)
    }

    pub(crate) fn method(&self) -> &str {
        let default = if self.form.is_empty() { "GET" } else { "POST" };
        self.method.as_deref().unwrap_or(default)
    }

    /// Requests in flight on each HTTP/2 or HTTP/3 connection.
    pub fn streams(&self) -> u64 {
        self.streams.unwrap_or_else(|| default_of("streams"))
    }

    /// Returns true if connections may use different addresses of the same host.
    pub(crate) fn uses_address_book(&self) -> bool {
        self.resolve_every.is_some() || self.addresses.is_some_and(|it| it != AddressOrder::First)
    }

    /// Returns true if connections may carry more than one request.
    pub(crate) fn reuses_connections(&self) -> bool {
        let one_request = self.no_keepalive
            || self.requests_per_connection == Some(1)
            || self.connection_rate.is_some() && self.requests_per_connection.is_none()
            || self.tcp_only;
        !one_request
    }

    /// Time after which a request fails; zero for never.
    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or_else(|| default_of("timeout"))
    }

    /// Time after which a stream without another event fails; zero for never.
    pub fn gap_timeout(&self) -> Duration {
        self.gap_timeout.unwrap_or_else(|| self.timeout())
    }

    /// The HTTP version, if it is given or gRPC needs one.
    pub(crate) fn http_version(&self) -> Option<HttpVersion> {
        self.http.or(self.has_calls().then_some(HttpVersion::Http2))
    }

    /// Returns true if requests of the load are gRPC calls.
    pub(crate) fn has_calls(&self) -> bool {
        self.grpc.is_some() || self.proto.is_some() || self.protoset.is_some()
    }

    /// The gRPC methods that the load calls: the method of its requests, or those in its list of
    /// requests or in its steps. A list or steps that can't be read have none.
    pub(crate) fn grpc_methods(&self) -> Vec<GrpcMethod> {
        let listed = self
            .urls
            .iter()
            .flat_map(|list| url_list::grpc_methods(list));
        let listed = listed.filter_map(|name| name.parse().ok());
        let steps = self.journey_steps().unwrap_or_default();
        let in_steps = steps.into_iter().filter_map(|step| step.grpc);
        self.grpc
            .iter()
            .cloned()
            .chain(listed)
            .chain(in_steps)
            .collect()
    }

    /// Maximum length of a message in the response to a gRPC call, in bytes.
    pub(crate) fn grpc_message_max(&self) -> u64 {
        self.grpc_message_max
            .unwrap_or_else(|| default_of("grpc_message_max"))
    }

    /// The events of responses, if responses are streams.
    pub(crate) fn event_syntax(&self) -> Option<EventSyntax> {
        Some(EventSyntax {
            format: match self.events? {
                EventChoice::ServerSent => EventFormat::ServerSent,
                EventChoice::Lines => EventFormat::Lines,
                EventChoice::Chunks => EventFormat::Frames,
            },
            field: self.event_field.as_ref().map(|field| field.path().clone()),
            end_marker: self.end_marker.as_deref().map(Arc::from),
        })
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        self.connect_timeout
            .unwrap_or_else(|| default_of("connect_timeout"))
    }

    pub(crate) fn expect_status(&self) -> StatusSet {
        let given = self.expect_status.clone();
        given.unwrap_or_else(|| default_of("expect_status"))
    }
}

/// The default that the table declares as a value.
///
/// # Panics
///
/// The table has no such setting, or its default is not a value; a test reads them all.
fn default_of<T: TextValue>(key: &str) -> T {
    let setting = Setting::find(key).expect("a setting of the table");
    T::read(setting.kind, setting.default).expect("a default that is a value")
}

/// Returns true if `PRONY_PUBLIC` is set, except to `0`, `false`, `no`, `off` and similar values.
fn is_public_by_environment() -> bool {
    let Some(value) = std::env::var_os(PUBLIC_VARIABLE) else {
        return false;
    };
    let value = value.to_string_lossy().to_ascii_lowercase();
    !["", "n", "no", "f", "false", "off", "0"].contains(&value.as_str())
}

#[cfg(test)]
mod tests;
