//! Checks of a server's cryptographic library.

use prony_record::number;

use super::check::{CheckResults, CheckStatus, CheckTopic, DoctorCheck};
use crate::crypto::{Acceleration, CryptoBuild, CryptoReport, LibraryKind, MASK};

/// Fraction of the library's full speed below which the server's CPU capabilities count as partly
/// masked.
const PARTIAL_MASK_RATIO: f64 = 0.8;

const WHY: &str = "the library encrypts every byte sent over TLS; without AES instructions this \
    takes several times the CPU time, and the server appears slow";

const ACCELERATED: CheckTopic = CheckTopic {
    id: "crypto-accelerated",
    expected: "AES is several times faster with AES instructions than without",
    why: WHY,
    change: "nothing",
    source: "OPENSSL_ia32cap(3)",
};

const SPEED: CheckTopic = CheckTopic {
    id: "crypto-speed",
    expected: "at most 1.5 cycles per byte with the AES instructions (8 or more without them)",
    change: "nothing, if the speed is in the expected range",
    ..ACCELERATED
};

const NONE: CheckTopic = CheckTopic {
    id: "crypto-none",
    expected: "a libcrypto, if the server uses TLS",
    why: "a server without a libcrypto can't have a slow one",
    change: "nothing",
    source: "proc_pid_maps(5)",
};

const UNACCELERATED: CheckTopic = CheckTopic {
    id: "crypto-unaccelerated",
    change: "use a libcrypto that is built with assembly, such as the distribution's, or one \
        configured without no-asm; LD_LIBRARY_PATH selects it",
    source: "OPENSSL_ia32cap(3); \"FreeBSD Nginx Performance\" (Devin Teske, 2017): \
        openssl speed with and without the mask",
    ..ACCELERATED
};

const NO_ASSEMBLY: CheckTopic = CheckTopic {
    id: "crypto-no-assembly",
    expected: "a libcrypto that is built with assembly",
    why: "handshakes are slower as well, because the fast code for SHA-256, P-256 and big numbers \
        exists only in assembly",
    change: "configure OpenSSL without no-asm, or use the distribution's library",
    source: "INSTALL.md of OpenSSL, no-asm; CPUINFO of openssl-version(1)",
};

const MASKED_PARTLY: CheckTopic = CheckTopic {
    id: "crypto-masked-partly",
    expected: "all capabilities of the processor",
    why: "encryption is slower than on the unmasked processor",
    change: "start the server without OPENSSL_ia32cap in its environment",
    source: "OPENSSL_ia32cap(3)",
};

const REPLACED: CheckTopic = CheckTopic {
    id: "crypto-replaced",
    expected: "the file that is now at the library's path",
    why: "until the server is restarted, it uses the old library, which lacks the fixes and \
        optimizations of the installed package",
    change: "restart the server",
    source: "proc_pid_maps(5), (deleted)",
};

const SEVERAL: CheckTopic = CheckTopic {
    id: "crypto-several",
    expected: "one libcrypto",
    why: "only one libcrypto does the TLS encryption; the one that was mapped first was measured",
    change: "use lsof or ldd to find the module that loads the other libcrypto",
    source: "ld.so(8)",
};

/// Checks the cryptographic library of a server.
pub(super) fn check_crypto(crypto: &CryptoReport) -> CheckResults {
    let mut results = CheckResults {
        undetermined: crypto.undetermined.clone(),
        ..CheckResults::default()
    };
    check_acceleration(crypto, &mut results);
    if crypto.mapped.is_empty() && crypto.built_in.is_empty() && crypto.undetermined.is_empty() {
        results.add(NONE.check(CheckStatus::Ok, "no TLS library is mapped or built in"));
    }
    if crypto.build.assembly == Some(false) {
        results.add(NO_ASSEMBLY.check(CheckStatus::Warning, built_without(crypto)));
    }
    for library in crypto.mapped.iter().filter(|library| library.replaced) {
        let text = format!(
            "{} was replaced or removed after the server loaded it",
            library.path.display()
        );
        results.add(REPLACED.check(CheckStatus::Warning, text));
    }
    let several: Vec<String> = crypto
        .mapped
        .iter()
        .filter(|library| library.kind == LibraryKind::Crypto)
        .map(|library| library.path.display().to_string())
        .collect();
    if several.len() > 1 {
        results.add(SEVERAL.check(CheckStatus::Note, several.join(", ")));
    }
    results
}

fn check_acceleration(crypto: &CryptoReport, results: &mut CheckResults) {
    let without = || {
        crypto
            .unaccelerated()
            .map(|it| it.phrase())
            .unwrap_or_default()
    };
    match crypto.acceleration {
        Acceleration::Used => {
            results.add(ACCELERATED.check(CheckStatus::Ok, crypto.library_speed().compared()));
            results.checks.extend(partly_masked(crypto));
        }
        Acceleration::NotOnThisProcessor => {
            let text = format!(
                "{}; this processor has no AES instructions",
                crypto.library_speed().compared()
            );
            let check = ACCELERATED.check(CheckStatus::Note, text);
            results.add(check.with_change("use another processor, or prefer ChaCha20-Poly1305"));
        }
        Acceleration::Masked => {
            let check = UNACCELERATED.check(CheckStatus::Error, without());
            let change = format!("start the server without {} in its environment", MASK.0);
            results.add(check.with_change(change));
        }
        Acceleration::NotUsed => {
            results.add(UNACCELERATED.check(CheckStatus::Error, without()));
        }
        Acceleration::Unknown => {
            let rate = crypto.speed("aes-128-gcm").and_then(|speed| speed.on);
            results.checks.extend(rate.map(|rate| {
                let text = format!(
                    "{}: AES-128-GCM at {}{}",
                    crypto.library_speed().named(),
                    number::bytes_per_s(rate),
                    crypto.library_speed().cycles()
                );
                SPEED.check(CheckStatus::Note, text)
            }));
        }
    }
}

/// Compares the library's speed under the server's mask with its speed without a mask.
fn partly_masked(crypto: &CryptoReport) -> Option<DoctorCheck> {
    let speed = crypto.speed("aes-128-gcm")?;
    let (server, on) = (speed.as_server?, speed.on?);
    (server < PARTIAL_MASK_RATIO * on).then(|| {
        let text = format!(
            "{} ({}): AES-128-GCM at {} instead of {}",
            crypto.library_speed().named(),
            crypto.mask_evidence().text(),
            number::bytes_per_s(server),
            number::bytes_per_s(on)
        );
        MASKED_PARTLY.check(CheckStatus::Warning, text)
    })
}

fn built_without(crypto: &CryptoReport) -> String {
    let CryptoBuild {
        cpu_info, compiler, ..
    } = &crypto.build;
    let proof = match (cpu_info, compiler) {
        (Some(info), _) => format!("the library reports {info}"),
        (None, Some(compiler)) => format!("built with {compiler}"),
        (None, None) => String::new(),
    };
    let rate = |algorithm: &str| {
        let rate = crypto.speed(algorithm).and_then(|speed| speed.on)?;
        Some(if algorithm.starts_with("sha") {
            format!("{algorithm} {}", number::bytes_per_s(rate))
        } else {
            format!("{algorithm} {rate:.0}/s")
        })
    };
    let rates: Vec<String> = ["sha-256", "p256-sign", "p256-derive", "x25519-derive"]
        .into_iter()
        .filter_map(rate)
        .collect();
    format!(
        "{}: {proof}; {}",
        crypto.library_speed().named(),
        rates.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::MappedLibrary;

    #[test]
    fn every_state_has_its_check() {
        let mut crypto = CryptoReport::default();
        assert_eq!(check_crypto(&crypto).checks[0].id, "crypto-none");
        crypto.mapped.push(MappedLibrary::of(
            "/lib/libcrypto.so.3",
            LibraryKind::Crypto,
        ));
        assert!(check_crypto(&crypto).checks.is_empty());
        crypto.acceleration = Acceleration::NotUsed;
        crypto.build.assembly = Some(false);
        crypto.build.cpu_info = Some("CPUINFO: N/A".to_owned());
        let checks = check_crypto(&crypto).checks;
        let brief: Vec<_> = checks
            .iter()
            .map(|check| (check.id, check.status))
            .collect();
        let expected = [
            ("crypto-unaccelerated", CheckStatus::Error),
            ("crypto-no-assembly", CheckStatus::Warning),
        ];
        assert_eq!(brief, expected);
        crypto.acceleration = Acceleration::Used;
        assert_eq!(check_crypto(&crypto).checks[0].status, CheckStatus::Ok);
    }
}
