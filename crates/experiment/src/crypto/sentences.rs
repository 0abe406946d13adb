//! Phrases about a server's cryptography, for the doctor and for findings.

use prony_record::number;

use super::{AES_NI, Acceleration, AlgorithmSpeed, CryptoReport, MASK, PCLMULQDQ};

/// Describes a server or library that encrypts without the AES instructions. Returns `None` if it
/// uses them or if their use is unknown.
pub(crate) fn unaccelerated(crypto: &CryptoReport) -> Option<String> {
    let library = named(crypto);
    match crypto.acceleration {
        Acceleration::NotUsed => {
            let built = match crypto.build.assembly {
                Some(false) => " (it is built without assembly)",
                _ => "",
            };
            Some(format!(
                "{library} is not accelerated{built}: {}",
                rates(crypto)
            ))
        }
        Acceleration::Masked => {
            let speed = crypto.speed("aes-128-gcm")?;
            let (server, on) = (speed.as_server?, speed.on?);
            Some(format!(
                "{library} could use the processor's AES instructions, but this process runs \
                 with them masked ({}): AES-128-GCM at {} instead of {}",
                mask_evidence(crypto),
                number::bytes_per_s(server),
                number::bytes_per_s(on)
            ))
        }
        _ => None,
    }
}

/// Returns the path and version of the library.
pub(crate) fn named(crypto: &CryptoReport) -> String {
    let path = crypto
        .library
        .as_deref()
        .map(|path| path.display().to_string());
    let path = path.unwrap_or_else(|| "libcrypto".to_owned());
    match &crypto.version {
        Some(version) => format!("{path} ({version})"),
        None => path,
    }
}

/// Describes the library and its speeds with and without AES instructions.
pub(crate) fn compared(crypto: &CryptoReport) -> String {
    format!("{}: {}", named(crypto), rates(crypto))
}

/// Describes the speeds of AES-128-GCM with and without AES instructions, and their ratio.
pub(crate) fn rates(crypto: &CryptoReport) -> String {
    let speed = crypto.speed("aes-128-gcm");
    let rate = |of: fn(&AlgorithmSpeed) -> Option<f64>| {
        speed
            .and_then(of)
            .map_or("unknown".to_owned(), number::bytes_per_s)
    };
    format!(
        "AES-128-GCM at {}{}, {:.1} times the {} that it reaches with the AES instructions \
         masked",
        rate(|speed| speed.on),
        cycles(crypto),
        crypto.ratio.unwrap_or_default(),
        rate(|speed| speed.masked),
    )
}

/// Formats a speed as in ` (0.5 cycles per byte)`; empty if the processor's frequency is unknown.
pub(crate) fn cycles(crypto: &CryptoReport) -> String {
    let cycles = crypto.cycles_per_byte;
    cycles.map_or(String::new(), |cycles| {
        format!(" ({cycles:.1} cycles per byte)")
    })
}

/// Describes the evidence that AES instructions are masked.
pub(crate) fn mask_evidence(crypto: &CryptoReport) -> String {
    if let Some(words) = &crypto.capabilities_in_process {
        let lost = crypto.capabilities.first().unwrap_or(&0) & !words.first().unwrap_or(&0);
        let mut names = Vec::new();
        names.extend((lost & AES_NI != 0).then_some("AES-NI"));
        names.extend((lost & PCLMULQDQ != 0).then_some("PCLMULQDQ"));
        if !names.is_empty() {
            return format!("the server's memory shows no {}", names.join(", no "));
        }
        return "according to the server's memory".to_owned();
    }
    let value = crypto.environment.as_deref().unwrap_or("?");
    format!("{}={value} in the server's environment", MASK.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_evidence_names_the_missing_instructions() {
        let mut crypto = CryptoReport {
            environment: Some("~0x1".to_owned()),
            ..CryptoReport::default()
        };
        assert_eq!(
            mask_evidence(&crypto),
            "OPENSSL_ia32cap=~0x1 in the server's environment".replace("OPENSSL_ia32cap", MASK.0)
        );
        crypto.capabilities = vec![u64::MAX, 3];
        crypto.capabilities_in_process = Some(vec![!(AES_NI | PCLMULQDQ), 3]);
        let expected = "the server's memory shows no AES-NI, no PCLMULQDQ";
        assert_eq!(mask_evidence(&crypto), expected);
    }
}
