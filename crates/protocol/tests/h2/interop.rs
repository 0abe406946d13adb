//! Tests of interoperability with another implementation's server, in memory.

use std::collections::HashMap;

use h2::server::{self, SendResponse};
use http::{Request, Response, StatusCode};
use prony_protocol::h1::{RequestSpec, Version};
use prony_protocol::h2::{
    ClientSettings, Connection, ConnectionEvent, EncodedRequest, RequestScheme,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// Runs the server. `/bytes/N` returns N bytes, `/echo` returns the request's body, and `/refuse`
/// resets the stream.
async fn serve(stream: DuplexStream, most_streams: u32) {
    let mut builder = server::Builder::new();
    builder
        .max_concurrent_streams(most_streams)
        .initial_window_size(50_000);
    let mut connection = builder.handshake(stream).await.expect("a handshake");
    while let Some(exchange) = connection.accept().await {
        let (request, respond) = exchange.expect("a valid request");
        tokio::spawn(answer(request, respond));
    }
}

async fn answer(request: Request<h2::RecvStream>, mut respond: SendResponse<bytes::Bytes>) {
    let (parts, mut body) = request.into_parts();
    let mut content = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece.expect("a whole request");
        body.flow_control()
            .release_capacity(piece.len())
            .expect("capacity");
        content.extend_from_slice(&piece);
    }
    let path = parts.uri.path();
    assert_eq!(
        parts.uri.authority().map(|authority| authority.as_str()),
        Some("host")
    );
    if path == "/refuse" {
        return respond.send_reset(h2::Reason::REFUSED_STREAM);
    }
    if let Some(bytes) = path.strip_prefix("/bytes/") {
        content = vec![b'x'; bytes.parse().expect("a number")];
    }
    let length = content.len();
    let head = Response::builder()
        .status(StatusCode::OK)
        .header("content-length", length)
        .header("date", "Thu, 01 Jan 2026 00:00:00 GMT")
        .body(())
        .expect("a head");
    let mut out = respond
        .send_response(head, length == 0)
        .expect("an open stream");
    let mut content = bytes::Bytes::from(content);
    while !content.is_empty() {
        out.reserve_capacity(content.len());
        let capacity = std::future::poll_fn(|context| out.poll_capacity(context)).await;
        let bytes = capacity
            .expect("an open stream")
            .expect("capacity")
            .min(content.len());
        let piece = content.split_to(bytes);
        out.send_data(piece, content.is_empty())
            .expect("an open stream");
    }
}

fn request(method: &str, target: &str, body: &[u8]) -> EncodedRequest {
    let spec = RequestSpec {
        method,
        target,
        version: Version::Http11,
        host: "host",
        headers: &[],
        body,
        keep_alive: true,
    };
    EncodedRequest::new(&spec, RequestScheme::Http).expect("a valid request")
}

/// Client that sends the request repeatedly and counts the bytes of each response.
struct Load {
    connection: Connection,
    request: EncodedRequest,
    left: u32,
    bodies: HashMap<u32, usize>,
    ended: Vec<usize>,
    refused: u32,
}

impl Load {
    fn start(&mut self) {
        while self.left > 0 && self.connection.can_start().is_ok() {
            self.connection
                .start(&self.request, self.left)
                .expect("request may be started");
            self.bodies.insert(self.left, 0);
            self.left -= 1;
        }
    }

    fn receive(&mut self, mut input: &[u8]) {
        loop {
            match self.connection.next(&mut input).expect("no violation") {
                ConnectionEvent::NeedMore => return,
                ConnectionEvent::Head { tag, status, .. } => {
                    assert!(self.bodies.contains_key(&tag) && status == 200);
                }
                ConnectionEvent::Body { tag, bytes } => {
                    *self.bodies.get_mut(&tag).expect("a known tag") += bytes.len();
                }
                ConnectionEvent::End { tag, .. } => self.ended.extend(self.bodies.remove(&tag)),
                ConnectionEvent::Reset {
                    tag, unprocessed, ..
                } => {
                    assert!(unprocessed && self.bodies.remove(&tag).is_some());
                    self.refused += 1;
                }
                ConnectionEvent::Settings | ConnectionEvent::GoAway { .. } => {}
                event => panic!("{event:?}"),
            }
        }
    }

    async fn run(&mut self, mut stream: DuplexStream) {
        let mut input = vec![0; 100_000];
        let mut out = Vec::new();
        loop {
            self.start();
            while self.connection.has_output() {
                out.clear();
                let body = self.request.body();
                self.connection.take_output(&mut out, |_| body);
                stream.write_all(&out).await.expect("an open pipe");
            }
            if self.left == 0 && self.bodies.is_empty() {
                return;
            }
            let bytes = stream.read(&mut input).await.expect("an open pipe");
            assert!(bytes > 0, "the server closed");
            self.receive(&input[..bytes]);
        }
    }
}

fn load(
    settings: ClientSettings,
    most_streams: u32,
    request: EncodedRequest,
    requests: u32,
) -> Load {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let mut load = Load {
        connection: Connection::new(settings),
        request,
        left: requests,
        bodies: HashMap::new(),
        ended: Vec::new(),
        refused: 0,
    };
    runtime.block_on(async {
        let (near, far) = tokio::io::duplex(64 * 1_024);
        let server = tokio::spawn(serve(far, most_streams));
        load.run(near).await;
        server.abort();
    });
    load
}

const SIZES: [usize; 6] = [0, 1, 13, 16_384, 100_000, 10_000_000];

fn settings(streams: u32, header_table_bytes: u32) -> ClientSettings {
    ClientSettings {
        streams,
        header_table_bytes,
        ..Default::default()
    }
}

#[test]
fn bodies_of_all_sizes_come_whole() {
    for bytes in SIZES {
        for (streams, header_table_bytes) in [(1, 4_096), (100, 4_096), (1, 0), (100, 0)] {
            let requests = if bytes > 1_000_000 { 3 } else { 300 };
            let request = request("GET", &format!("/bytes/{bytes}"), b"");
            let load = load(
                settings(streams, header_table_bytes),
                100,
                request,
                requests,
            );
            assert_eq!(
                load.ended,
                vec![bytes; requests as usize],
                "{streams} streams"
            );
        }
    }
}

#[test]
fn small_windows_are_opened_in_time() {
    let small = ClientSettings {
        stream_window_bytes: 0,
        connection_window_bytes: 0,
        ..settings(10, 4_096)
    };
    let load = load(small, 100, request("GET", "/bytes/1000000", b""), 20);
    assert_eq!(load.ended, [1_000_000; 20]);
}

#[test]
fn bodies_of_all_sizes_are_sent_whole() {
    for bytes in SIZES {
        for streams in [1, 100] {
            let requests = if bytes > 1_000_000 { 3 } else { 100 };
            let request = request("POST", "/echo", &vec![b'y'; bytes]);
            let load = load(settings(streams, 4_096), 100, request, requests);
            assert_eq!(
                load.ended,
                vec![bytes; requests as usize],
                "{streams} streams"
            );
        }
    }
}

#[test]
fn the_peers_limit_of_streams_is_respected() {
    // Before the SETTINGS arrive, more requests are started than allowed. The server refuses the
    // additional ones.
    let load = load(
        settings(50, 4_096),
        3,
        request("GET", "/bytes/100", b""),
        200,
    );
    assert_eq!(load.ended.len() as u32 + load.refused, 200);
    assert!(load.refused <= 47, "{} refused", load.refused);
    assert_eq!(load.connection.peer_limit(), Some(3));
}

#[test]
fn refused_requests_are_reported_as_unprocessed() {
    let load = load(settings(5, 4_096), 100, request("GET", "/refuse", b""), 20);
    assert_eq!((load.ended.len(), load.refused), (0, 20));
}
