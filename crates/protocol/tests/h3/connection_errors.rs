//! Tests of connection errors: the violation and its code.

use prony_protocol::h3::ErrorCode;

use crate::bodies::h3::drive::{Step, TraceEvent, trace};
use crate::bodies::h3::frames::{self, data, frame, head, headers, settings, varint, varints};
use crate::client::{CONTROL, DECODER, ENCODER, OTHER, SMALL, established};

pub(crate) type Row = (Vec<Step>, &'static str, ErrorCode);

const UNEXPECTED: ErrorCode = ErrorCode::FRAME_UNEXPECTED;
const FRAME_ERROR: ErrorCode = ErrorCode::FRAME_ERROR;
const ID_ERROR: ErrorCode = ErrorCode::ID_ERROR;
const SETTINGS_ERROR: ErrorCode = ErrorCode::SETTINGS_ERROR;
const CREATION_ERROR: ErrorCode = ErrorCode::STREAM_CREATION_ERROR;
const CLOSED_CRITICAL: ErrorCode = ErrorCode::CLOSED_CRITICAL_STREAM;
const EXCESSIVE_LOAD: ErrorCode = ErrorCode::EXCESSIVE_LOAD;

fn bytes(stream: u64, bytes: &[u8]) -> Step {
    Step::Bytes(stream, bytes.to_vec())
}

fn row(step: Step, violation: &'static str, code: ErrorCode) -> Row {
    (vec![step], violation, code)
}

/// Returns steps of a server after those of [`established`].
pub(crate) fn rows() -> Vec<Row> {
    [
        on_request_streams(),
        on_the_control_stream(),
        goaway(),
        stream_types(),
        closed_streams(),
        qpack(),
    ]
    .concat()
}

fn on_request_streams() -> Vec<Row> {
    let mut rows = vec![
        row(bytes(0, &data(b"x")), "DataBeforeHead", UNEXPECTED),
        row(
            bytes(0, &[head("103"), data(b"x")].concat()),
            "DataBeforeHead",
            UNEXPECTED,
        ),
        // HEADERS on the stream of a CONNECT after its successful response.
        row(
            bytes(12, &[head("200"), data(b"x"), head("200")].concat()),
            "FieldsInTunnel",
            UNEXPECTED,
        ),
        row(bytes(0, &frame(5, b"\0\0\0\xd1")), "Push", ID_ERROR),
    ];
    for (next, violation) in [
        (data(b"x"), "AfterTrailers(Data)"),
        (headers(b"\0\0"), "AfterTrailers(Headers)"),
    ] {
        let response = [head("200"), data(b"x"), headers(b"\0\0\x21a\x01b"), next];
        rows.push(row(bytes(0, &response.concat()), violation, UNEXPECTED));
    }
    for (kind, violation) in [
        (2, "OnRequestStream(Http2(2))"),
        (3, "OnRequestStream(CancelPush)"),
        (4, "OnRequestStream(Settings)"),
        (6, "OnRequestStream(Http2(6))"),
        (7, "OnRequestStream(GoAway)"),
        (8, "OnRequestStream(Http2(8))"),
        (9, "OnRequestStream(Http2(9))"),
        (13, "OnRequestStream(MaxPushId)"),
    ] {
        rows.push(row(bytes(4, &frame(kind, b"\0")), violation, UNEXPECTED));
    }
    // A stream that ends within a frame: in its header, in its payload, or in an unknown frame.
    for part in [
        b"\x01".to_vec(),
        b"\x40".to_vec(),
        b"\x01\x03\0\0".to_vec(),
        b"\x21\x05abc".to_vec(),
        [head("200"), b"\x00\x05abcd".to_vec()].concat(),
        [head("200"), b"\x00\x05".to_vec()].concat(),
    ] {
        let steps = vec![Step::Bytes(0, part), Step::Fin(0)];
        rows.push((steps, "FrameTruncated", FRAME_ERROR));
    }
    rows
}

fn on_the_control_stream() -> Vec<Row> {
    let mut rows = Vec::new();
    for (kind, violation, code) in [
        (0, "OnControlStream(Data)", UNEXPECTED),
        (1, "OnControlStream(Headers)", UNEXPECTED),
        (2, "OnControlStream(Http2(2))", UNEXPECTED),
        (3, "Push", ID_ERROR),
        (4, "SettingsTwice", UNEXPECTED),
        (5, "OnControlStream(PushPromise)", UNEXPECTED),
        (6, "OnControlStream(Http2(6))", UNEXPECTED),
        (8, "OnControlStream(Http2(8))", UNEXPECTED),
        (9, "OnControlStream(Http2(9))", UNEXPECTED),
        (13, "OnControlStream(MaxPushId)", UNEXPECTED),
    ] {
        rows.push(row(bytes(CONTROL, &frame(kind, b"\0")), violation, code));
    }
    let long = varints(&[frames::GOAWAY, 4_097]);
    let too_long = "FrameTooLong { limit_bytes: 4096 }";
    rows.push(row(bytes(CONTROL, &long), too_long, EXCESSIVE_LOAD));
    rows
}

fn goaway() -> Vec<Row> {
    let mut rows = Vec::new();
    for payload in [&b""[..], b"\x40", b"\x04\x00", b"\xc0\0\0\0\0\0\0"] {
        let step = bytes(CONTROL, &frame(frames::GOAWAY, payload));
        rows.push(row(step, "FrameLength(GoAway)", FRAME_ERROR));
    }
    for stream in [1, 2, 3, 7, 401] {
        let step = bytes(CONTROL, &frames::goaway(stream));
        rows.push(row(step, "GoAwayStream", ID_ERROR));
    }
    let increased = [
        frames::goaway(400),
        frames::goaway(400),
        frames::goaway(404),
    ]
    .concat();
    rows.push(row(bytes(CONTROL, &increased), "GoAwayIncreased", ID_ERROR));
    rows
}

fn stream_types() -> Vec<Row> {
    let twice = |kind: u64| {
        vec![
            Step::Bytes(ENCODER, varint(kind)),
            Step::Bytes(OTHER, varint(kind)),
        ]
    };
    vec![
        row(bytes(1, b"\0"), "ServerBidirectional", CREATION_ERROR),
        row(bytes(5, b""), "ServerBidirectional", CREATION_ERROR),
        row(Step::Fin(1), "ServerBidirectional", CREATION_ERROR),
        row(Step::Reset(1, 0x100), "ServerBidirectional", CREATION_ERROR),
        row(
            bytes(OTHER, b"\x00"),
            "StreamTwice(Control)",
            CREATION_ERROR,
        ),
        // A longer encoding of the same stream type.
        row(
            bytes(OTHER, b"\x80\0\0\0"),
            "StreamTwice(Control)",
            CREATION_ERROR,
        ),
        (twice(2), "StreamTwice(Encoder)", CREATION_ERROR),
        (twice(3), "StreamTwice(Decoder)", CREATION_ERROR),
        row(bytes(OTHER, b"\x01\0"), "Push", ID_ERROR),
    ]
}

fn closed_streams() -> Vec<Row> {
    let mut rows = vec![
        row(
            Step::Fin(CONTROL),
            "CriticalClosed(Control)",
            CLOSED_CRITICAL,
        ),
        row(
            Step::Reset(CONTROL, 0x100),
            "CriticalClosed(Control)",
            CLOSED_CRITICAL,
        ),
    ];
    for (kind, violation) in [
        (b"\x02", "CriticalClosed(Encoder)"),
        (b"\x03", "CriticalClosed(Decoder)"),
    ] {
        for end in [Step::Fin(ENCODER), Step::Reset(ENCODER, 0)] {
            let steps = vec![bytes(ENCODER, kind), end];
            rows.push((steps, violation, CLOSED_CRITICAL));
        }
    }
    for stream in [2, 6, 10] {
        rows.push(row(Step::Stop(stream), "CriticalStopped", CLOSED_CRITICAL));
    }
    rows
}

fn qpack() -> Vec<Row> {
    let section = ErrorCode::QPACK_DECOMPRESSION_FAILED;
    let encoder = ErrorCode::QPACK_ENCODER_STREAM_ERROR;
    let decoder = ErrorCode::QPACK_DECODER_STREAM_ERROR;
    let mut rows = vec![
        row(bytes(0, &headers(b"")), "Section(Truncated)", section),
        row(bytes(0, &headers(b"\0")), "Section(Truncated)", section),
        row(
            bytes(0, &headers(b"\0\0\xff\x24")),
            "Section(Index)",
            section,
        ),
        row(
            bytes(0, &headers(b"\x02\0\x80")),
            "Section(Blocked)",
            section,
        ),
        row(
            bytes(ENCODER, b"\x02\x3f\xe2\x1f"),
            "EncoderStream(CapacityTooLarge)",
            encoder,
        ),
        row(
            bytes(ENCODER, b"\x02\x41a\x01b"),
            "EncoderStream(EntryTooLarge)",
            encoder,
        ),
        row(bytes(ENCODER, b"\x02\x00"), "EncoderStream(Index)", encoder),
    ];
    // Acknowledgments, increments, and an endless integer.
    for instruction in [&b"\x03\x80"[..], b"\x03\x01", b"\x03\x44\x00"] {
        rows.push(row(bytes(DECODER, instruction), "DecoderStream", decoder));
    }
    let endless = [&b"\x03\x7f"[..], &[0x80; 10]].concat();
    rows.push(row(bytes(DECODER, &endless), "DecoderStream", decoder));
    rows
}

/// Returns steps of a server on a new connection.
pub(crate) fn opening_rows() -> Vec<Row> {
    let missing = ErrorCode::MISSING_SETTINGS;
    let mut rows = Vec::new();
    for kind in [0, 1, 2, 3, 5, 6, 7, 13, 0x21] {
        let step = bytes(CONTROL, &[&b"\0"[..], &frame(kind, b"\0")].concat());
        rows.push(row(step, "NoSettings", missing));
    }
    for (list, violation) in [
        ([(2, 0), (6, 1)], "Http2Setting(2)"),
        ([(6, 1), (3, 0)], "Http2Setting(3)"),
        ([(6, 1), (4, 0)], "Http2Setting(4)"),
        ([(6, 1), (5, 0)], "Http2Setting(5)"),
        ([(6, 1), (6, 1)], "SettingTwice(6)"),
    ] {
        let step = Step::Bytes(CONTROL, frames::control(&list));
        rows.push(row(step, violation, SETTINGS_ERROR));
    }
    for payload in [&b"\x06"[..], b"\x06\x80\0", b"\x40"] {
        let step = bytes(
            CONTROL,
            &[&b"\0"[..], &frame(frames::SETTINGS, payload)].concat(),
        );
        rows.push(row(step, "FrameLength(Settings)", FRAME_ERROR));
    }
    let long = [&b"\0"[..], &varints(&[frames::SETTINGS, 4_097])].concat();
    let too_long = "FrameTooLong { limit_bytes: 4096 }";
    rows.push(row(bytes(CONTROL, &long), too_long, EXCESSIVE_LOAD));
    rows
}

fn check(steps: &[Step], violation: &str, code: ErrorCode) {
    let (seen, ..) = trace(SMALL, steps, std::iter::once);
    let Some(TraceEvent::Violation(last)) = seen.last() else {
        panic!("no violation in {seen:?} for {steps:?}");
    };
    assert_eq!(
        (format!("{last:?}").as_str(), last.code()),
        (violation, code)
    );
}

#[test]
fn violations_end_the_connection() {
    for (steps, violation, code) in rows() {
        check(&[established(), steps].concat(), violation, code);
    }
    for (steps, violation, code) in opening_rows() {
        check(&steps, violation, code);
    }
}

#[test]
fn settings_are_valid_only_on_the_control_stream() {
    let on_request = vec![Step::Start("GET", 0), Step::Bytes(0, settings(&[]))];
    check(&on_request, "OnRequestStream(Settings)", UNEXPECTED);
}
