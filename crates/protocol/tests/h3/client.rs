//! A client under test and its scripted server. Events and frames are represented as short lines.

use prony_protocol::h3::ClientSettings;

use crate::bodies::h3::drive::{self, Step, TraceEvent};
use crate::bodies::h3::frames;

/// Settings for a few streams.
pub(crate) const SMALL: ClientSettings = ClientSettings {
    streams: 4,
    header_table_bytes: 4_096,
};

/// Identifiers of the server's streams.
pub(crate) const CONTROL: u64 = 3;
pub(crate) const ENCODER: u64 = 7;
pub(crate) const DECODER: u64 = 11;
pub(crate) const OTHER: u64 = 15;

/// A client with an established connection.
pub(crate) struct Client {
    pub(crate) inner: drive::Client,
}

impl Client {
    pub(crate) fn new() -> Client {
        Client::with(SMALL, &[])
    }

    pub(crate) fn with(settings: ClientSettings, peer: &[(u64, u64)]) -> Client {
        let mut client = Client::fresh(settings);
        let events = client.receive(CONTROL, &frames::control(peer));
        assert_eq!(events, ["settings"]);
        client.inner.send();
        client
    }

    /// Creates a client that has received nothing yet.
    pub(crate) fn fresh(settings: ClientSettings) -> Client {
        Client {
            inner: drive::Client::new(settings),
        }
    }

    /// Starts a request; returns its stream.
    pub(crate) fn start(&mut self, method: &str, tag: u32) -> u64 {
        let stream = self.inner.start(method, b"", tag);
        stream.expect("request can be started")
    }

    pub(crate) fn get(&mut self, tag: u32) -> u64 {
        self.start("GET", tag)
    }

    /// Passes these bytes on a stream to the client. Returns the events as lines.
    pub(crate) fn receive(&mut self, stream: u64, bytes: &[u8]) -> Vec<String> {
        self.step(|client| client.receive(stream, bytes))
    }

    /// Ends a stream. Returns the events as lines.
    pub(crate) fn finish(&mut self, stream: u64) -> Vec<String> {
        self.step(|client| client.finish(stream))
    }

    /// Passes these bytes, which end the stream. Returns the events as lines.
    pub(crate) fn respond(&mut self, stream: u64, bytes: &[u8]) -> Vec<String> {
        self.step(|client| {
            client.receive(stream, bytes);
            client.finish(stream);
        })
    }

    /// Runs a step of the test. Returns the events as lines.
    pub(crate) fn step(&mut self, run: impl FnOnce(&mut drive::Client)) -> Vec<String> {
        let before = self.inner.seen.len();
        run(&mut self.inner);
        lines_of(&self.inner.seen[before..])
    }

    /// Returns the new output on the decoder stream.
    pub(crate) fn decoder_output(&mut self) -> Vec<u8> {
        let before = self.inner.decoder.len();
        self.inner.send();
        self.inner.decoder[before..].to_vec()
    }

    /// Runs a GET to its end, to check that the connection works.
    pub(crate) fn check_works(&mut self) {
        let stream = self.get(999);
        let events = self.respond(stream, &frames::headers(frames::OK));
        assert_eq!(events, ["999: head 200", "999: end"]);
    }
}

pub(crate) fn lines_of(seen: &[TraceEvent]) -> Vec<String> {
    seen.iter().map(TraceEvent::to_string).collect()
}

/// Returns the steps that precede those in a row of a test table. They establish a connection with
/// GET on streams 0 and 4, HEAD on 8 and CONNECT on 12; the tags are 0 to 3.
pub(crate) fn established() -> Vec<Step> {
    let methods = (0..).zip(["GET", "GET", "HEAD", "CONNECT"]);
    let starts = methods.map(|(tag, method)| Step::Start(method, tag));
    let mut steps = vec![Step::Bytes(CONTROL, frames::control(&[]))];
    steps.extend(starts);
    steps
}
