//! Invalid records with valid keys, and bytes that aren't records.

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{AlertDescription, Error, InvalidMessage, PeerMisbehaved};

use super::super::cipher::{ContentType, RecordCipher};
use super::*;

/// A client whose server keys are known to the test.
struct Forger {
    client: Tls,
    buffers: TlsBuffers,
    sealing: RecordCipher,
}

/// The plaintext that the client extracted, or its error.
type Extracted = Result<Vec<u8>, Error>;

impl Forger {
    fn new(words: &str) -> Forger {
        let mut config = server_config(rustls::DEFAULT_VERSIONS);
        config.enable_secret_extraction = true;
        config.send_tls13_tickets = 0;
        let mut server = UnbufferedServerConnection::new(Arc::new(config)).unwrap();
        let mut client = Tls::new(&client(words, 1), &name()).unwrap();
        let mut buffers = TlsBuffers::default();
        let mut to_server = Vec::new();
        for _ in 0..4 {
            client.take_out(b"", &mut to_server);
            let to_client = serve(&mut server, &mut to_server);
            if !to_client.is_empty() {
                client.receive(&mut &to_client[..], &mut buffers).unwrap();
            }
        }
        let version = server.protocol_version().unwrap();
        let (secrets, _) = server.dangerous_into_kernel_connection().unwrap();
        Forger {
            client,
            buffers,
            sealing: RecordCipher::new(version, secrets.tx).unwrap(),
        }
    }

    fn seal(&mut self, content: ContentType, plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.sealing.seal(content, plain, &mut out);
        out
    }

    fn give(&mut self, mut bytes: &[u8]) -> Extracted {
        let mut made = Vec::new();
        loop {
            match self.client.receive(&mut bytes, &mut self.buffers)? {
                TlsEvent::Plain(plain) => made.extend_from_slice(plain),
                TlsEvent::NeedMore => return Ok(made),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Encrypts one record and lets the client process it.
    fn deliver(&mut self, content: ContentType, plain: &[u8]) -> Extracted {
        let record = self.seal(content, plain);
        self.give(&record)
    }
}

/// Lets the server process its input; returns its output.
fn serve(server: &mut UnbufferedServerConnection, incoming: &mut Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let UnbufferedStatus { discard, state, .. } = server.process_tls_records(incoming);
        let go_on = match state.unwrap() {
            ConnectionState::EncodeTlsData(mut data) => {
                let start = out.len();
                out.resize(start + (1 << 15), 0);
                let length = data.encode(&mut out[start..]).unwrap();
                out.truncate(start + length);
                true
            }
            ConnectionState::TransmitTlsData(data) => {
                data.done();
                true
            }
            _ => false,
        };
        incoming.drain(..discard);
        if !go_on {
            return out;
        }
    }
}

const BOTH_VERSIONS: [&str; 2] = ["--tls-max 1.2", "--tls-min 1.3"];

#[test]
fn a_changed_record_is_refused_wherever_it_is_changed() {
    for words in BOTH_VERSIONS {
        let length = Forger::new(words)
            .seal(ContentType::ApplicationData, b"answer")
            .len();
        for at in 0..length {
            let mut forger = Forger::new(words);
            let mut record = forger.seal(ContentType::ApplicationData, b"answer");
            record[at] ^= 1;
            // A record with a larger length is incomplete, because its other bytes never arrive.
            match forger.give(&record) {
                Ok(nothing) => assert!(nothing.is_empty() && (3..5).contains(&at), "{at}"),
                Err(Error::DecryptError | Error::InvalidMessage(_)) => {}
                Err(other) => panic!("{words}, byte {at}: {other}"),
            }
        }
    }
}

#[test]
fn records_are_accepted_once_and_in_order() {
    for words in BOTH_VERSIONS {
        let mut forger = Forger::new(words);
        let one = forger.seal(ContentType::ApplicationData, b"one");
        assert_eq!(forger.give(&one).unwrap(), b"one");
        assert_eq!(forger.give(&one), Err(Error::DecryptError), "{words}");
        let mut forger = Forger::new(words);
        forger.seal(ContentType::ApplicationData, b"one");
        let late = forger.seal(ContentType::ApplicationData, b"two");
        assert_eq!(forger.give(&late), Err(Error::DecryptError), "{words}");
    }
}

#[test]
fn lengths_have_their_limits() {
    for words in BOTH_VERSIONS {
        let longest = vec![b'x'; 1 << 14];
        let mut forger = Forger::new(words);
        assert!(
            forger
                .deliver(ContentType::ApplicationData, &longest)
                .unwrap()
                == longest
        );
        let mut forger = Forger::new(words);
        let too_long = Err(Error::PeerSentOversizedRecord);
        assert_eq!(forger.give(b"\x17\x03\x03\x48\x01"), too_long);
        // These lengths are too short for an encrypted record.
        for length in 0..24 {
            let mut forger = Forger::new(words);
            let record = [&[23, 3, 3, 0, length][..], &vec![0; length.into()]].concat();
            assert_eq!(forger.give(&record), Err(Error::DecryptError));
        }
        // Bytes that aren't TLS, and an unknown content type.
        let mut forger = Forger::new(words);
        let unknown = Error::InvalidMessage(InvalidMessage::UnknownProtocolVersion);
        assert_eq!(forger.give(b"HTTP/1.1 200 OK"), Err(unknown));
    }
}

#[test]
fn alerts_are_handled_by_their_meaning() {
    for words in BOTH_VERSIONS {
        let mut forger = Forger::new(words);
        let refused = Err(Error::AlertReceived(AlertDescription::InternalError));
        assert_eq!(forger.deliver(ContentType::Alert, &[2, 80]), refused);
        let mut forger = Forger::new(words);
        let short = Err(Error::InvalidMessage(InvalidMessage::MessageTooShort));
        assert_eq!(forger.deliver(ContentType::Alert, &[2]), short);
        // TLS 1.2 has warnings. In TLS 1.3, `user_canceled` is the only warning.
        let mut forger = Forger::new(words);
        let warning = forger.deliver(ContentType::Alert, &[1, 100]);
        assert_eq!(warning.is_ok(), words == BOTH_VERSIONS[0]);
        let mut forger = Forger::new("--tls-min 1.3");
        assert_eq!(forger.deliver(ContentType::Alert, &[1, 90]), Ok(vec![]));
        assert!(!forger.client.peer_has_closed());
        assert_eq!(forger.deliver(ContentType::Alert, &[1, 0]), Ok(vec![]));
        assert!(forger.client.peer_has_closed());
    }
}

#[test]
fn messages_not_allowed_after_the_handshake_are_rejected() {
    let misplaced = Err(PeerMisbehaved::IllegalMiddleboxChangeCipherSpec.into());
    for words in BOTH_VERSIONS {
        let mut forger = Forger::new(words);
        assert_eq!(
            forger.deliver(ContentType::ChangeCipherSpec, &[1]),
            misplaced
        );
        // A ServerHello and a CertificateRequest.
        for kind in [2, 13] {
            let mut forger = Forger::new(words);
            let made = forger.deliver(ContentType::Handshake, &[kind, 0, 0, 0]);
            let Err(Error::InappropriateHandshakeMessage { .. }) = made else {
                panic!("{words}: {made:?}");
            };
        }
    }
    // A request to renegotiate is allowed in TLS 1.2, and ignored.
    let mut forger = Forger::new(BOTH_VERSIONS[0]);
    assert_eq!(
        forger.deliver(ContentType::Handshake, &[0, 0, 0, 0]),
        Ok(vec![])
    );
    assert!(
        Forger::new(BOTH_VERSIONS[1])
            .deliver(ContentType::Handshake, &[0; 4])
            .is_err()
    );
    assert!(
        Forger::new(BOTH_VERSIONS[0])
            .deliver(ContentType::Handshake, &[24, 0, 0, 1, 0])
            .is_err()
    );
}

#[test]
fn messages_may_be_split_and_joined() {
    // A ticket: lifetime, age, nonce, the ticket itself, no extensions (RFC 8446 §4.6.1).
    let ticket = b"\0\0\x1c\x20\0\0\0\x07\x01n\0\x06ticket\0\0";
    let message = [&[4, 0, 0, ticket.len() as u8][..], ticket].concat();
    for cut in 1..message.len() {
        let mut forger = Forger::new(BOTH_VERSIONS[1]);
        let (one, two) = message.split_at(cut);
        assert_eq!(forger.deliver(ContentType::Handshake, one), Ok(vec![]));
        assert_eq!(forger.deliver(ContentType::Handshake, two), Ok(vec![]));
        let three = message.repeat(3);
        assert_eq!(forger.deliver(ContentType::Handshake, &three), Ok(vec![]));
        let data = forger.deliver(ContentType::ApplicationData, b"answer");
        assert_eq!(data.unwrap(), b"answer");
        // No other record may come between the parts of a message.
        assert_eq!(forger.deliver(ContentType::Handshake, one), Ok(vec![]));
        let between = Err(PeerMisbehaved::MessageInterleavedWithHandshakeMessage.into());
        assert_eq!(
            forger.deliver(ContentType::ApplicationData, b"answer"),
            between
        );
    }
    // An invalid ticket, and a ticket that is never complete.
    let mut forger = Forger::new(BOTH_VERSIONS[1]);
    assert!(
        forger
            .deliver(ContentType::Handshake, &[4, 0, 0, 1, 0])
            .is_err()
    );
    let mut forger = Forger::new(BOTH_VERSIONS[1]);
    let too_long = Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge);
    let made = forger.deliver(ContentType::Handshake, &[4, 1, 0, 0]);
    assert_eq!(made, Err(too_long));
}

#[test]
fn a_key_update_ends_its_record_and_is_well_formed() {
    let mut forger = Forger::new(BOTH_VERSIONS[1]);
    let twice = forger.deliver(ContentType::Handshake, &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0]);
    assert_eq!(
        twice,
        Err(PeerMisbehaved::KeyEpochWithPendingFragment.into())
    );
    let malformed = Error::InvalidMessage(InvalidMessage::InvalidKeyUpdate);
    for payload in [&[24, 0, 0, 1, 2][..], &[24, 0, 0, 0], &[24, 0, 0, 2, 0, 0]] {
        let mut forger = Forger::new(BOTH_VERSIONS[1]);
        let made = forger.deliver(ContentType::Handshake, payload);
        assert_eq!(made, Err(malformed.clone()), "{payload:?}");
    }
}

#[test]
fn a_peer_that_sends_only_idle_records_is_rejected() {
    for (words, content, plain) in [
        (BOTH_VERSIONS[0], ContentType::ApplicationData, &b""[..]),
        (BOTH_VERSIONS[1], ContentType::ApplicationData, b""),
        (BOTH_VERSIONS[0], ContentType::Alert, &[1, 100]),
        (BOTH_VERSIONS[0], ContentType::Handshake, &[0, 0, 0, 0]),
        (
            BOTH_VERSIONS[1],
            ContentType::Handshake,
            &[4, 0, 0xff, 0xff],
        ),
    ] {
        let mut forger = Forger::new(words);
        for _ in 0..30 {
            forger.deliver(content, plain).unwrap();
            if content != ContentType::Handshake {
                forger.deliver(content, plain).unwrap();
                assert_eq!(
                    forger.deliver(ContentType::ApplicationData, b"x").unwrap(),
                    b"x"
                );
            }
        }
        let flooded = (0..40).find_map(|_| forger.deliver(content, plain).err());
        assert!(flooded.is_some(), "{words} {content:?}");
    }
}

#[test]
fn any_number_of_tickets_is_accepted() {
    // Lifetime, age_add, nonce, ticket and no extensions (RFC 8446 §4.6.1).
    let ticket = [0, 0, 0, 60, 0, 0, 0, 0, 1, 9, 0, 2, 8, 8, 0, 0];
    let message = [&[4, 0, 0, ticket.len() as u8][..], &ticket].concat();
    for words in ["--tls-min 1.3", "--tls-min 1.3 --no-resumption"] {
        let mut forger = Forger::new(words);
        for _ in 0..500 {
            forger.deliver(ContentType::Handshake, &message).unwrap();
        }
        assert_eq!(
            forger.deliver(ContentType::ApplicationData, b"x").unwrap(),
            b"x"
        );
    }
}

#[test]
fn every_encrypted_record_is_read_or_rejected() {
    use rand::{Rng, RngExt, SeedableRng};
    for seed in 0..300 {
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let mut forger = Forger::new(BOTH_VERSIONS[seed as usize % 2]);
        let mut data = Vec::new();
        let mut received = Vec::new();
        for _ in 0..50 {
            let content = match random.random_range(0..6) {
                0 => ContentType::Handshake,
                1 => ContentType::Alert,
                _ => ContentType::ApplicationData,
            };
            let mut plain = vec![0; random.random_range(0..40)];
            random.fill_bytes(&mut plain);
            if content == ContentType::Handshake && plain.len() > 4 {
                plain[..3].copy_from_slice(&[[0, 4, 24][random.random_range(0..3)], 0, 0]);
            }
            match forger.deliver(content, &plain) {
                Ok(made) => received.extend(made),
                Err(_) => break,
            }
            if content == ContentType::ApplicationData && !forger.client.peer_has_closed() {
                data.extend(plain);
            }
        }
        assert_eq!(received, data, "seed {seed}");
    }
}

#[test]
fn data_may_be_padded() {
    let mut forger = Forger::new(BOTH_VERSIONS[1]);
    // Bytes in the content that look like padding belong to the content.
    assert_eq!(
        forger
            .deliver(ContentType::ApplicationData, b"x\0\0")
            .unwrap(),
        b"x\0\0"
    );
}

#[test]
fn garbage_instead_of_a_handshake_is_refused_in_bounded_memory() {
    use rand::{Rng, SeedableRng};
    let client = client("", 1);
    for seed in 0..400 {
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let mut tls = Tls::new(&client, &name()).unwrap();
        let mut buffers = TlsBuffers::default();
        let mut out = Vec::new();
        tls.take_out(b"", &mut out);
        let mut garbage = vec![0; 200_000];
        random.fill_bytes(&mut garbage);
        if seed % 2 == 0 {
            // Valid records of a handshake that never ends.
            for record in garbage.chunks_mut(1000) {
                record[..5].copy_from_slice(&[22, 3, 3, 3, 0xe3]);
            }
            garbage[5..9].copy_from_slice(&[2, 0, 0xff, 0xff]);
        }
        let refused = garbage
            .chunks(1 + seed as usize * 13)
            .find_map(|mut piece| tls.receive(&mut piece, &mut buffers).err());
        assert!(refused.is_some(), "seed {seed}");
    }
}
