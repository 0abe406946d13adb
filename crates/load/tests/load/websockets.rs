//! Tests of WebSocket loads against a server that a function scripts, frame by frame.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prony_record::{Outcome, Record};

use crate::harness::{Raw, errors, load_with, outcomes, read_head, resolve};

/// A frame from the client, unmasked.
struct Frame {
    /// The opcode, with the bit that marks a compressed message.
    opcode: u8,
    key: [u8; 4],
    payload: Vec<u8>,
}

/// The server's side of an open WebSocket.
struct Peer {
    stream: TcpStream,
}

impl Peer {
    fn read<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Reads the next frame, which must be final and masked.
    fn frame(&mut self) -> Option<Frame> {
        let [first, second] = self.read()?;
        assert_eq!(first & 0xb0, 0x80, "final, without reserved bits");
        assert_eq!(second & 0x80, 0x80, "masked");
        let length = match second & 0x7f {
            126 => u64::from(u16::from_be_bytes(self.read()?)),
            127 => u64::from_be_bytes(self.read()?),
            short => u64::from(short),
        };
        let key: [u8; 4] = self.read()?;
        let mut payload = vec![0; length as usize];
        self.stream.read_exact(&mut payload).ok()?;
        let keys = key.iter().cycle();
        payload
            .iter_mut()
            .zip(keys)
            .for_each(|(byte, key)| *byte ^= key);
        Some(Frame {
            opcode: first & 0x4f,
            key,
            payload,
        })
    }

    /// Reads the next message. Answers a close frame, and ignores other control frames.
    fn message(&mut self) -> Option<Frame> {
        loop {
            let frame = self.frame()?;
            match frame.opcode {
                8 => {
                    self.send(0x88, &frame.payload)?;
                    return None;
                }
                opcode if opcode & 8 == 0 => return Some(frame),
                _ => {}
            }
        }
    }

    fn send(&mut self, first: u8, payload: &[u8]) -> Option<()> {
        let mut frame = vec![first];
        match payload.len() {
            short @ 0..=125 => frame.push(short as u8),
            medium @ 126..=0xffff => {
                frame.push(126);
                frame.extend((medium as u16).to_be_bytes());
            }
            long => {
                frame.push(127);
                frame.extend((long as u64).to_be_bytes());
            }
        }
        frame.extend_from_slice(payload);
        self.bytes(&frame)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Option<()> {
        self.stream.write_all(bytes).ok()
    }

    /// Echoes messages.
    fn echo(&mut self) -> Option<()> {
        loop {
            let frame = self.message()?;
            self.send(0x80 | frame.opcode, &frame.payload)?;
        }
    }

    /// Waits until the client has closed the connection. Returns the code of its close frame.
    fn end(&mut self) -> Option<u16> {
        let mut code = None;
        while let Some(frame) = self.frame() {
            if let (8, [high, low]) = (frame.opcode, &frame.payload[..]) {
                code = Some(u16::from_be_bytes([*high, *low]));
            }
        }
        code
    }
}

/// Accepts the handshake of a client.
fn accept(mut stream: TcpStream, more: &str) -> Option<(Peer, String)> {
    stream.set_nodelay(true).unwrap();
    let head = String::from_utf8(read_head(&mut stream)?).unwrap();
    let key = head
        .lines()
        .find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "))?;
    assert_eq!(STANDARD.decode(key).unwrap().len(), 16);
    let source = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let sha1 = &aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY;
    let accept = STANDARD.encode(aws_lc_rs::digest::digest(sha1, source.as_bytes()));
    let response = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n{more}\r\n"
    );
    stream.write_all(response.as_bytes()).ok()?;
    Some((Peer { stream }, head))
}

/// Takes what the servers have noted, at least this many notes. They may note something after the
/// load has ended.
fn taken<T>(notes: &Mutex<Vec<T>>, count: usize) -> Vec<T> {
    for _ in 0..1_000 {
        if notes.lock().unwrap().len() >= count {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::mem::take(&mut *notes.lock().unwrap())
}

/// Starts a server that runs this function for each WebSocket.
fn serving(serve: impl Fn(&mut Peer) -> Option<()> + Send + Sync + 'static) -> Raw {
    Raw::new(move |stream| {
        if let Some((mut peer, _)) = accept(stream, "") {
            let _ = serve(&mut peer);
        }
    })
}

fn url_of(server: &Raw) -> String {
    server.url().replace("http://", "ws://")
}

fn load(server: &Raw, words: &str) -> Record {
    load_with(&url_of(server), &words.split(' ').collect::<Vec<_>>())
}

#[test]
fn each_message_is_echoed() {
    let server = serving(Peer::echo);
    for words in [
        "-n 200 -c 4 --message hello --expect-size 5",
        "-n 200 -c 4 -t 2 --message hello --binary --expect-size 5",
        "-n 200 -c 4 -r 5000 --message hello --expect-size 5",
        "-n 200 -c 1 --message {\"a\":{\"b\":1}} --expect-size 13",
    ] {
        let record = load(&server, words);
        assert_eq!(
            outcomes(&record),
            [(Outcome::Ok, 200)],
            "{words}: {}",
            errors(&record)
        );
        assert!(record.load.websocket);
        assert!(record.totals.connections_opened <= 4, "{words}");
        assert_eq!(record.totals.tls_handshakes, 0);
    }
    let record = load(&server, "-n 10 -c 1 --message hello --expect-size 6");
    assert_eq!(outcomes(&record), [(Outcome::UnexpectedSize, 10)]);
    // Each message is sent on a WebSocket of its own.
    let record = load(&server, "-n 10 -c 1 --message hello --no-keepalive");
    assert_eq!(outcomes(&record), [(Outcome::Ok, 10)]);
    assert_eq!(record.totals.connections_opened, 10);
    let record = load(
        &server,
        "-n 12 -c 1 --message hello --requests-per-connection 4",
    );
    assert_eq!(outcomes(&record), [(Outcome::Ok, 12)]);
    assert_eq!(record.totals.connections_opened, 3);
}

#[test]
fn messages_are_sent_in_turn_with_their_opcode() {
    let seen: Arc<Mutex<Vec<Frame>>> = Arc::default();
    let noted = seen.clone();
    let server = serving(move |peer| {
        loop {
            let frame = peer.message()?;
            noted.lock().unwrap().push(frame);
            peer.send(0x81, b"ok")?;
        }
    });
    load(&server, "-n 4 -c 1 --message one --message two");
    load(&server, "-n 1 -c 1 --message three --binary");
    let seen = seen.lock().unwrap();
    let seen = seen.iter().map(|frame| (frame.opcode, &frame.payload[..]));
    let expected = [(1, "one"), (1, "two"), (1, "one"), (1, "two"), (2, "three")];
    let expected = expected.map(|(opcode, text)| (opcode, text.as_bytes()));
    assert_eq!(seen.collect::<Vec<_>>(), expected);
}

#[test]
fn messages_come_from_files_and_have_placeholders() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let list = file("list", b"first {{seq}}\r\n\nto {{ name }}\n");
    let whole = file("whole", b"a {{b}}\n");
    let data = file("users.csv", b"name\nAda\nBob\n");
    let seen: Arc<Mutex<Vec<Frame>>> = Arc::default();
    let noted = seen.clone();
    let server = serving(move |peer| {
        loop {
            let frame = peer.message()?;
            noted.lock().unwrap().push(frame);
            peer.send(0x81, b"ok")?;
        }
    });
    let sent = |words: &str| {
        let record = load(&server, words);
        assert_eq!(record.totals.failed, 0, "{words}: {}", errors(&record));
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        let text = |frame: Frame| String::from_utf8(frame.payload).unwrap();
        seen.into_iter().map(text).collect::<Vec<_>>()
    };
    assert_eq!(
        sent(&format!("-n 6 -c 1 --messages {list} --data {data}")),
        ["first 1", "", "to Ada", "first 4", "", "to Bob"]
    );
    let words = format!("-n 3 -c 1 --message {{{{seq}}}} --message-file {whole}");
    assert_eq!(sent(&words), ["1", "a {{b}}\n", "3"]);
}

#[test]
fn each_message_has_a_mask_key_of_its_own() {
    let keys: Arc<Mutex<Vec<[u8; 4]>>> = Arc::default();
    let noted = keys.clone();
    let server = serving(move |peer| {
        loop {
            let key = peer.message()?.key;
            noted.lock().unwrap().push(key);
            peer.send(0x81, b"ok")?;
        }
    });
    for _ in 0..2 {
        load(&server, "-n 40 -c 2 --message x --seed 1");
    }
    let mut keys = keys.lock().unwrap();
    assert_eq!(keys.len(), 80);
    keys.sort_unstable();
    keys.dedup();
    // Two of 80 random keys are equal once in a million times.
    assert!(keys.len() >= 79, "{} keys", keys.len());
}

#[test]
fn websockets_end_with_the_closing_handshake() {
    let codes: Arc<Mutex<Vec<Option<u16>>>> = Arc::default();
    let noted = codes.clone();
    let server = serving(move |peer| {
        let mut code = None;
        while let Some(frame) = peer.frame() {
            if frame.opcode == 8 {
                code = frame
                    .payload
                    .first_chunk()
                    .map(|it| u16::from_be_bytes(*it));
                peer.send(0x88, &frame.payload)?;
                break;
            }
            peer.send(0x80 | frame.opcode, &frame.payload)?;
        }
        noted.lock().unwrap().push(code);
        None
    });
    for (words, count) in [
        ("-n 20 -c 4 --message x", 4),
        ("-d 300ms -c 2 -r 50 --message x --idle 3", 5),
        ("-n 6 -c 1 --message x --requests-per-connection 2", 3),
    ] {
        let record = load(&server, words);
        assert_eq!(record.totals.failed, 0, "{words}: {}", errors(&record));
        assert_eq!(taken(&codes, count), vec![Some(1000); count], "{words}");
    }
}

#[test]
fn close_frames_are_answered_and_violations_have_codes() {
    type Script = fn(&mut Peer) -> Option<()>;
    let cases: [(Script, Option<u16>); 6] = [
        (|peer| peer.send(0x88, &[3, 243]), Some(1011)),
        (|peer| peer.send(0x88, &[]), None),
        (|peer| peer.send(0x88, &[3, 237]), Some(1002)),
        (|peer| peer.send(0x81, b"\xff"), Some(1007)),
        (|peer| peer.send(0xc1, b"x"), Some(1002)),
        (
            |peer| peer.send(0x01, b"x").and_then(|()| peer.send(0x81, b"y")),
            Some(1002),
        ),
    ];
    for (script, code) in cases {
        let codes: Arc<Mutex<Vec<Option<u16>>>> = Arc::default();
        let noted = codes.clone();
        let server = serving(move |peer| {
            peer.message()?;
            script(peer)?;
            let code = peer.end();
            noted.lock().unwrap().push(code);
            None
        });
        let record = load(&server, "-n 2 -c 1 --message x");
        assert_eq!(record.totals.ok, 0);
        assert_eq!(taken(&codes, 2), [code, code]);
    }
}

#[test]
fn messages_that_nobody_awaits_are_counted() {
    let server = serving(|peer| {
        for _ in 0..3 {
            peer.send(0x81, b"news")?;
        }
        let first = peer.message()?;
        // The news arrive before the response, unless they arrive before the message.
        peer.send(0x81, &first.payload)?;
        loop {
            let frame = peer.message()?;
            peer.send(0x81, &frame.payload)?;
            peer.send(0x81, b"more news")?;
            peer.send(0x81, b"and more")?;
        }
    });
    let record = load(&server, "-d 500ms -r 20 -c 1 --message x --idle 5");
    let used = record.websocket.unwrap();
    assert!(used.unawaited >= 8, "{used:?}");
    assert_eq!(record.totals.failed, 0, "{}", errors(&record));
    let quiet = load(&serving(Peer::echo), "-n 3 -c 1 --message x");
    assert_eq!(quiet.websocket.unwrap().unawaited, 0);
}

#[test]
fn a_response_before_the_end_of_its_message_ends_the_websocket() {
    // The peer reads no more, because the whole message could be sent before its response is read.
    let open: Arc<Mutex<Vec<_>>> = Arc::default();
    let kept = open.clone();
    let server = serving(move |peer| {
        // The response arrives while the message is being sent.
        let _: [u8; 100] = peer.read()?;
        peer.send(0x81, b"early")?;
        kept.lock().unwrap().push(peer.stream.try_clone().unwrap());
        None
    });
    let message = "x".repeat(30_000_000);
    let words = ["-n", "2", "-c", "1", "--message", &message];
    let record = load_with(&url_of(&server), &words);
    assert_eq!(outcomes(&record), [(Outcome::Ok, 2)], "{}", errors(&record));
    assert_eq!(record.totals.connections_opened, 2);
    assert_eq!(open.lock().unwrap().len(), 2);
}

#[test]
fn messages_are_compressed_as_agreed() {
    use flate2::{Decompress, FlushDecompress};
    let answer = |agreed: &'static str, first: u8, payload: &'static [u8]| {
        let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
        let noted = seen.clone();
        let server = Raw::new(move |stream| {
            let agreed = match agreed {
                "none" => String::new(),
                agreed => format!("Sec-WebSocket-Extensions: permessage-deflate{agreed}\r\n"),
            };
            let Some((mut peer, head)) = accept(stream, &agreed) else {
                return;
            };
            let offered =
                "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";
            assert!(head.contains(offered), "{head}");
            while let Some(frame) = peer.message() {
                let mut text = frame.payload.clone();
                if frame.opcode & 0x40 != 0 {
                    text.extend([0, 0, 0xff, 0xff]);
                    let mut inflated = Vec::with_capacity(1_000);
                    let mut inflater = Decompress::new(false);
                    inflater
                        .decompress_vec(&text, &mut inflated, FlushDecompress::Sync)
                        .unwrap();
                    text = inflated;
                }
                assert_eq!(text, b"HelloHelloHelloHello");
                noted.lock().unwrap().push(frame.opcode);
                if peer.send(first, payload).is_none() {
                    return;
                }
            }
        });
        let words = "-n 2 -c 1 --message HelloHelloHelloHello --deflate client_max_window_bits --requests-per-connection 1";
        let record = load(&server, words);
        let errors = if record.totals.failed > 0 {
            errors(&record).to_owned()
        } else {
            String::new()
        };
        let opcodes = seen.lock().unwrap().clone();
        (
            outcomes(&record),
            errors,
            opcodes,
            record.totals.body_bytes_in,
        )
    };
    const HELLO: &[u8] = &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
    let ok = |outcomes: &[(Outcome, u64)]| outcomes == [(Outcome::Ok, 2)];
    // The bytes of bodies are those that were sent.
    let (outcomes, errors, opcodes, bytes) = answer("", 0xc1, HELLO);
    assert!(ok(&outcomes), "{errors}");
    assert_eq!((&opcodes[..], bytes), (&[0x41, 0x41][..], 14));
    // The server needn't compress.
    let (outcomes, _, _, bytes) = answer("; client_max_window_bits=9", 0x81, b"Hello");
    assert!(ok(&outcomes) && bytes == 10);
    // A window that the library doesn't have: messages are sent as they are.
    let (outcomes, _, opcodes, _) = answer("; client_max_window_bits=8", 0x81, b"Hello");
    assert!(ok(&outcomes) && opcodes == [1, 1], "{opcodes:?}");
    // Not agreed.
    let (outcomes, errors, opcodes, _) = answer("none", 0xc1, HELLO);
    assert_eq!(outcomes, [(Outcome::Protocol, 2)]);
    assert!(
        errors.contains("reserved bit") && opcodes == [1, 1],
        "{errors}"
    );
    for (agreed, first, payload, reason) in [
        ("", 0xc1, &b"\xff\xff"[..], "inflated"),
        ("", 0xc1, &[0x4a, 0xfe, 0x07, 0x00], "UTF-8"),
        ("; server_max_window_bits=7", 0x81, b"x", "not offered"),
        ("; unknown", 0x81, b"x", "not offered"),
    ] {
        let (_, errors, _, _) = answer(agreed, first, payload);
        assert!(errors.contains(reason), "{agreed} {errors}");
    }
}

#[test]
fn the_handshake_has_the_headers_of_the_load() {
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = heads.clone();
    let server = Raw::new(move |stream| {
        let (mut peer, head) = accept(stream, "Sec-WebSocket-Protocol: v2\r\n").unwrap();
        noted.lock().unwrap().push(head);
        let _ = peer.echo();
    });
    let words = [
        "-n",
        "1",
        "-c",
        "1",
        "--message",
        "x",
        "-H",
        "Origin: http://a.test",
        "-H",
        "Sec-WebSocket-Protocol: v1, v2",
    ];
    let record = load_with(&format!("{}chat?room=1", url_of(&server)), &words);
    assert_eq!(outcomes(&record), [(Outcome::Ok, 1)], "{}", errors(&record));
    let head = heads.lock().unwrap().concat();
    assert!(head.starts_with("GET /chat?room=1 HTTP/1.1\r\n"), "{head}");
    for line in [
        "Connection: Upgrade\r\n",
        "Upgrade: websocket\r\n",
        "Sec-WebSocket-Version: 13\r\n",
        "Origin: http://a.test\r\n",
        "Sec-WebSocket-Protocol: v1, v2\r\n",
    ] {
        assert_eq!(head.matches(line).count(), 1, "{head}");
    }
}

#[test]
fn pings_are_answered_and_fragments_are_joined() {
    let server = serving(|peer| {
        loop {
            peer.message()?;
            peer.send(0x01, b"he")?;
            peer.send(0x89, b"are you there?")?;
            let pong = peer.frame()?;
            assert_eq!(
                (pong.opcode, &pong.payload[..]),
                (10, &b"are you there?"[..])
            );
            peer.send(0x8a, b"unasked")?;
            peer.send(0x80, b"llo")?;
        }
    });
    let record = load(&server, "-n 20 -c 2 --message x --expect-size 5");
    assert_eq!(
        outcomes(&record),
        [(Outcome::Ok, 20)],
        "{}",
        errors(&record)
    );
}

#[test]
fn large_messages_pass_in_both_directions() {
    let server = serving(Peer::echo);
    let message = "x".repeat(300_000);
    let words = [
        "-n",
        "6",
        "-c",
        "2",
        "--message",
        &message,
        "--expect-size",
        "300000",
    ];
    let record = load_with(&url_of(&server), &words);
    assert_eq!(outcomes(&record), [(Outcome::Ok, 6)], "{}", errors(&record));
    assert_eq!(record.totals.body_bytes_in, 6 * 300_000);
}

#[test]
fn each_end_has_an_outcome_and_a_reason() {
    type Script = fn(&mut Peer) -> Option<()>;
    let cases: [(Script, Outcome, &str); 7] = [
        (
            |peer| {
                peer.message()?;
                peer.send(0x88, &[3, 233])?;
                peer.frame()?;
                None
            },
            Outcome::ClosedEarly,
            "closed the WebSocket with code 1001",
        ),
        (|peer| peer.message().map(|_| ()), Outcome::ClosedEarly, ""),
        (
            |peer| {
                peer.message()?;
                peer.bytes(&[0x81, 5, b'h'])?;
                None
            },
            Outcome::Truncated,
            "within a message",
        ),
        (
            |peer| {
                peer.message()?;
                peer.send(0x81, b"\xff")?;
                peer.frame().map(|_| ())
            },
            Outcome::Protocol,
            "not UTF-8",
        ),
        (
            |peer| {
                peer.message()?;
                peer.bytes(&[0x82, 127, 128, 0, 0, 0, 0, 0, 0, 0])?;
                peer.frame().map(|_| ())
            },
            Outcome::Protocol,
            "length of a frame",
        ),
        (
            |peer| {
                peer.message()?;
                peer.bytes(&[0x81, 0x82, 0, 0, 0, 0, b'h', b'i'])?;
                peer.frame().map(|_| ())
            },
            Outcome::Protocol,
            "masked",
        ),
        (
            |peer| {
                // A message without an end.
                peer.message()?;
                peer.bytes(&[0x82, 127, 64, 0, 0, 0, 0, 0, 0, 0])?;
                while peer.bytes(&[0; 10_000]).is_some() {}
                None
            },
            Outcome::Timeout,
            "",
        ),
    ];
    for (script, outcome, reason) in cases {
        let server = serving(script);
        let record = load(&server, "-n 3 -c 1 --message x --timeout 300ms");
        assert_eq!(outcomes(&record), [(outcome, 3)], "{reason}");
        assert!(errors(&record).contains(reason), "{}", errors(&record));
    }
}

#[test]
fn a_refused_handshake_has_a_reason() {
    for (response, reason) in [
        (
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            "(status 404)",
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: wrong\r\n\r\n",
            "Sec-WebSocket-Accept",
        ),
        ("SSH-2.0\r\n\r\n", "is not HTTP"),
    ] {
        let server = Raw::responding(vec![response.as_bytes()]);
        let record = load(&server, "-n 2 -c 1 --message x");
        assert_eq!(outcomes(&record), [(Outcome::ConnectFailed, 2)], "{reason}");
        assert!(errors(&record).contains(reason), "{}", errors(&record));
    }
    // A server that never responds to the handshake.
    let server = Raw::new(|mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        crate::harness::until_gone(&mut stream);
    });
    let record = load(&server, "-n 2 -c 1 --message x --timeout 200ms");
    assert_eq!(outcomes(&record), [(Outcome::Timeout, 2)]);
}

#[test]
fn idle_websockets_answer_pings() {
    let pongs: Arc<Mutex<usize>> = Arc::default();
    let counted = pongs.clone();
    let server = serving(move |peer| {
        peer.send(0x89, b"hi")?;
        loop {
            let frame = peer.frame()?;
            match frame.opcode {
                10 => *counted.lock().unwrap() += 1,
                8 => return None,
                opcode => peer.send(0x80 | opcode, &frame.payload)?,
            }
        }
    });
    let record = load(&server, "-d 1s -c 1 -r 50 --message x --idle 40");
    assert_eq!(record.totals.failed, 0, "{}", errors(&record));
    let idle = record.idle.unwrap();
    assert_eq!((idle.open_at_begin, idle.open_at_end), (40, 40));
    assert_eq!(*pongs.lock().unwrap(), 41);
}

/// Starts a server that sends each message, after this change, to all WebSockets that accept it. The
/// function has the message and the number of the receiver, from 0.
fn broadcasting(change: impl Fn(&[u8], usize) -> Option<Vec<u8>> + Send + Sync + 'static) -> Raw {
    let peers: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    serving(move |peer| {
        let copy = peer.stream.try_clone().unwrap();
        peers.lock().unwrap().push(copy);
        loop {
            let frame = peer.message()?;
            let peers = peers.lock().unwrap();
            for (number, stream) in peers.iter().enumerate() {
                if let Some(changed) = change(&frame.payload, number) {
                    let stream = stream.try_clone().unwrap();
                    let _ = Peer { stream }.send(0x81, &changed);
                }
            }
        }
    })
}

#[test]
fn a_fan_out_ends_when_the_message_has_arrived_everywhere() {
    for (receivers, words, each) in [
        ("all", "-n 30 -c 20", 20),
        ("others", "-n 30 -c 20", 19),
        ("all", "-n 30 -c 20 -r 300", 20),
        ("all", "-n 1 -c 1", 1),
    ] {
        let server = broadcasting(|message, _| Some(message.to_vec()));
        let words = format!("{words} --message {{{{seq}}}} --fan-out {receivers}");
        let record = load(&server, &words);
        let sent = record.totals.ok;
        assert_eq!(record.totals.failed, 0, "{words}: {}", errors(&record));
        let used = record.websocket.unwrap();
        assert_eq!((used.deliveries, used.deliveries_lost), (sent * each, 0));
        // The sender gets its own messages, too.
        assert_eq!(used.unawaited > 0, receivers == "others", "{words}");
        let events = record.events.unwrap();
        assert_eq!(events.events, sent * each, "{words}");
        assert!(events.first_event_us.max <= record.response_time_us.max);
        assert!(record.totals.connections_opened <= 20);
    }
}

#[test]
fn lost_and_changed_messages_of_a_fan_out() {
    // One of four receivers gets nothing.
    let server = broadcasting(|message, number| (number != 2).then(|| message.to_vec()));
    let words = "-n 3 -c 4 --message {{seq}} --fan-out all --timeout 300ms";
    let record = load(&server, words);
    assert_eq!(outcomes(&record), [(Outcome::Timeout, 3)]);
    let used = record.websocket.unwrap();
    assert_eq!((used.deliveries, used.deliveries_lost), (9, 3));
    assert_eq!(record.totals.connections_opened, 0, "they were open before");
    // A message within another one is recognized, and other messages are not.
    let wrapped = |message: &[u8], _| {
        let text = String::from_utf8_lossy(message);
        Some(format!("{{\"from\":\"a\",\"text\":\"{text}\"}}").into_bytes())
    };
    let record = load(
        &broadcasting(wrapped),
        "-n 10 -c 3 --message m{{seq}} --fan-out all",
    );
    assert_eq!(
        outcomes(&record),
        [(Outcome::Ok, 10)],
        "{}",
        errors(&record)
    );
    let record = load(
        &broadcasting(|_, _| Some(b"else".to_vec())),
        "-n 2 -c 3 --message m{{seq}} --fan-out all --timeout 200ms",
    );
    assert_eq!(outcomes(&record), [(Outcome::Timeout, 2)]);
    let used = record.websocket.unwrap();
    assert_eq!(
        (used.deliveries, used.deliveries_lost, used.unawaited),
        (0, 6, 6)
    );
}

#[test]
fn contradictions_are_named() {
    let list = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(list.path(), "ws://127.0.0.1:9/a\n").unwrap();
    let binary = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(binary.path(), b"\xff").unwrap();
    for (url, words, expected) in [
        ("http://127.0.0.1:9/", "--message x", "ws://"),
        ("ws://127.0.0.1:9/", "-c 1", "--message"),
        ("ws://127.0.0.1:9/", "--message x --http 3", "--http 3"),
        (
            "http://127.0.0.1:9/",
            "--deflate server_no_context_takeover",
            "ws://",
        ),
        (
            "ws://127.0.0.1:9/",
            "--messages LIST --header a:{{seq}}",
            "messages only",
        ),
        ("ws://127.0.0.1:9/", "--messages /dev/null", "no messages"),
        (
            "ws://127.0.0.1:9/",
            "--message x --fan-out all -t 2",
            "one thread",
        ),
        ("http://127.0.0.1:9/", "--fan-out all", "ws://"),
        (
            "ws://127.0.0.1:9/",
            "--message-file BINARY",
            "must be UTF-8",
        ),
        ("ws://127.0.0.1:9/", "--message x --body y", "--body"),
        (
            "wss://127.0.0.1:9/",
            "--message x --header Upgrade:y",
            "Upgrade",
        ),
        ("http://127.0.0.1:9/", "--urls LIST", "own URL"),
        ("ws://127.0.0.1:9/{{seq}}", "--message x", "messages only"),
    ] {
        let words = words.replace("LIST", list.path().to_str().unwrap());
        let words = words.replace("BINARY", binary.path().to_str().unwrap());
        let words: Vec<&str> = words.split(' ').collect();
        let error = resolve(url, &words).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
