//! Description of a load for its record.

use prony_record::{EntryList, EventInfo, LoadInfo, ReplayInfo, ThinkTimeInfo, redact};

use crate::request::connection_journey;
use crate::request::draft::{Braces, drafts};
use crate::request::entries::{self, Entries};
use crate::request::journey::Journey;
use crate::request::long_list::LongList;
use crate::request::websocket;
use crate::settings::{AddressOrder, LoadSettings, ReplayTiming, RequestOrder};
use crate::values::credentials;
use crate::values::error::SpecError;

/// Facts about the URLs of a load.
pub(crate) struct UrlFacts<'a> {
    /// URL as typed, or the first URL of the list.
    pub(crate) url: &'a str,
    /// Number of distinct requests.
    pub(crate) requests: usize,
    pub(crate) order: RequestOrder,
    pub(crate) uses_tls: bool,
    /// The load's journey, if it is one.
    pub(crate) journey: Option<&'a Journey>,
    /// True if some requests are gRPC calls with streamed responses.
    pub(crate) are_calls_streamed: bool,
    /// Names of the entries, if there is more than one.
    pub(crate) entries: Option<Box<EntryList>>,
}

/// Describes a load from its settings alone. No host name is looked up. Threads, socket backend and
/// source addresses are omitted because they depend on the machine that runs the load.
///
/// # Errors
///
/// Fails if a URL or the list of URLs can't be read.
pub fn typed_info(url: Option<&str>, settings: &LoadSettings) -> Result<LoadInfo, SpecError> {
    let websocket = websocket::settings_for(url, settings)?;
    let settings = websocket.as_ref().unwrap_or(settings);
    let journey = connection_journey::settings_for(url, settings)?;
    let settings = journey.as_ref().unwrap_or(settings);
    let list = drafts(url, settings, Braces::Placeholders)?;
    let (drafts, long_list) = (&list.drafts, list.long_list.as_ref());
    let texts: Vec<String> = drafts.iter().map(|it| it.shown_url()).collect();
    let methods = drafts.iter().map(|it| it.method.as_str());
    let forms = Vec::from_iter(methods.zip(texts.iter().map(String::as_str)));
    let entries = match &list.journey {
        Some(journey) => journey.entries(),
        None if list.replay.is_some() => Entries::default(),
        None => Entries::of(&forms, long_list),
    };
    let first = long_list.and_then(|list| list.path_of(0));
    let form = texts.first().map(String::as_str).unwrap_or_default();
    let first = match first {
        Some(path) => entries::origin_of(form).to_owned() + path,
        None => form.to_owned(),
    };
    let urls = UrlFacts {
        entries: entries.list,
        url: url.unwrap_or(&first),
        requests: match list.replay {
            Some(_) => 1,
            None => long_list.map_or(drafts.len(), LongList::len),
        },
        order: settings.order_of(list.weights.is_some()),
        uses_tls: drafts.iter().any(|it| it.url.tls),
        journey: list.journey.as_ref(),
        are_calls_streamed: list.calls.is_some_and(|calls| calls.has_streams),
    };
    Ok(describe(settings, &urls))
}

/// Format of the events of a fan-out: each arrival of a message is one.
const FAN_OUT: &str = "fan-out";

/// Describes a load; see [`typed_info`].
pub(crate) fn describe(settings: &LoadSettings, urls: &UrlFacts<'_>) -> LoadInfo {
    let to_u32 = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let is_open = settings.is_open();
    let format = settings.events.map(|format| format.name());
    let format = format.or(urls.are_calls_streamed.then_some("grpc"));
    let format = format.or(settings.fan_out.map(|_| FAN_OUT));
    let events = format.map(|format| EventInfo {
        format: format.to_owned(),
        field: settings.event_field.as_ref().map(ToString::to_string),
        end_marker: settings.end_marker.clone(),
    });
    LoadInfo {
        url: shown_url(urls.url),
        model: if is_open { "open" } else { "closed" }.to_owned(),
        connections: to_u32(settings.connections()),
        streams: to_u32(settings.streams()),
        duration_s: settings.planned().map(|planned| planned.as_secs_f64()),
        requests: settings.requests,
        warmup_s: settings.warmup().as_secs_f64(),
        rate_per_s: settings.constant_rate(),
        stages: settings.rate_stages(),
        arrivals: (is_open && !settings.has_recorded_timing())
            .then(|| settings.arrivals().name().to_owned()),
        think: settings.think.map(|think| ThinkTimeInfo {
            mean_s: think.mean.as_secs_f64(),
            distribution: think.distribution.name().to_owned(),
        }),
        http: match (settings.http_version(), urls.uses_tls) {
            (Some(text), _) => text.name(),
            (None, true) => "auto",
            (None, false) => "1.1",
        }
        .to_owned(),
        keepalive: settings.reuses_connections(),
        websocket: settings.has_messages(),
        tcp_only: settings.tcp_only,
        idle: settings.idle.unwrap_or(0),
        requests_per_connection: settings.requests_per_connection,
        connection_lifetime_s: settings.connection_lifetime.map(|it| it.as_secs_f64()),
        addresses: (settings.addresses)
            .filter(|order| *order != AddressOrder::First)
            .map(|order| order.name().to_owned()),
        resolve_every_s: settings.resolve_every.map(|it| it.as_secs_f64()),
        tls: urls.uses_tls.then(|| describe_tls(settings)),
        follow: settings.follow.unwrap_or(0),
        proxy: settings.proxy.as_ref().map(|proxy| proxy.name()),
        urls: u32::try_from(urls.requests).unwrap_or(u32::MAX),
        order: (urls.requests > 1 && urls.journey.is_none()).then(|| urls.order.to_string()),
        steps: urls.journey.map_or(0, |journey| journey.steps.len() as u64),
        step_pauses: urls.journey.is_some_and(Journey::has_pauses),
        timeout_s: settings.timeout().as_secs_f64(),
        gap_timeout_s: events
            .as_ref()
            .map(|_| settings.gap_timeout().as_secs_f64()),
        events,
        grpc: settings.grpc.as_ref().map(ToString::to_string),
        entries: urls.entries.clone(),
        replay: settings.replay.as_ref().map(|file| ReplayInfo {
            file: file.display().to_string(),
            speed: match settings.replay_timing() {
                ReplayTiming::Recorded(speed) => Some(speed.0),
                ReplayTiming::AtRate | ReplayTiming::AsFastAsPossible => None,
            },
        }),
        script: settings
            .script
            .as_ref()
            .map(|file| file.display().to_string()),
        data: settings
            .data
            .as_ref()
            .map(|file| file.display().to_string()),
        cookies: settings.uses_cookies(),
        proxy_protocol: settings.proxy_protocol.map(|it| it.name().to_owned()),
        ..LoadInfo::default()
    }
}

/// Returns a URL as results show it, without credentials.
fn shown_url(text: &str) -> String {
    credentials::split_url(text).map_or_else(|_| redact::url(text), |(url, _)| url)
}

/// Describes all settings that affect the TLS handshake. Two loads have the same text if and only
/// if these settings are the same.
fn describe_tls(settings: &LoadSettings) -> String {
    let verified = if settings.insecure {
        "unverified"
    } else {
        "verified"
    };
    let resumed = if settings.no_resumption {
        "full handshakes"
    } else {
        "sessions resumed"
    };
    let early_data = if settings.early_data {
        ", early data"
    } else {
        ""
    };
    let versions = match (settings.tls_min, settings.tls_max) {
        (None, None) => String::new(),
        (Some(min), None) => format!(", TLS {min} and later"),
        (None, Some(max)) => format!(", up to TLS {max}"),
        (Some(min), Some(max)) if min == max => format!(", TLS {min} only"),
        (Some(min), Some(max)) => format!(", TLS {min} to {max}"),
    };
    let list = |name: &str, list: &[String]| match list {
        [] => String::new(),
        values => format!(", {name} {}", values.join(" ")),
    };
    let ciphers = list("ciphers", &settings.ciphers);
    let groups = list("groups", &settings.groups);
    let signatures = list("signature algorithms", &settings.signature_algorithms);
    format!("{verified}, {resumed}{early_data}{versions}{ciphers}{groups}{signatures}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_info_matches_the_resolved_load() {
        let list = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(list.path(), "/a\n/b POST x\nhttps://127.0.0.1:9/c\n").unwrap();
        let urls = format!("--urls {}", list.path().display());
        for words in [
            "",
            "-n 7 -c 3 --timeout 0 --no-keepalive",
            "--requests-per-connection 9 --connection-lifetime 90s",
            "--connection-rate 9 --idle 3",
            "--tcp-only",
            "-r 100 --arrivals poisson -d 3s --warmup 1s --http 1.0",
            "-r 100:500 -d 3s",
            "--stages 100@5s,0@2s --arrivals poisson",
            "--http 2 --streams 8 --follow 2",
            "--think exp:250ms",
            "--proxy http://me:secret@127.0.0.1:3128 --tls-min 1.3",
            "--proxy-protocol v2 --insecure",
            &urls,
        ] {
            let settings = LoadSettings::from_flags(words);
            for url in ["http://127.0.0.1:9/x", "https://127.0.0.1:9"] {
                let resolved = settings.resolve(Some(url)).unwrap();
                let resolved = resolved.info();
                let text = typed_info(Some(url), &settings).unwrap();
                let expected = LoadInfo {
                    threads: resolved.threads,
                    io: resolved.io.clone(),
                    sources: resolved.sources,
                    ..text
                };
                assert_eq!(*resolved, expected, "{words} {url}");
                let order = words.contains("--urls").then(|| "sequence".to_owned());
                assert_eq!(resolved.order, order, "{words} {url}");
            }
        }
    }
}
