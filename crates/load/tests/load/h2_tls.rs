//! Tests of HTTP/2 over TLS: ALPN results, and the ways in which TLS may end the connection.

use std::io::Write;

use prony_record::Outcome::{ClosedEarly, Ok as Fine, Protocol, Reset, Tls, Truncated};

use crate::h2_frames::*;
use crate::h2_peer::Peer;
use crate::h2_server::{Scripted, expect};
use crate::harness::{errors, load, outcomes};

fn serve(peer: &mut Peer) -> Option<()> {
    peer.send_settings(&[])?;
    loop {
        let stream = peer.request()?;
        peer.send(&response(stream, b"fine"))?;
    }
}

#[test]
fn the_protocol_that_alpn_selects_is_used() {
    let server = Scripted::secured(&["h2", "http/1.1"], serve);
    for version in ["1.2", "1.3"] {
        let words = format!("-n 30 -c 2 --streams 4 --tls-min {version} --tls-max {version}");
        let record = server.load(&words);
        expect(&record, &[(Fine, 30)], "");
        assert_eq!(record.negotiated.http.as_deref(), Some("2"));
        assert_eq!(record.negotiated.alpn.as_deref(), Some("h2"));
    }
    // ALPN negotiates HTTP/2 even if no flag requests it.
    let record = load(&server.tls_url(), "-n 30 -c 2 --streams 4 --insecure");
    expect(&record, &[(Fine, 30)], "");
    assert_eq!(record.negotiated.http.as_deref(), Some("2"));
}

#[test]
fn a_server_that_selects_an_unsupported_protocol() {
    // The server doesn't support ALPN, so no protocol is negotiated.
    let server = Scripted::secured(&[], |peer| peer.read_to_end());
    let record = server.load("-n 6 -c 2 --streams 3");
    expect(&record, &[(Protocol, 6)], "HTTP/2");
    // The server supports HTTP/1.1 only, and sends an alert.
    let server = Scripted::secured(&["http/1.1"], |peer| peer.read_to_end());
    let record = server.load("-n 6 -c 2 --streams 3");
    assert!(
        matches!(outcomes(&record)[..], [(Protocol | Tls, 6)]),
        "{:?}: {}",
        outcomes(&record),
        errors(&record)
    );
    let reasons = errors(&record).to_lowercase();
    assert!(
        reasons.contains("application") || reasons.contains("alpn"),
        "{reasons}"
    );
}

#[test]
fn connections_that_end_with_or_without_goaway() {
    for (part, outcome) in [
        ((|_| Vec::new()) as FrameBuilder, ClosedEarly),
        (half, Truncated),
    ] {
        for goodbye in [true, false] {
            let server = Scripted::secured(&["h2"], move |peer| {
                peer.send_settings(&[])?;
                for stream in peer.requests(3)? {
                    peer.send(&part(stream))?;
                }
                if goodbye {
                    let (tls, tcp) = peer.tls()?;
                    tls.send_close_notify();
                    while tls.wants_write() {
                        tls.write_tls(tcp).ok()?;
                    }
                }
                peer.close()
            });
            let record = server.load("-n 3 -c 1 --streams 3");
            expect(&record, &[(outcome, 3)], "");
        }
    }
}

#[test]
fn responses_before_a_close_count() {
    // The server sends two complete responses and half of the third.
    for goodbye in [true, false] {
        let server = Scripted::secured(&["h2"], move |peer| {
            peer.send_settings(&[])?;
            let streams = peer.requests(3)?;
            let all = [
                response(streams[0], b"fine"),
                response(streams[1], b"fine"),
                half(streams[2]),
            ];
            let (tls, tcp) = peer.tls()?;
            tls.writer().write_all(&all.concat()).ok()?;
            if goodbye {
                tls.send_close_notify();
            }
            let mut bytes = Vec::new();
            while tls.wants_write() {
                tls.write_tls(&mut bytes).ok()?;
            }
            tcp.write_all(&bytes).ok()?;
            peer.close()
        });
        let record = server.load("-n 3 -c 1 --streams 3");
        expect(&record, &[(Fine, 2), (Truncated, 1)], "");
    }
}

#[test]
fn an_alert_in_mid_stream() {
    for part in [|_| Vec::new(), half] {
        let server = Scripted::secured(&["h2"], move |peer| {
            peer.send_settings(&[])?;
            for stream in peer.requests(3)? {
                peer.send(&part(stream))?;
            }
            // Garbage instead of the client's next record causes a TLS alert.
            let (tls, tcp) = peer.tls()?;
            let forged = [&b"\x17\x03\x03\x00\x30"[..], &[7; 0x30]].concat();
            tls.read_tls(&mut &forged[..]).ok()?;
            assert!(tls.process_new_packets().is_err());
            while tls.wants_write() {
                tls.write_tls(tcp).ok()?;
            }
            peer.close()
        });
        let record = server.load("-n 3 -c 1 --streams 3");
        expect(&record, &[(Tls, 3)], "alert");
    }
}

#[test]
fn a_tampered_record() {
    let server = Scripted::secured(&["h2"], |peer| {
        peer.send_settings(&[])?;
        for stream in peer.requests(3)? {
            peer.send(&half(stream))?;
        }
        let forged = [&b"\x17\x03\x03\x00\x30"[..], &[7; 0x30]].concat();
        peer.tcp().write_all(&forged).ok()?;
        peer.read_to_end()
    });
    let record = server.load("-n 3 -c 1 --streams 3");
    expect(&record, &[(Tls, 3)], "decrypt");
}

#[test]
fn a_reset_of_the_connection() {
    let server = Scripted::secured(&["h2"], |peer| {
        peer.send_settings(&[])?;
        peer.requests(3)?;
        peer.reset()
    });
    expect(&server.load("-n 3 -c 1 --streams 3"), &[(Reset, 3)], "");
}

#[test]
fn violations_are_detected_over_tls() {
    let server = Scripted::secured(&["h2"], |peer| {
        peer.send_settings(&[])?;
        peer.request()?;
        peer.send(&frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2, 0x82]))?;
        peer.read_to_end()
    });
    // If the server has no core for a moment, it finds its connection closed, and the error code is
    // lost.
    for _ in 0..20 {
        let record = server.load("-n 6 -c 2 --streams 3");
        expect(&record, &[(Protocol, 6)], "PUSH_PROMISE");
        if !server.seen().goaways.is_empty() {
            break;
        }
    }
    assert!(server.seen().goaways.contains(&1));
    // The server uses HTTP/1.1 although HTTP/2 was negotiated.
    let server = Scripted::secured(&["h2"], |peer| {
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
        peer.read_to_end()
    });
    expect(
        &server.load("-n 6 -c 2 --streams 3"),
        &[(Protocol, 6)],
        "HTTP/1",
    );
}

#[test]
fn floods_over_tls_are_cut_short() {
    for again in [
        settings(&[]),
        frame(PING, 0, 0, b"flooding"),
        frame(0xee, 0, 0, &[]),
    ] {
        let server = Scripted::secured(&["h2"], move |peer| {
            peer.send_settings(&[])?;
            peer.request()?;
            peer.flood(&again)
        });
        let record = server.load("-n 6 -c 2 --streams 3");
        expect(&record, &[(Protocol, 6)], "");
    }
}
