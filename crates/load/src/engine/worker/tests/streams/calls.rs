//! gRPC calls, against servers in memory that follow gRPC's rules or break them.

use prony_protocol::grpc::write_message;
use prony_record::Outcome;

use super::server::{self, END_STREAM, OK, data, field};
use super::*;

const END_HEADERS: u8 = 0x4;

fn fields(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    let encoded = fields.iter().flat_map(|(name, value)| field(name, value));
    let head = if fields.iter().any(|(name, _)| *name == "content-type") {
        vec![OK]
    } else {
        Vec::new()
    };
    let block: Vec<u8> = head.into_iter().chain(encoded).collect();
    server::frame(server::HEADERS, flags | END_HEADERS, stream, &block)
}

const GRPC: (&str, &str) = ("content-type", "application/grpc");

fn head(stream: u32) -> Vec<u8> {
    fields(stream, 0, &[GRPC])
}

fn trailers(stream: u32, status: &str) -> Vec<u8> {
    fields(stream, END_STREAM, &[("grpc-status", status)])
}

fn message(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_message(text, false, &mut bytes);
    bytes
}

/// The settings of a load that calls a method of the proto file.
fn call_spec(words: &str) -> LoadSpec {
    let mut file = tempfile::Builder::new()
        .suffix(".proto")
        .tempfile()
        .unwrap();
    let text = "syntax = \"proto3\"; package shop; message Item { string name = 1; int32 n = 2; }
        service Cart { rpc Add(Item) returns (Item); rpc Watch(Item) returns (stream Item);
        rpc AddAll(stream Item) returns (Item); }";
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    spec(&format!("--proto {} {words}", file.path().display()))
}

fn call(words: &str, response: impl FnMut(&Call) -> Steps + 'static) -> Outcomes {
    let server = ScriptedH2Server::new(response);
    simulate(&call_spec(words), vec![Box::new(server)])
}

/// The name of the outcome that all calls have, and the text of the finding about it.
fn outcome(outcomes: &Outcomes) -> (&'static str, String) {
    let all = outcomes.all();
    assert_eq!(all.len(), 1, "{all:?}");
    let text = outcomes.finding("errors").unwrap_or_default();
    (all[0].0.name(), text.to_owned())
}

#[test]
fn a_call_has_the_messages_and_fields_of_grpc() {
    let spec = call_spec("--grpc shop.Cart/Add --body {\"name\":\"tea\",\"n\":300} --timeout 2s");
    let request = &spec.requests[0];
    assert_eq!(request.name, "POST http://127.0.0.1:1/shop.Cart/Add");
    let body = request.encodings.http2().unwrap().body();
    assert_eq!(body, b"\0\0\0\0\x08\x0a\x03tea\x10\xac\x02");
    let list = call_spec("--grpc shop.Cart/AddAll --body [{\"n\":1},{},{\"n\":2}]");
    let body = list.requests[0].encodings.http2().unwrap().body();
    assert_eq!(body, b"\0\0\0\0\x02\x10\x01\0\0\0\0\0\0\0\0\0\x02\x10\x02");
    assert_eq!(list.info().http, "2");
    assert_eq!(list.info().grpc.as_deref(), Some("shop.Cart/AddAll"));
}

#[test]
fn a_call_fails_by_name_if_the_response_breaks_the_rules() {
    let valid = message(b"\x10\x01");
    let compressed = [&[1][..], &valid[1..]].concat();
    type Parts = Vec<Vec<u8>>;
    let whole = |body: &[u8], status: &str| -> Parts {
        vec![head(1), data(1, body, 0), trailers(1, status)]
    };
    let cases: Vec<(&str, Parts)> = vec![
        ("ok", whole(&valid, "0")),
        ("ok", whole(&message(b""), "0")),
        ("grpc_unavailable", whole(b"", "14")),
        ("grpc_unavailable", whole(&valid[..3], "14")),
        ("grpc_unknown", whole(b"", "2")),
        (
            "grpc_not_found",
            vec![fields(1, END_STREAM, &[GRPC, ("grpc-status", "5")])],
        ),
        ("grpc_message_count", whole(b"", "0")),
        ("grpc_message_count", whole(&valid.repeat(2), "0")),
        (
            "grpc_message_count",
            vec![fields(1, END_STREAM, &[GRPC, ("grpc-status", "0")])],
        ),
        ("grpc_frame", whole(&valid[..6], "0")),
        ("grpc_frame", whole(&valid[..4], "0")),
        ("grpc_frame", whole(&[2, 0, 0, 0, 0], "0")),
        ("grpc_compression", whole(&compressed, "0")),
        (
            "grpc_message_size",
            whole(&[0, 0xff, 0xff, 0xff, 0xff, 1], "0"),
        ),
        ("grpc_message_size", whole(&message(&[7; 65]), "0")),
        ("grpc_no_status", vec![head(1), data(1, &valid, END_STREAM)]),
        (
            "grpc_no_status",
            vec![
                head(1),
                data(1, &valid, 0),
                fields(1, END_STREAM, &[("x", "y")]),
            ],
        ),
        ("grpc_no_status", whole(&valid, "zero")),
        (
            "grpc_trailers",
            vec![
                fields(1, 0, &[GRPC, ("grpc-status", "0")]),
                data(1, &valid, END_STREAM),
            ],
        ),
        (
            "grpc_content_type",
            vec![
                fields(1, 0, &[("content-type", "text/html")]),
                data(1, b"<html>", END_STREAM),
            ],
        ),
        // The frames of HTTP/2 themselves are out of order.
        (
            "protocol",
            vec![
                head(1),
                data(1, &valid, 0),
                fields(1, 0, &[("grpc-status", "0")]),
            ],
        ),
    ];
    for (expected, parts) in cases {
        for is_split in [false, true] {
            let bytes = parts.concat();
            let words = "-c 1 -n 1 --grpc shop.Cart/Add --grpc-message-max 64";
            let outcomes = call(words, move |_| {
                if is_split {
                    let steps = bytes.iter().enumerate();
                    let steps = steps.map(|(at, byte)| (ms(at as u64), Step::Send(vec![*byte])));
                    steps.collect()
                } else {
                    after(ms(1), bytes.clone())
                }
            });
            assert_eq!(outcome(&outcomes).0, expected, "{parts:?}");
        }
    }
}

#[test]
fn the_servers_explanation_is_reported() {
    let explained = |explanation: &'static str| {
        let outcomes = call("-c 1 -n 4 --grpc shop.Cart/Add", move |call| {
            let status = [("grpc-status", "14"), ("grpc-message", explanation)];
            let end = fields(call.stream, END_STREAM, &status);
            after(ms(1), [head(call.stream), end].concat())
        });
        outcome(&outcomes).1
    };
    let text = explained("no%20tea%0a%e2%82%ac%zz%");
    assert!(
        text.contains("UNAVAILABLE (14): \"no tea €%zz%\" (4×)"),
        "{text}"
    );
    assert!(explained("").contains("UNAVAILABLE (14) (4×)"));
    // Each call has another explanation: the first ones are named, and none is lost.
    let server = ScriptedH2Server::new(|call: &Call| {
        let number = format!("call {}", call.stream);
        let status = [GRPC, ("grpc-status", "14"), ("grpc-message", &number)];
        after(ms(1), fields(call.stream, END_STREAM, &status))
    });
    let spec = call_spec("-c 1 -n 100 --grpc shop.Cart/Add");
    let outcomes = simulate(&spec, vec![Box::new(server)]);
    let (name, text) = outcome(&outcomes);
    assert_eq!((name, outcomes.all()[0].1), ("grpc_unavailable", 100));
    assert!(text.contains("\"call 1\" (1×)"), "{text}");
}

#[test]
fn compressed_messages_are_accepted_if_the_call_asks_for_them() {
    let body = [&[1][..], &message(b"gz")[1..]].concat();
    let words = "-c 1 -n 2 --grpc shop.Cart/Add --grpc-gzip";
    let outcomes = call(words, move |call| {
        let stream = call.stream;
        let parts = [head(stream), data(stream, &body, 0), trailers(stream, "0")];
        after(ms(1), parts.concat())
    });
    assert_eq!(outcome(&outcomes).0, "ok");
}

#[test]
fn the_messages_of_a_stream_have_times() {
    let words = "-c 1 --streams 2 -n 6 --grpc shop.Cart/Watch";
    let outcomes = call(words, |call| {
        let stream = call.stream;
        let part = |at, bytes: Vec<u8>| (ms(at), Step::Send(bytes));
        let two = message(b"ab").repeat(2);
        let (first, rest) = two.split_at(9);
        vec![
            part(5, head(stream)),
            part(20, data(stream, first, 0)),
            part(50, data(stream, rest, 0)),
            part(60, trailers(stream, "0")),
        ]
    });
    assert_eq!(outcomes.all(), [(Outcome::Ok, 6)]);
    let events = outcomes.record.events.as_ref().unwrap();
    assert_eq!((events.events, events.events_per_response), (12, Some(2.0)));
    assert_us(events.first_event_us.min, 20_000);
    assert_us(events.first_event_us.max, 20_000);
    assert_us(events.event_gap_us.p50, 30_000);
    assert_us(outcomes.record.response_time_us.p50, 60_000);
}

#[test]
fn a_stream_of_messages_stalls_or_ends_without_any() {
    let words = "-c 1 -n 1 --grpc shop.Cart/Watch --gap-timeout 50ms";
    let stalled = call(words, |call| {
        let part = |at, bytes: Vec<u8>| (ms(at), Step::Send(bytes));
        vec![
            part(
                1,
                [head(call.stream), data(call.stream, &message(b"a"), 0)].concat(),
            ),
            part(500, trailers(call.stream, "0")),
        ]
    });
    assert_eq!(stalled.all(), [(Outcome::Stalled, 1)]);
    let empty = call(words, |call| {
        after(
            ms(1),
            [head(call.stream), trailers(call.stream, "0")].concat(),
        )
    });
    assert_eq!(empty.all(), [(Outcome::Ok, 1)]);
    let failed = call(words, |call| {
        let parts = [head(call.stream), data(call.stream, &message(b"a"), 0)];
        after(ms(1), [parts.concat(), trailers(call.stream, "8")].concat())
    });
    assert_eq!(outcome(&failed).0, "grpc_resource_exhausted");
}
