//! TLS for a QUIC connection (RFC 9001), implemented by rustls.
//!
//! quinn-proto includes a rustls session, but that session exposes neither all negotiated
//! parameters nor rustls's errors.

use std::any::Any;
use std::sync::Arc;

use aws_lc_rs::aead;
use quinn_proto::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, KeyChange, Secrets, Suite, Version};

use crate::tls::{HTTP3, NegotiatedTls};

/// Version number of QUIC version 1 (RFC 9000 §15).
const VERSION_1: u32 = 1;
/// Key and nonce for the integrity tag of Retry packets (RFC 9001 §5.8).
const RETRY_KEY: [u8; 16] = [
    0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e,
];
const RETRY_NONCE: [u8; 12] = [
    0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb,
];
/// Length of a Retry packet's integrity tag, in bytes.
const RETRY_TAG_BYTES: usize = 16;

/// The result of a handshake, as far as it is known.
#[derive(Debug, Clone)]
pub(super) struct HandshakeState {
    /// The negotiated parameters, once the handshake is complete.
    pub(super) agreed: Option<NegotiatedTls>,
    /// The error that ended the handshake.
    pub(super) error: Option<rustls::Error>,
}

/// Starts the TLS sessions of a worker's connections.
pub(super) struct SessionFactory {
    config: Arc<ClientConfig>,
    /// The cipher suite of Initial packets (RFC 9001 §5.2).
    initial: Suite,
}

impl SessionFactory {
    /// Creates a factory with the cipher suite of Initial packets.
    pub(super) fn new(config: Arc<ClientConfig>, initial: Suite) -> SessionFactory {
        SessionFactory { config, initial }
    }
}

impl crypto::ClientConfig for SessionFactory {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        if version != VERSION_1 {
            return Err(ConnectError::UnsupportedVersion);
        }
        let wrong_name = |_| ConnectError::InvalidServerName(server_name.to_owned());
        let name = ServerName::try_from(server_name).map_err(wrong_name)?;
        let mut parameters = Vec::new();
        params.write(&mut parameters);
        let connection = ClientConnection::new(
            self.config.clone(),
            Version::V1,
            name.to_owned(),
            parameters,
        );
        Ok(Box::new(QuicSession {
            connection: connection.map_err(|_| ConnectError::NoDefaultClientConfig)?,
            initial: self.initial,
            next_secrets: None,
            has_reported: false,
            error: None,
        }))
    }
}

/// The TLS session of one connection.
struct QuicSession {
    connection: ClientConnection,
    initial: Suite,
    next_secrets: Option<Secrets>,
    /// True once the end of the handshake has been reported.
    has_reported: bool,
    error: Option<rustls::Error>,
}

impl QuicSession {
    fn agreed(&self) -> Option<NegotiatedTls> {
        if self.connection.is_handshaking() {
            return None;
        }
        NegotiatedTls::of(&self.connection, &[HTTP3])
    }
}

impl Session for QuicSession {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        let side = match side {
            Side::Client => rustls::Side::Client,
            Side::Server => rustls::Side::Server,
        };
        boxed(self.initial.keys(dst_cid, side, Version::V1))
    }

    /// Always returns a [`HandshakeState`], even before the handshake completes.
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(HandshakeState {
            agreed: self.agreed(),
            error: self.error.clone(),
        }))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.connection.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        Some(self.connection.is_early_data_accepted())
    }

    fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        if let Err(error) = self.connection.read_hs(buf) {
            let text = error.to_string();
            self.error = Some(error);
            return Err(match self.connection.alert() {
                Some(alert) => TransportError {
                    code: TransportErrorCode::crypto(alert.into()),
                    frame: None,
                    reason: text,
                },
                None => TransportError {
                    code: TransportErrorCode::PROTOCOL_VIOLATION,
                    frame: None,
                    reason: text,
                },
            });
        }
        let is_first = !self.connection.is_handshaking() && !self.has_reported;
        self.has_reported |= is_first;
        Ok(is_first)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(mut bytes) = self.connection.quic_transport_parameters() else {
            return Ok(None);
        };
        Ok(Some(TransportParameters::read(Side::Client, &mut bytes)?))
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let keys = match self.connection.write_hs(buf)? {
            KeyChange::Handshake { keys } => keys,
            KeyChange::OneRtt { keys, next } => {
                self.next_secrets = Some(next);
                keys
            }
        };
        Some(boxed(keys))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next_secrets.as_mut()?.next_packet_keys();
        Some(KeyPair {
            local: Box::new(keys.local),
            remote: Box::new(keys.remote),
        })
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        let Some(body_bytes) = payload.len().checked_sub(RETRY_TAG_BYTES) else {
            return false;
        };
        let (body, tag) = payload.split_at(body_bytes);
        let mut pseudo_packet = vec![orig_dst_cid.len() as u8];
        for part in [orig_dst_cid, header, body] {
            pseudo_packet.extend_from_slice(part);
        }
        let Ok(key) = aead::UnboundKey::new(&aead::AES_128_GCM, &RETRY_KEY) else {
            return false;
        };
        let nonce = aead::Nonce::assume_unique_for_key(RETRY_NONCE);
        let mut tag = tag.to_vec();
        aead::LessSafeKey::new(key)
            .open_in_place(nonce, aead::Aad::from(&pseudo_packet), &mut tag)
            .is_ok()
    }

    /// Always fails, because prony doesn't need exported keying material.
    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

fn boxed(keys: rustls::quic::Keys) -> Keys {
    Keys {
        header: KeyPair {
            local: Box::new(keys.local.header),
            remote: Box::new(keys.remote.header),
        },
        packet: KeyPair {
            local: Box::new(keys.local.packet),
            remote: Box::new(keys.remote.packet),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::quic::{QuicClient, QuicConnection};
    use crate::settings::LoadSettings;

    /// Creates a Retry packet for an Initial packet, with a new token (RFC 9000 §17.2.5).
    fn retry(initial: &[u8], number: u32) -> Vec<u8> {
        let to_bytes = usize::from(initial[5]);
        let to = &initial[6..6 + to_bytes];
        let mut packet = vec![0xf0, 0, 0, 0, 1, 0, 8];
        packet.extend([number as u8; 8]);
        packet.extend(number.to_be_bytes());
        let mut pseudo_packet = vec![to_bytes as u8];
        pseudo_packet.extend(to);
        pseudo_packet.extend(&packet);
        let key = aead::UnboundKey::new(&aead::AES_128_GCM, &RETRY_KEY).unwrap();
        let nonce = aead::Nonce::assume_unique_for_key(RETRY_NONCE);
        let aad = aead::Aad::from(&pseudo_packet);
        let key = aead::LessSafeKey::new(key);
        let tag = key.seal_in_place_separate_tag(nonce, aad, &mut []).unwrap();
        packet.extend(tag.as_ref());
        packet
    }

    #[test]
    fn only_the_first_retry_is_followed() {
        let settings = LoadSettings::from_flags("-n 1 --http 3 --insecure --groups X25519");
        let spec = settings.resolve(Some("https://127.0.0.1:1/")).unwrap();
        let client = QuicClient::new(&spec.tls.as_ref().unwrap().client(1)).unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let now = Instant::now();
        let peer = "127.0.0.1:1".parse().unwrap();
        let connect = || {
            let mut connection = QuicConnection::connect(&client, peer, &name, now).unwrap();
            let mut initial = Vec::new();
            connection.transmit(now, 1, &mut initial).unwrap();
            (connection, initial)
        };
        // A Retry packet with an invalid integrity tag is ignored.
        let (mut connection, initial) = connect();
        let mut forged = retry(&initial, 7);
        *forged.last_mut().unwrap() ^= 1;
        let length = forged.len();
        connection.receive(forged.as_slice().into(), length, None, now);
        assert!(connection.transmit(now, 1, &mut Vec::new()).is_none());
        let (mut connection, initial) = connect();
        let mut sent = 0;
        for number in 0..1000 {
            let datagram = retry(&initial, number);
            let length = datagram.len();
            connection.receive(datagram.as_slice().into(), length, None, now);
            let mut out = Vec::new();
            while connection.transmit(now, 1, &mut out).is_some() {
                assert!(out.windows(4).any(|token| token == 0u32.to_be_bytes()));
                out.clear();
                sent += 1;
            }
        }
        assert_eq!(sent, 1);
        assert!(connection.handshake_result().is_none());
    }
}
