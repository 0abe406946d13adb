//! Whether a server is who it says it is.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

/// `--insecure`: any certificate will do, but the handshake's signatures are still checked.
#[derive(Debug)]
pub(super) struct AcceptAny(pub(super) WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// How long a verdict on a certificate holds.
const HOLDS: Duration = Duration::from_secs(60);
/// Certificates that verdicts are kept for.
const MOST_KEPT: usize = 32;

/// Remembers for a minute which certificates another verifier found good, as browsers do for
/// longer, so that a load of full handshakes doesn't follow the same chain to the same root each
/// time. The verdict holds for the very bytes that it was given on and for the same name. The
/// signature by which a server shows that the certificate is its own is checked every time, and a
/// certificate that was found bad is looked at again.
#[derive(Debug)]
pub(super) struct Remembering {
    verifier: Arc<dyn ServerCertVerifier>,
    good: Mutex<Vec<Good>>,
}

#[derive(Debug)]
struct Good {
    /// The server's own first.
    chain: Vec<CertificateDer<'static>>,
    name: ServerName<'static>,
    ocsp: Vec<u8>,
    from: UnixTime,
}

impl Good {
    fn is_of(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
    ) -> bool {
        self.chain
            .split_first()
            .is_some_and(|(first, others)| first == end_entity && others == intermediates)
            && self.name == *name
            && self.ocsp == ocsp
    }
}

impl Remembering {
    pub(super) fn new(verifier: Arc<dyn ServerCertVerifier>) -> Remembering {
        Remembering {
            verifier,
            good: Mutex::default(),
        }
    }
}

impl ServerCertVerifier for Remembering {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that was set back ends a verdict too.
        good.retain(|one| {
            now.as_secs()
                .checked_sub(one.from.as_secs())
                .is_some_and(|age| age < HOLDS.as_secs())
        });
        if good
            .iter()
            .any(|one| one.is_of(end_entity, intermediates, server_name, ocsp_response))
        {
            return Ok(ServerCertVerified::assertion());
        }
        let verdict = self.verifier.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )?;
        if good.len() < MOST_KEPT {
            let chain = std::iter::once(end_entity).chain(intermediates);
            good.push(Good {
                chain: chain.map(|one| one.clone().into_owned()).collect(),
                name: server_name.to_owned(),
                ocsp: ocsp_response.to_vec(),
                from: now,
            });
        }
        Ok(verdict)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
