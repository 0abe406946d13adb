//! Tests of handshakes: options, repeated SYNs, resets, and ports that are used again.

use super::*;

#[test]
fn a_syn_offers_all_options_and_a_request_carries_the_last_acknowledgment() {
    let mut script = Script::connecting();
    let header = script.header(Flags::SYN);
    script.syn_ack(Segment {
        window_scale: Some(7),
        sack_permitted: true,
        ..header
    });
    assert_eq!(script.events(), [Event::Connected(1)]);
    script.send(100);
    let sent = script.sent();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!(sent[0].0.flags, Flags::ACK.and(Flags::PSH));
    assert_eq!(sent[0].0.acknowledgment, script.peer);
    assert_eq!(sent[0].0.timestamps.unwrap().echo, 77);
    assert_eq!(sent[0].1.len(), 100);
}

#[test]
fn the_syn_has_mss_scale_sack_and_timestamps() {
    let mut stack = TcpStack::new(config(), 0);
    let options = ConnectOptions {
        nodelay: true,
        window: Some(1 << 20),
    };
    let (local, remote) = (
        "[fd00::1]:40000".parse().unwrap(),
        "[fd00::2]:80".parse().unwrap(),
    );
    stack
        .connect(1, local, remote, options, 3 * SECOND)
        .unwrap();
    let mut packet = [0; 1500];
    let size = stack.poll_transmit(3 * SECOND, &mut packet).unwrap();
    let ip = IpPacket::parse(&packet[..size]).unwrap();
    let (syn, ..) = Segment::parse(&packet[ip.payload], ip.source, ip.target).unwrap();
    assert_eq!(
        (syn.mss, syn.window_scale, syn.sack_permitted),
        (Some(1440), Some(5), true)
    );
    assert_eq!(
        syn.timestamps,
        Some(Timestamps {
            value: 8_000,
            echo: 0
        })
    );
    assert_eq!(syn.window, 65_535);
}

#[test]
fn a_syn_is_repeated_after_1_3_7_15_31_and_63_seconds_then_the_connection_fails() {
    let mut script = Script::connecting();
    for second in [1, 3, 7, 15, 31, 63] {
        let (at, sent) = script.wait();
        assert!(is_near(at, second * SECOND), "{at}");
        assert_eq!(sent[0].0.flags, Flags::SYN);
        assert_eq!(sent[0].0.sequence, script.client);
    }
    while script.stack.connection_count() > 0 {
        script.now = script.stack.next_timeout().unwrap();
        script.stack.handle_timeouts(script.now);
    }
    assert!(script.now > 120 * SECOND);
    assert_eq!(script.events(), [Event::Failed(1, Failure::TimedOut)]);
}

#[test]
fn a_reset_refuses_the_connection_only_if_it_acknowledges_the_syn() {
    let mut script = Script::connecting();
    let reset = script.header(Flags::RST.and(Flags::ACK));
    script.receive(
        &Segment {
            acknowledgment: script.client,
            ..reset
        },
        b"",
    );
    script.receive(
        &Segment {
            flags: Flags::RST,
            ..reset
        },
        b"",
    );
    assert_eq!(script.events(), []);
    script.receive(&reset, b"");
    assert_eq!(script.events(), [Event::Failed(1, Failure::Refused)]);
    assert_eq!(script.stack.connection_count(), 0);
}

#[test]
fn an_acknowledgment_of_an_earlier_connection_gets_a_reset() {
    let mut script = Script::connecting();
    let old = script.client + 5_000;
    let stale = Segment {
        acknowledgment: old,
        ..script.header(Flags::ACK)
    };
    script.receive(&stale, b"");
    let sent = script.sent();
    assert_eq!((sent[0].0.flags, sent[0].0.sequence), (Flags::RST, old));
    assert_eq!(script.events(), []);
    // The reset has ended the earlier connection, so the SYN is sent again soon.
    let began = script.now;
    let (at, sent) = script.wait();
    assert!(at - began <= 2 * MILLI + SLACK, "{at} {began}");
    assert_eq!(
        (sent[0].0.flags, sent[0].0.sequence),
        (Flags::SYN, script.client)
    );
    // A second old acknowledgment doesn't trigger another early SYN, so a peer can't cause a flood
    // of SYNs.
    script.receive(&stale, b"");
    let sent = script.sent();
    assert_eq!((sent.len(), sent[0].0.flags), (1, Flags::RST));
    let again = script.now;
    let (at, _) = script.wait();
    assert!(at - again >= 500 * MILLI, "{at} {again}");
}

#[test]
fn a_port_is_reused_with_a_later_timestamp_and_a_higher_sequence_number() {
    let mut script = Script::established();
    script
        .stack
        .close(script.handle, CloseMode::Abort, script.now);
    script.sent();
    script.now += 2 * MILLI;
    let options = ConnectOptions {
        nodelay: true,
        window: None,
    };
    let (local, remote, now) = (script.local, script.remote, script.now);
    script
        .stack
        .connect(2, local, remote, options, now)
        .unwrap();
    let again = script.stack.connect(3, local, remote, options, now);
    assert_eq!(again, Err(ConnectError::AddressInUse));
    let (syn, _) = script.sent().remove(0);
    assert!(syn.sequence.is_after(script.client));
    assert!(syn.timestamps.unwrap().value > 5_000);
}

#[test]
fn ports_are_chosen_from_the_range_until_all_are_in_use() {
    let mut stack = TcpStack::new(config(), 0);
    let options = ConnectOptions {
        nodelay: true,
        window: None,
    };
    let (local, remote): (IpAddr, SocketAddr) =
        ("10.0.0.1".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
    let mut ports = Vec::new();
    let error = loop {
        match stack.connect_from(1, local, 65_530..=65_535, remote, options, 0) {
            Ok(handle) => ports.push(stack.local_address(handle).unwrap().port()),
            Err(error) => break error,
        }
    };
    ports.sort_unstable();
    assert_eq!(ports, (65_530..=65_535).collect::<Vec<u16>>());
    assert_eq!(error, ConnectError::PortsExhausted);
}
