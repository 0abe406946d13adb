//! Verification of server certificates.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved, SignatureScheme};

use super::certificate::public_key;

/// Lengths of RSA keys, in bits, with which signatures can be checked.
const RSA_BITS: std::ops::RangeInclusive<u32> = 2048..=8192;

/// Verifier for `--insecure`: accepts any certificate. Like curl, it still checks the handshake's
/// signature, unless it doesn't support the certificate's kind of key.
#[derive(Debug)]
pub(super) struct AcceptAny(pub(super) WebPkiSupportedAlgorithms);

impl AcceptAny {
    fn check(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let Some(key) = public_key(certificate) else {
            return Ok(HandshakeSignatureValid::assertion());
        };
        let mut schemes = self.0.mapping.iter();
        let scheme = schemes.find(|(scheme, _)| *scheme == signed.scheme);
        let mut algorithms = scheme.iter().flat_map(|(_, algorithms)| algorithms.iter());
        let algorithm = algorithms.find(|one| one.public_key_alg_id().as_ref() == key.algorithm);
        let has_usable_length =
            !key.is_rsa() || key.bits().is_some_and(|it| RSA_BITS.contains(&it));
        match algorithm.filter(|_| has_usable_length) {
            Some(algorithm) => algorithm
                .verify_signature(key.key, message, signed.signature())
                .map(|()| HandshakeSignatureValid::assertion())
                .map_err(|_| CertificateError::BadSignature.into()),
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }
}

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
        self.check(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// Time for which a positive result is cached.
const RESULT_LIFETIME: Duration = Duration::from_secs(60);
/// Maximum number of cached chains.
const CACHED_CHAINS_MAX: usize = 32;

/// Caches the certificate chains that another verifier accepted, for one minute each, so that a
/// load of full handshakes doesn't verify the same chain each time. (Browsers cache results for
/// longer.) A result applies only to the same bytes and the same server name. The signature that
/// proves possession of the certificate's key is checked every time, and rejections aren't cached.
#[derive(Debug)]
pub(super) struct CachingVerifier {
    verifier: Arc<dyn ServerCertVerifier>,
    /// Signature algorithms that are offered, the preferred one first.
    schemes: Arc<[SignatureScheme]>,
    good: Mutex<Vec<VerifiedChain>>,
}

#[derive(Debug)]
struct VerifiedChain {
    /// The chain, with the server's own certificate first.
    chain: Vec<CertificateDer<'static>>,
    name: ServerName<'static>,
    ocsp: Vec<u8>,
    from: UnixTime,
}

impl VerifiedChain {
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

impl CachingVerifier {
    pub(super) fn new(
        verifier: Arc<dyn ServerCertVerifier>,
        schemes: Arc<[SignatureScheme]>,
    ) -> CachingVerifier {
        CachingVerifier {
            verifier,
            schemes,
            good: Mutex::default(),
        }
    }

    /// Checks that the server used one of the offered algorithms.
    fn check_scheme(&self, signed: &DigitallySignedStruct) -> Result<(), Error> {
        if self.schemes.contains(&signed.scheme) {
            Ok(())
        } else {
            Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into())
        }
    }
}

impl ServerCertVerifier for CachingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        // After the clock was set back, a cached result may seem to be from the future. Such a
        // result is invalid, too.
        good.retain(|one| {
            now.as_secs()
                .checked_sub(one.from.as_secs())
                .is_some_and(|age| age < RESULT_LIFETIME.as_secs())
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
        if good.len() < CACHED_CHAINS_MAX {
            let chain = std::iter::once(end_entity).chain(intermediates);
            good.push(VerifiedChain {
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
        self.check_scheme(signed)?;
        self.verifier.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_scheme(signed)?;
        self.verifier.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Accepts all certificates except those that begin with 0, and counts its calls.
    #[derive(Debug, Default)]
    struct CountingVerifier(AtomicU32);

    impl ServerCertVerifier for CountingVerifier {
        fn verify_server_cert(
            &self,
            end_entity: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            self.0.fetch_add(1, Ordering::Relaxed);
            match end_entity.first() {
                Some(0) => Err(CertificateError::Expired.into()),
                _ => Ok(ServerCertVerified::assertion()),
            }
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::DecryptError)
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::DecryptError)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            Vec::new()
        }
    }

    /// Creates a chain with one certificate for each byte string.
    fn chain(certificates: &[&[u8]]) -> Vec<CertificateDer<'static>> {
        let each = certificates.iter();
        each.map(|bytes| bytes.to_vec().into()).collect()
    }

    #[test]
    fn an_accepted_chain_is_cached_for_a_minute_for_the_same_name() {
        let counting = Arc::new(CountingVerifier::default());
        let remembering = CachingVerifier::new(counting.clone(), Arc::default());
        let ask = |certificates: &[&[u8]], name: &str, ocsp: &[u8], at: u64| {
            let chain = chain(certificates);
            let name = ServerName::try_from(name.to_owned()).unwrap();
            let at = UnixTime::since_unix_epoch(Duration::from_secs(at));
            let verdict = remembering.verify_server_cert(&chain[0], &chain[1..], &name, ocsp, at);
            (verdict.is_ok(), counting.0.swap(0, Ordering::Relaxed))
        };
        let (a, b): (&[&[u8]], _) = (&[b"server", b"issuer"], "a.test");
        assert_eq!(ask(a, b, b"", 1000), (true, 1));
        assert_eq!(ask(a, b, b"", 1000), (true, 0));
        assert_eq!(ask(a, b, b"", 1059), (true, 0));
        assert_eq!(ask(a, b, b"", 1060), (true, 1), "a minute has passed");
        assert_eq!(ask(a, b, b"", 1059), (true, 1), "the clock was set back");
        // Any difference requires a new verification.
        assert_eq!(ask(&[b"server", b"other"], b, b"", 1060), (true, 1));
        assert_eq!(ask(&[b"server"], b, b"", 1060), (true, 1));
        assert_eq!(ask(&[b"issuer", b"server"], b, b"", 1060), (true, 1));
        assert_eq!(ask(a, "b.test", b"", 1060), (true, 1));
        assert_eq!(ask(a, b, b"revoked?", 1060), (true, 1));
        // Rejections aren't cached.
        for _ in 0..2 {
            assert_eq!(ask(&[b"\0"], b, b"", 1060), (false, 1));
        }
        // The cache stays small for any number of chains.
        for one in 1..100 {
            ask(&[&[1, one]], b, b"", 1060);
        }
        assert!(remembering.good.lock().unwrap().len() <= CACHED_CHAINS_MAX);
    }
}
