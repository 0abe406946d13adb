//! Tests of limits and rare conditions: full budgets, closed windows, silent peers, reused ports.

use super::*;

/// Number of data bytes in a full segment with timestamps.
const FULL: u32 = 1_448;

/// Creates an established connection whose stack may store only this much out-of-order data.
fn established_with(reassembly_bytes: usize) -> Script {
    let mut script = Script::established();
    script.stack.config.reassembly_bytes = reassembly_bytes;
    script
}

fn fin(script: &Script, ahead: u32) -> Segment {
    Segment {
        sequence: script.peer + ahead,
        ..Segment {
            flags: Flags::FIN.and(Flags::ACK),
            ..script.ack(0)
        }
    }
}

#[test]
fn a_fin_whose_data_was_dropped_does_not_end_the_data_early() {
    let mut script = established_with(0);
    let last = fin(&script, 4);
    script.receive(&last, b"later");
    assert_eq!(script.stack.counts().dropped_data, 1);
    assert_eq!(script.sent()[0].0.acknowledgment, script.peer);
    script.receive_data(0, b"soon");
    assert!(matches!(script.events()[..], [Event::Received(1, _)]));
    let last = fin(&script, 0);
    script.receive(&last, b"later");
    let events = script.events();
    assert!(matches!(events[0], Event::Received(1, _)), "{events:?}");
    assert_eq!(events[1], Event::Closed(1));
}

#[test]
fn the_budget_for_data_out_of_order_includes_the_overhead_and_is_released() {
    let mut script = established_with(1_000);
    for ahead in (2..200).step_by(2) {
        let segment = Segment {
            sequence: script.peer + ahead,
            ..script.ack(0)
        };
        script.receive(&segment, b"x");
    }
    let stored = script.stack.stored;
    assert!((1_000..1_100).contains(&stored), "{stored}");
    assert!(script.stack.counts().dropped_data > 80);
    script.receive_data(0, &[b'y'; 200]);
    assert_eq!(script.stack.stored, 0);
    script.events();
    // An aborted connection also releases its share of the memory.
    let segment = Segment {
        sequence: script.peer + 10,
        ..script.ack(0)
    };
    script.receive(&segment, b"x");
    assert!(script.stack.stored > 0);
    let (handle, now) = (script.handle, script.now);
    script.stack.close(handle, CloseMode::Abort, now);
    assert_eq!(script.stack.stored, 0);
}

#[test]
fn every_second_full_segment_is_acknowledged_although_timestamps_make_it_smaller() {
    let mut script = Script::established();
    let data = [1; FULL as usize];
    for _ in 0..3 {
        script.receive_data(0, &data);
        assert_eq!(script.sent(), []);
        script.receive_data(0, &data);
        let sent = script.sent();
        assert_eq!((sent.len(), sent[0].0.acknowledgment), (1, script.peer));
    }
    // Small segments don't trigger an acknowledgment: the next request can carry it.
    for _ in 0..5 {
        script.receive_data(0, b"small");
    }
    assert_eq!(script.sent(), []);
}

#[test]
fn data_queued_before_a_syn_ack_with_a_closed_window_is_probed_for() {
    let mut script = Script::connecting();
    script.send(100);
    let closed = Segment {
        window: 0,
        ..script.header(Flags::SYN)
    };
    script.syn_ack(closed);
    assert_eq!(script.events(), [Event::Connected(1)]);
    assert_eq!(script.sent()[0].1.len(), 0, "only the acknowledgment");
    let (_, sent) = script.wait();
    assert_eq!(
        (sent[0].0.sequence, sent[0].1.len()),
        (script.client, 0),
        "a probe"
    );
    let open = script.ack(0);
    script.receive(&open, b"");
    assert_eq!(script.sent_ranges(), [(0, 100)]);
}

#[test]
fn a_window_that_opens_ends_the_back_off() {
    let mut script = Script::established();
    let closed = Segment {
        window: 0,
        ..script.ack(0)
    };
    script.receive(&closed, b"");
    script.send(100);
    for _ in 0..6 {
        script.wait();
        script.receive(&closed, b"");
    }
    let open = script.ack(0);
    script.receive(&open, b"");
    let sent_at = script.now;
    assert_eq!(script.sent_ranges(), [(0, 100)]);
    let (at, sent) = script.wait();
    assert_eq!(sent[0].1.len(), 100);
    assert!(at - sent_at < SECOND, "{} ms", (at - sent_at) / MILLI);
}

#[test]
fn a_closed_window_keeps_the_connection_as_long_as_the_peer_answers() {
    let mut script = Script::established();
    let closed = Segment {
        window: 0,
        ..script.ack(0)
    };
    script.receive(&closed, b"");
    script.send(100);
    for _ in 0..30 {
        script.wait();
        script.receive(&closed, b"");
    }
    assert_eq!(script.events(), []);
    assert!(script.now > 900 * SECOND);
}

#[test]
fn a_peer_that_sends_but_never_acknowledges_is_given_up() {
    let mut script = Script::established();
    script.send(100);
    script.sent();
    while script.stack.connection_count() > 0 {
        script.now = script.stack.next_timeout().unwrap();
        script.stack.handle_timeouts(script.now);
        script.sent();
        if script.stack.connection_count() > 0 {
            script.receive_data(0, b"more");
            let events = script.events();
            assert!(matches!(events[..], [Event::Received(1, _)]), "{events:?}");
        }
        assert!(script.now < 400 * SECOND);
    }
    assert_eq!(script.events(), [Event::Failed(1, Failure::TimedOut)]);
}

#[test]
fn a_reused_port_begins_beyond_everything_that_was_sent_before() {
    let mut script = Script::established();
    script.send(100_000);
    let mut sent = 0;
    while sent < 100_000 {
        sent = script.sent_ranges().last().expect("progress").1;
        let ack = script.ack(sent);
        script.receive(&ack, b"");
    }
    let (handle, local, remote) = (script.handle, script.local, script.remote);
    let now = script.now;
    script.stack.close(handle, CloseMode::Orderly, now);
    script.sent();
    let last = Segment {
        acknowledgment: script.client + 1 + sent + 1,
        ..fin(&script, 0)
    };
    script.receive(&last, b"");
    script.sent();
    assert_eq!(script.stack.connection_count(), 0);
    // No time has passed, so neither the clock nor the timestamp has moved.
    let options = ConnectOptions {
        nodelay: true,
        window: None,
    };
    script
        .stack
        .connect(2, local, remote, options, now)
        .unwrap();
    let (syn, _) = script.sent().remove(0);
    assert_eq!(syn.flags, Flags::SYN);
    assert!(syn.sequence.is_after(script.client + sent + 2));
}

#[test]
fn scope_and_flow_of_an_ipv6_address_do_not_matter() {
    let mut stack = TcpStack::new(config(), 0);
    let options = ConnectOptions {
        nodelay: true,
        window: None,
    };
    let scoped =
        |text: &str, port| core::net::SocketAddrV6::new(text.parse().unwrap(), port, 5, 3).into();
    let (local, remote): (SocketAddr, SocketAddr) =
        (scoped("fe80::1", 40_000), scoped("fe80::2", 80));
    stack.connect(1, local, remote, options, 0).unwrap();
    let mut packet = [0; 1500];
    let size = stack.poll_transmit(0, &mut packet).unwrap();
    let ip = IpPacket::parse(&packet[..size]).unwrap();
    let (syn, ..) = Segment::parse(&packet[ip.payload], ip.source, ip.target).unwrap();
    let refusal = Segment {
        source_port: 80,
        target_port: 40_000,
        acknowledgment: syn.sequence + 1,
        flags: Flags::RST.and(Flags::ACK),
        ..Segment::default()
    };
    let mut bytes = [0; 60];
    write_packet(&mut bytes, remote, local, &refusal, 0).unwrap();
    stack.handle_packet(0, &bytes);
    assert_eq!(stack.poll_event(), Some(Event::Failed(1, Failure::Refused)));
}

#[test]
fn dropped_segments_and_icmp_messages_are_counted() {
    let mut script = Script::established();
    let old = Segment {
        sequence: script.peer - 10,
        ..script.ack(0)
    };
    let impossible = script.ack(50_000);
    let reset = Segment {
        sequence: script.peer + 1,
        ..script.header(Flags::RST)
    };
    for segment in [old, impossible, reset, script.header(Flags::SYN)] {
        script.receive(&segment, b"");
    }
    assert_eq!(script.stack.counts().unacceptable, 4);
    let echo = icmp(&script, [8, 0], 0, script.client);
    script.stack.handle_packet(script.now, &echo);
    assert_eq!(script.stack.counts().ignored_icmp, 1);
    assert_eq!(script.events(), []);
}

#[test]
fn a_connection_that_is_reset_for_late_data_sends_nothing_after_the_reset() {
    let mut script = Script::established();
    let (handle, now) = (script.handle, script.now);
    script.stack.close(handle, CloseMode::Orderly, now);
    script.sent();
    script.receive_data(1, b"more");
    let sent = script.sent();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!(sent[0].0.flags, Flags::RST);
    assert_eq!(script.stack.connection_count(), 0);
}

#[test]
fn the_acknowledgment_of_repeated_data_echoes_its_timestamp() {
    let mut script = Script::established();
    script.receive_data(0, b"data");
    script.wait();
    // The acknowledgment was lost, so the peer repeats the data.
    script.timestamp += 200;
    let repeated = Segment {
        sequence: script.peer - 4,
        ..script.ack(0)
    };
    script.receive(&repeated, b"data");
    let sent = script.sent();
    assert_eq!(sent[0].0.timestamps.unwrap().echo, script.timestamp);
    // A segment whose number is far from the window is ignored.
    let forged = Segment {
        sequence: script.peer - 1_000_000,
        timestamps: Some(Timestamps {
            value: script.timestamp + 1_000_000,
            echo: 0,
        }),
        ..script.ack(0)
    };
    script.now += SECOND;
    script.receive(&forged, b"data");
    assert_eq!(
        script.sent()[0].0.timestamps.unwrap().echo,
        script.timestamp
    );
}
