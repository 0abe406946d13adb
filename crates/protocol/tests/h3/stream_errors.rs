//! Tests of stream errors: the violation, its code, and that other streams and the connection
//! continue.

use prony_protocol::h3::{ConnectionEvent, ErrorCode};

use crate::bodies::h3::drive::{Step, TraceEvent, run};
use crate::bodies::h3::frames::{data, head, headers, section, varints};
use crate::client::{SMALL, established, lines_of};

pub(crate) type Row = (Vec<Step>, &'static str, ErrorCode);

const MESSAGE_ERROR: ErrorCode = ErrorCode::MESSAGE_ERROR;
const EXCESSIVE_LOAD: ErrorCode = ErrorCode::EXCESSIVE_LOAD;

/// Returns steps of a server after those of [`established`].
pub(crate) fn rows() -> Vec<Row> {
    [heads(), excesses(), bodies(), trailers()].concat()
}

fn on(stream: u64, bytes: &[u8]) -> Vec<Step> {
    vec![Step::Bytes(stream, bytes.to_vec())]
}

fn to_end(stream: u64, bytes: &[u8]) -> Vec<Step> {
    vec![Step::Bytes(stream, bytes.to_vec()), Step::Fin(stream)]
}

fn heads() -> Vec<Row> {
    let rows: [(&[(&str, &str)], &str); 12] = [
        (&[], "Malformed(Fields(NoStatus))"),
        (&[("a", "b")], "Malformed(Fields(NoStatus))"),
        (
            &[("a", "b"), (":status", "200")],
            "Malformed(Fields(PseudoHeaderLate))",
        ),
        (
            &[(":status", "200"), (":status", "200")],
            "Malformed(Fields(StatusTwice))",
        ),
        (
            &[(":status", "200"), (":path", "/")],
            "Malformed(Fields(PseudoHeader))",
        ),
        (&[(":status", "20")], "Malformed(Fields(Status))"),
        (
            &[(":status", "200"), ("A", "b")],
            "Malformed(Fields(UppercaseName))",
        ),
        (
            &[(":status", "200"), ("a b", "b")],
            "Malformed(Fields(Name))",
        ),
        (
            &[(":status", "200"), ("a", "\n")],
            "Malformed(Fields(Value))",
        ),
        (
            &[(":status", "200"), ("connection", "close")],
            "Malformed(Fields(ConnectionSpecific))",
        ),
        (
            &[(":status", "200"), ("content-length", "x")],
            "Malformed(Fields(Length))",
        ),
        (
            &[
                (":status", "200"),
                ("content-length", "1"),
                ("content-length", "2"),
            ],
            "Malformed(Fields(LengthsDiffer))",
        ),
    ];
    let row = |(list, violation): (&[(&str, &str)], _)| {
        (on(0, &headers(&section(list))), violation, MESSAGE_ERROR)
    };
    rows.into_iter().map(row).collect()
}

fn excesses() -> Vec<Row> {
    // 1,500 fields that count as 45 bytes each.
    let many = [&b"\0\0\xd9"[..], &[0xe0; 1_500]].concat();
    vec![
        (
            on(0, &head("101")),
            "Malformed(SwitchingProtocols)",
            MESSAGE_ERROR,
        ),
        (
            on(0, &head("103").repeat(33)),
            "Malformed(TooManyInterim { limit: 32 })",
            EXCESSIVE_LOAD,
        ),
        (
            on(0, &varints(&[1, 65_537])),
            "SectionTooLong { limit_bytes: 65536 }",
            EXCESSIVE_LOAD,
        ),
        (
            on(0, &headers(&many)),
            "Malformed(Fields(ListTooLong { limit_bytes: 65536 }))",
            EXCESSIVE_LOAD,
        ),
    ]
}

fn bodies() -> Vec<Row> {
    let length = |length: &str| {
        let fields = [(":status", "200"), ("content-length", length)];
        headers(&section(&fields))
    };
    let too_long = "Malformed(BodyTooLong)";
    let too_short = "Malformed(BodyTooShort)";
    let before_head = "Malformed(DataBeforeHead)";
    vec![
        (vec![Step::Fin(0)], before_head, MESSAGE_ERROR),
        (to_end(0, b"\x21\x00"), before_head, MESSAGE_ERROR),
        (to_end(0, &head("103")), before_head, MESSAGE_ERROR),
        (
            on(0, &[length("2"), data(b"abc")].concat()),
            too_long,
            MESSAGE_ERROR,
        ),
        (
            on(0, &[length("2"), data(b"ab"), data(b"c")].concat()),
            too_long,
            MESSAGE_ERROR,
        ),
        (
            to_end(0, &[length("4"), data(b"abc")].concat()),
            too_short,
            MESSAGE_ERROR,
        ),
        (to_end(0, &length("4")), too_short, MESSAGE_ERROR),
        // A response to HEAD, and statuses without a body.
        (
            on(8, &[length("4"), data(b"abc")].concat()),
            too_long,
            MESSAGE_ERROR,
        ),
        (
            on(0, &[head("204"), data(b"a")].concat()),
            too_long,
            MESSAGE_ERROR,
        ),
        (
            on(0, &[head("304"), data(b"a")].concat()),
            too_long,
            MESSAGE_ERROR,
        ),
        // A CONNECT whose response has a failure status.
        (
            on(12, &[head("502"), head("502")].concat()),
            "Malformed(Fields(PseudoHeaderInTrailers))",
            MESSAGE_ERROR,
        ),
    ]
}

fn trailers() -> Vec<Row> {
    let after = |list: &[(&str, &str)]| {
        on(
            0,
            &[head("200"), data(b"x"), headers(&section(list))].concat(),
        )
    };
    let short = [
        headers(&section(&[(":status", "200"), ("content-length", "2")])),
        data(b"a"),
        headers(&section(&[("a", "b")])),
    ];
    vec![
        (
            after(&[(":status", "200")]),
            "Malformed(Fields(PseudoHeaderInTrailers))",
            MESSAGE_ERROR,
        ),
        (
            after(&[("A", "b")]),
            "Malformed(Fields(UppercaseName))",
            MESSAGE_ERROR,
        ),
        (
            on(0, &short.concat()),
            "Malformed(BodyTooShort)",
            MESSAGE_ERROR,
        ),
    ]
}

#[test]
fn violations_end_the_exchange_only() {
    for (steps, violation, code) in rows() {
        let mut client = crate::bodies::h3::drive::Client::new(SMALL);
        run(&mut client, &established(), std::iter::once);
        run(&mut client, &steps, std::iter::once);
        let Some(TraceEvent::Event(ConnectionEvent::Broken {
            violation: last, ..
        })) = client.seen.last()
        else {
            panic!("no violation in {:?} for {steps:?}", client.seen);
        };
        let found = (format!("{last:?}"), last.code());
        assert_eq!(found, (violation.to_owned(), code), "{steps:?}");
        // Late bytes of the stream are ignored, and its slot is vacant.
        let before = client.seen.len();
        let stream = match &steps[0] {
            Step::Bytes(stream, _) | Step::Fin(stream) => *stream,
            other => panic!("{other:?}"),
        };
        client.receive(stream, &data(b"late"));
        client.finish(stream);
        client.receive(4, &[head("200"), data(b"ok")].concat());
        client.finish(4);
        let next = client.start("GET", b"", 9).expect("a free slot");
        client.receive(next, &head("404"));
        client.finish(next);
        let expected = [
            "ignored",
            "1: head 200",
            "1: body ok",
            "1: end",
            "9: head 404",
            "9: end",
        ];
        assert_eq!(lines_of(&client.seen[before..]), expected);
    }
}
