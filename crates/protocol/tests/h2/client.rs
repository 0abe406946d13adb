//! A client under test and its scripted server. Events and frames are represented as short lines.

use std::collections::BTreeMap;

use prony_protocol::h2::{ClientSettings, StreamId};

use crate::bodies::h2::drive::{self, TraceEvent};
use crate::bodies::h2::frames::{self, NO_FLAGS};

/// Settings for a few streams, with the smallest windows.
pub(crate) const SMALL: ClientSettings = ClientSettings {
    streams: 4,
    stream_window_bytes: 65_535,
    connection_window_bytes: 65_535,
    header_table_bytes: 4_096,
};

pub(crate) const OK: &[u8] = b"\x88";

/// A client with an established connection. The SETTINGS of both sides have been acknowledged.
pub(crate) struct Client {
    pub(crate) inner: drive::Client,
    streams: BTreeMap<u32, StreamId>,
}

impl Client {
    pub(crate) fn new() -> Client {
        Client::with(SMALL, &[])
    }

    pub(crate) fn with(settings: ClientSettings, peer: &[(u16, u32)]) -> Client {
        let mut client = Client::fresh(settings);
        assert_eq!(client.receive(&frames::settings(peer)), ["settings"]);
        assert!(client.receive(&frames::settings_ack()).is_empty());
        client.sent();
        client
    }

    /// Creates a client that has received nothing yet.
    pub(crate) fn fresh(settings: ClientSettings) -> Client {
        Client {
            inner: drive::Client::new(settings),
            streams: BTreeMap::new(),
        }
    }

    /// Starts a request; returns its stream identifier.
    pub(crate) fn start(&mut self, method: &str, body: &[u8], tag: u32) -> u32 {
        let stream = self
            .inner
            .start(method, body, tag)
            .expect("request can be started");
        self.streams.insert(tag, stream);
        stream.number()
    }

    pub(crate) fn get(&mut self, tag: u32) -> u32 {
        self.start("GET", b"", tag)
    }

    pub(crate) fn cancel(&mut self, tag: u32) {
        self.inner.cancel(self.streams[&tag], tag);
    }

    /// Passes these bytes to the client. Returns the events as lines.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Vec<String> {
        let before = self.inner.seen.len();
        self.inner.receive(bytes);
        self.inner.seen[before..]
            .iter()
            .map(TraceEvent::to_string)
            .collect()
    }

    /// Returns the frames in the client's output as lines.
    pub(crate) fn sent(&mut self) -> Vec<String> {
        let before = self.inner.sent.len();
        self.inner.send();
        frames::describe(&self.inner.sent[before..])
    }

    /// Runs a GET to its end, to check that the connection works.
    pub(crate) fn check_works(&mut self) {
        let stream = self.get(999);
        let sent = self.sent();
        assert!(
            sent.last()
                .is_some_and(|line| line.starts_with(&format!("HEADERS {stream}"))),
            "{sent:?}"
        );
        let events = self.receive(&frames::headers(stream, frames::END_STREAM, OK));
        assert_eq!(events, ["999: head 200", "999: end"]);
    }
}

/// Returns the head of a response that consists only of this status.
pub(crate) fn head(stream: u32, status: &str) -> Vec<u8> {
    frames::headers(stream, NO_FLAGS, &frames::block(&[(":status", status)]))
}

/// Converts lines to owned strings.
pub(crate) fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(ToString::to_string).collect()
}
