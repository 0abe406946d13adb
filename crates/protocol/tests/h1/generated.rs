//! Tests of generated responses, both valid and invalid, and a comparison with another parser.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use prony_protocol::h1::{Expects, Framing, Limits, ResponseParser, Version};

use crate::answer;
use crate::bodies::drive::{ExchangeEnd, drive, pieces};

/// A response that a correct server might send.
#[derive(Debug, Clone)]
struct Answer {
    interims: Vec<u16>,
    version: Version,
    status: u16,
    reason: String,
    fields: Vec<(String, String)>,
    connection: Option<&'static str>,
    body: Body,
}

#[derive(Debug, Clone)]
enum Body {
    Length(Vec<u8>),
    /// A body in chunks, each with an extension, and trailers.
    Chunks(Vec<(Vec<u8>, String)>, Vec<(String, String)>),
    UntilClose(Vec<u8>),
}

impl Answer {
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for status in &self.interims {
            out.extend_from_slice(format!("HTTP/1.1 {status} Hold on\r\nA: b\r\n\r\n").as_bytes());
        }
        let version = if self.version == Version::Http10 {
            "1.0"
        } else {
            "1.1"
        };
        let (status, reason) = (self.status, &self.reason);
        out.extend_from_slice(format!("HTTP/{version} {status} {reason}\r\n").as_bytes());
        let half = self.fields.len() / 2;
        write_fields(&mut out, &self.fields[..half]);
        match &self.body {
            Body::Length(body) => {
                out.extend_from_slice(format!("content-Length: {}\r\n", body.len()).as_bytes());
            }
            Body::Chunks(..) => out.extend_from_slice(b"Transfer-encoding:chunked\r\n"),
            Body::UntilClose(_) => {}
        }
        if let Some(connection) = self.connection {
            out.extend_from_slice(format!("Connection: {connection}\r\n").as_bytes());
        }
        write_fields(&mut out, &self.fields[half..]);
        out.extend_from_slice(b"\r\n");
        match &self.body {
            Body::Length(body) | Body::UntilClose(body) => out.extend_from_slice(body),
            Body::Chunks(chunks, trailers) => {
                for (chunk, extension) in chunks {
                    let line = format!("{:X}{extension}\r\n", chunk.len());
                    out.extend_from_slice(line.as_bytes());
                    out.extend_from_slice(chunk);
                    out.extend_from_slice(b"\r\n");
                }
                out.extend_from_slice(b"0\r\n");
                write_fields(&mut out, trailers);
                out.extend_from_slice(b"\r\n");
            }
        }
        out
    }

    fn content(&self) -> Vec<u8> {
        match &self.body {
            Body::Length(body) | Body::UntilClose(body) => body.clone(),
            Body::Chunks(chunks, _) => chunks.iter().flat_map(|(chunk, _)| chunk.clone()).collect(),
        }
    }

    fn reusable(&self) -> bool {
        match (self.connection, self.version) {
            _ if matches!(self.body, Body::UntilClose(_)) => false,
            (Some("keep-alive"), _) | (None, Version::Http11) => true,
            _ => false,
        }
    }
}

fn write_fields(out: &mut Vec<u8>, fields: &[(String, String)]) {
    for (name, value) in fields {
        out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
}

fn fields() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec(
        (
            "x-[!#-'*+.0-9A-Z^-z|~-]{0,20}",
            "[\t -~\u{80}-\u{2ff}]{0,40}",
        ),
        0..8,
    )
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..most)
}

fn chunks() -> impl Strategy<Value = Vec<(Vec<u8>, String)>> {
    let chunk = prop::collection::vec(any::<u8>(), 1..300);
    prop::collection::vec((chunk, "( ?;[a-z]{1,9}(=\"[ -~&&[^\"]]{0,9}\")?)?"), 0..6)
}

fn answers() -> impl Strategy<Value = Answer> {
    let body = prop_oneof![
        bytes(2000).prop_map(Body::Length),
        (chunks(), fields()).prop_map(|(chunks, trailers)| Body::Chunks(chunks, trailers)),
        bytes(2000).prop_map(Body::UntilClose),
    ];
    let status = prop_oneof![200u16..204, 205u16..304, 305u16..=999];
    let interims = prop::collection::vec(prop_oneof![Just(100u16), 102u16..200], 0..3);
    let connection = prop::option::of(prop_oneof![Just("close"), Just("keep-alive")]);
    (
        interims,
        any::<bool>(),
        status,
        "[ -~\u{80}-\u{2ff}]{0,20}",
        fields(),
        connection,
        body,
    )
        .prop_map(
            |(interims, old, status, reason, fields, connection, body)| {
                // HTTP/1.0 has no chunked coding.
                let old = old && !matches!(body, Body::Chunks(..));
                let version = if old {
                    Version::Http10
                } else {
                    Version::Http11
                };
                Answer {
                    interims,
                    version,
                    status,
                    reason,
                    fields,
                    connection,
                    body,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..Default::default() })]

    #[test]
    fn valid_answers_are_read_back(answer in answers(), steps in bytes(6)) {
        let bytes = answer.bytes();
        let mut parser = ResponseParser::new(Limits::default());
        let trace = drive(&mut parser, Expects::Body, pieces(&bytes, &steps));
        let head = trace.head.expect("a head");
        prop_assert_eq!(trace.interims, answer.interims.clone());
        prop_assert_eq!((head.status, head.version), (answer.status, answer.version));
        prop_assert_eq!(trace.body, answer.content());
        prop_assert_eq!(trace.left, 0);
        let ending = match head.framing {
            Framing::UntilClose => ExchangeEnd::Eof(prony_protocol::h1::Eof::Complete),
            _ => ExchangeEnd::End { reusable: answer.reusable() },
        };
        prop_assert_eq!(trace.ending, ending);
    }

    #[test]
    fn a_valid_answer_cut_short_is_never_complete(answer in answers(), cut in any::<prop::sample::Index>()) {
        prop_assume!(!matches!(answer.body, Body::UntilClose(_)));
        let bytes = answer.bytes();
        let trace = self::answer(Expects::Body, &bytes[..cut.index(bytes.len())]);
        prop_assert!(matches!(trace.ending, ExchangeEnd::Eof(_)), "{}", trace);
    }

    #[test]
    fn any_bytes_are_judged_alike_however_split(data in bytes(300)) {
        crate::bodies::response::run(&data);
        crate::bodies::operations::run(&data);
    }

    #[test]
    fn any_bytes_after_a_status_line_too(choice in any::<[u8; 5]>(), rest in "(HTTP/1.1 (100|200|204) (OK)?\r\n)?((Content-Length|Transfer-Encoding|Connection|[A-z]{1,3}): ?([0-9]{1,3}|chunked|close|, ?|[\0-\u{ff}]{0,3}){0,3}\r?\n){0,4}\r?\n([0-9a-f]{1,2}(;[ -~]{0,3})?\r?\n[\0-\u{ff}]{0,5}\r?\n?){0,3}") {
        crate::bodies::response::run(&[choice.as_slice(), rest.as_bytes()].concat());
    }

    #[test]
    fn any_parts_make_one_request_or_none(choice in any::<u8>(), parts in "(GET|POST|[!-~]{1,4}|[ -~]{0,3})\\|(/|\\*|http://a/)?[!-~&&[^|#]]{0,9}\\|[a-z0-9:.]{0,9}\\|[ -~&&[^|]]{0,20}(\\|(Host|Content-Length|Transfer-Encoding|Connection|[!-~&&[^|]]{1,5})\\|([0-9]|chunked|[\t -~\u{80}-\u{2ff}&&[^|]]{0,9})){0,4}") {
        crate::bodies::request::run(&[&[choice], parts.as_bytes()].concat());
    }

    /// Tests that httparse accepts the same heads, except for folded lines and minor versions that
    /// it doesn't support.
    #[test]
    fn another_parser_agrees_on_heads(rest in "HTTP/1.[01] ?[0-9]{2,4}( [\t -~]{0,5})?\r?\n([A-z0-9 :()-]{0,5}: ?[\0-\u{ff}]{0,3}\r?\n){0,4}\r?\n") {
        let trace = self::answer(Expects::NoBody, rest.as_bytes());
        let mut headers = [httparse::EMPTY_HEADER; 16];
        let mut other = httparse::Response::new(&mut headers);
        let config = {
            let mut config = httparse::ParserConfig::default();
            config.allow_obsolete_multiline_headers_in_responses(true);
            config
        };
        let parsed = config.parse_response(&mut other, rest.as_bytes());
        match (trace.ending, parsed) {
            (ExchangeEnd::End { .. }, Ok(httparse::Status::Complete(_))) => {
                prop_assert_eq!(trace.head.map(|head| head.status), other.code);
            }
            (ExchangeEnd::End { .. }, parsed) => prop_assert!(false, "httparse fails: {parsed:?}"),
            (ExchangeEnd::Violation(violation), Ok(_)) => {
                use prony_protocol::h1::Violation::*;
                let stricter = matches!(violation, SpaceBeforeFields);
                prop_assert!(stricter, "only httparse accepts: {violation}");
            }
            _ => {}
        }
    }
}
