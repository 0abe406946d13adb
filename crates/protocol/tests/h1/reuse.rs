//! Tests that reuse one parser for many exchanges on a connection.

use prony_protocol::h1::{Eof, Expects, Limits, ResponseEvent, ResponseParser, Version, Violation};

fn parser() -> ResponseParser {
    ResponseParser::new(Limits::default())
}

#[test]
fn two_responses_in_one_buffer_are_two_exchanges() {
    let mut parser = parser();
    let mut input: &[u8] =
        b"HTTP/1.1 204 \r\n\r\nHTTP/1.0 404 No\r\nContent-Length: 2\r\nX: y\r\n\r\nno";
    parser.start(Expects::Body);
    assert!(matches!(parser.next(&mut input), Ok(ResponseEvent::Head(head)) if head.status == 204));
    assert_eq!(
        parser.next(&mut input),
        Ok(ResponseEvent::End { reusable: true })
    );
    parser.start(Expects::Body);
    assert!(!parser.started());
    let Ok(ResponseEvent::Head(head)) = parser.next(&mut input) else {
        panic!("a head")
    };
    assert_eq!(
        (head.status, head.version, head.length),
        (404, Version::Http10, Some(2))
    );
    assert_eq!(parser.next(&mut input), Ok(ResponseEvent::Body(b"no")));
    assert_eq!(
        parser.next(&mut input),
        Ok(ResponseEvent::End { reusable: false })
    );
}

#[test]
fn unsolicited_bytes_are_a_violation() {
    let mut parser = parser();
    let mut nothing: &[u8] = b"";
    assert_eq!(parser.next(&mut nothing), Ok(ResponseEvent::NeedMore));
    assert_eq!(parser.eof(), Eof::Idle);
    let mut input: &[u8] = b"HTTP/1.1 408 Request Timeout\r\n\r\n";
    assert_eq!(parser.next(&mut input), Err(Violation::BytesAfterEnd));

    parser.start(Expects::Body);
    let mut input: &[u8] = b"HTTP/1.1 204 \r\n\r\n\r\n";
    assert!(matches!(
        parser.next(&mut input),
        Ok(ResponseEvent::Head(_))
    ));
    assert_eq!(
        parser.next(&mut input),
        Ok(ResponseEvent::End { reusable: true })
    );
    assert_eq!(parser.next(&mut nothing), Ok(ResponseEvent::NeedMore));
    assert_eq!(parser.next(&mut input), Err(Violation::BytesAfterEnd));
    assert_eq!(parser.next(&mut nothing), Err(Violation::BytesAfterEnd));
}

#[test]
fn a_start_discards_the_previous_state() {
    let broken: [&[u8]; 8] = [
        b"HT",
        b"\x15",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhe",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrail",
        b"HTTP/1.1 200 OK\r\n\r\nhello",
        b"garbage",
    ];
    let mut parser = parser();
    parser.start(Expects::Body);
    let fresh = format!("{parser:?}");
    for broken in broken {
        for mut piece in broken.chunks(1) {
            while !matches!(
                parser.next(&mut piece),
                Ok(ResponseEvent::NeedMore) | Err(_)
            ) {}
        }
        parser.start(Expects::Body);
        assert_eq!(format!("{parser:?}"), fresh, "{}", broken.escape_ascii());
    }
}

#[test]
fn the_meaning_of_a_close_depends_on_the_input_before() {
    let mut parser = parser();
    parser.start(Expects::Body);
    assert_eq!((parser.eof(), parser.started()), (Eof::Idle, false));
    let mut input: &[u8] = b"H";
    assert_eq!(parser.next(&mut input), Ok(ResponseEvent::NeedMore));
    assert_eq!((parser.eof(), parser.started()), (Eof::Truncated, true));

    parser.start(Expects::Body);
    let mut input: &[u8] = b"HTTP/1.1 200 OK\r\n\r\nall";
    assert!(
        matches!(parser.next(&mut input), Ok(ResponseEvent::Head(head)) if head.length.is_none())
    );
    assert_eq!(parser.next(&mut input), Ok(ResponseEvent::Body(b"all")));
    assert_eq!(parser.next(&mut input), Ok(ResponseEvent::NeedMore));
    assert_eq!(parser.eof(), Eof::Complete);
    assert_eq!(parser.eof(), Eof::Idle);
}
