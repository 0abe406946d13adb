//! What the doctor says of a server's cryptography.

use super::super::line::{Level, Line, Seen, Topic};
use super::{AES_NI, Acceleration, Build, Crypto, MASK, PCLMULQDQ, Part, Speed};

/// A server that runs a library at less than this share of its speed is masked in part.
const PARTLY: f64 = 0.8;

const WHY: &str = "every byte over TLS is encrypted by it: without the processor's instructions \
    that costs several times the CPU, and it looks like a slow server";

const ACCELERATED: Topic = Topic {
    id: "crypto-accelerated",
    expected: "AES several times faster with the processor's instructions than with them masked",
    why: WHY,
    change: "nothing",
    source: "OPENSSL_ia32cap(3)",
};

const SPEED: Topic = Topic {
    id: "crypto-speed",
    expected: "1.5 cycles a byte or fewer with the processor's instructions; without them it is 8 \
        or more",
    change: "nothing, if it is fast",
    ..ACCELERATED
};

const NONE: Topic = Topic {
    id: "crypto-none",
    expected: "a libcrypto where the server speaks TLS",
    why: "there is nothing to be slow",
    change: "nothing",
    source: "proc_pid_maps(5)",
};

const UNACCELERATED: Topic = Topic {
    id: "crypto-unaccelerated",
    change: "use a libcrypto that is built with assembly: the distribution's, or one configured \
        without no-asm; LD_LIBRARY_PATH, or libmap.conf(5) on FreeBSD, puts it in the place of \
        this one",
    source: "OPENSSL_ia32cap(3); \"FreeBSD Nginx Performance\" (Devin Teske, 2017): \
        openssl speed with and without the mask",
    ..ACCELERATED
};

const NO_ASSEMBLY: Topic = Topic {
    id: "crypto-no-assembly",
    expected: "a libcrypto that is built with assembly",
    why: "handshakes cost more, too: SHA-256, P-256 and big numbers have their fast code in \
        assembly only",
    change: "configure OpenSSL without no-asm, or use the distribution's library",
    source: "INSTALL.md of OpenSSL, no-asm; CPUINFO of openssl-version(1)",
};

const MASKED_PARTLY: Topic = Topic {
    id: "crypto-masked-partly",
    expected: "all that the processor has",
    why: "encryption is slower than this processor can",
    change: "start the server without OPENSSL_ia32cap in its environment",
    source: "OPENSSL_ia32cap(3)",
};

const REPLACED: Topic = Topic {
    id: "crypto-replaced",
    expected: "the file that lies at its path",
    why: "the server runs the older library until it is started again: neither its fixes nor its \
        speed are those that the package's version says",
    change: "restart the server",
    source: "proc_pid_maps(5), (deleted)",
};

const SEVERAL: Topic = Topic {
    id: "crypto-several",
    expected: "one libcrypto",
    why: "only one of them encrypts for TLS; the first mapped one was measured",
    change: "find with lsof or ldd which module brings the other one",
    source: "ld.so(8)",
};

/// What is said of a server's cryptography.
pub(in super::super) fn lines(crypto: &Crypto) -> Seen {
    let mut seen = Seen {
        unknown: crypto.unknown.clone(),
        ..Seen::default()
    };
    let text = |level, topic: &Topic, text: String| topic.line(level, text);
    match crypto.acceleration {
        Acceleration::Used => {
            seen.line(text(Level::Ok, &ACCELERATED, compared(crypto)));
            seen.lines.extend(masked_partly(crypto));
        }
        Acceleration::NotOnThisProcessor => {
            let said = format!(
                "{}; this processor has no instructions for AES",
                compared(crypto)
            );
            let line = text(Level::Note, &ACCELERATED, said);
            seen.line(line.changed_by("another processor, or ChaCha20-Poly1305 first"));
        }
        Acceleration::Masked => {
            let said = unaccelerated(crypto).unwrap_or_default();
            let line = text(Level::Error, &UNACCELERATED, said);
            let change = format!("start the server without {} in its environment", MASK.0);
            seen.line(line.changed_by(change));
        }
        Acceleration::NotUsed => {
            let said = unaccelerated(crypto).unwrap_or_default();
            seen.line(text(Level::Error, &UNACCELERATED, said));
        }
        Acceleration::Unknown => {
            let rate = crypto.speed("aes-128-gcm").and_then(|speed| speed.on);
            seen.lines.extend(rate.map(|rate| {
                let said = format!(
                    "{}: AES-128-GCM at {}{}",
                    named(crypto),
                    bytes_per_s(rate),
                    cycles(crypto)
                );
                SPEED.line(Level::Note, said)
            }));
        }
    }
    if crypto.mapped.is_empty() && crypto.traces.is_empty() && crypto.unknown.is_empty() {
        seen.line(NONE.line(Level::Ok, "no TLS library is mapped or built in"));
    }
    if crypto.build.assembly == Some(false) {
        seen.line(NO_ASSEMBLY.line(Level::Warning, built_without(crypto)));
    }
    for library in crypto.mapped.iter().filter(|library| library.replaced) {
        let said = format!("{} was replaced or removed since", library.path.display());
        seen.line(REPLACED.line(Level::Warning, said));
    }
    let several: Vec<String> = crypto
        .mapped
        .iter()
        .filter(|library| library.part == Part::Crypto)
        .map(|library| library.path.display().to_string())
        .collect();
    if several.len() > 1 {
        seen.line(SEVERAL.line(Level::Note, several.join(", ")));
    }
    seen
}

/// The sentence about a server, or a library, that encrypts without the processor's instructions;
/// `None` where it doesn't, or nobody can tell.
pub(super) fn unaccelerated(crypto: &Crypto) -> Option<String> {
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
                "{library} could use the processor's instructions for AES, but this process runs \
                 with them masked ({}): AES-128-GCM at {} instead of {}",
                mask_seen(crypto),
                bytes_per_s(server),
                bytes_per_s(on)
            ))
        }
        _ => None,
    }
}

/// The library and its version.
fn named(crypto: &Crypto) -> String {
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

fn compared(crypto: &Crypto) -> String {
    format!("{}: {}", named(crypto), rates(crypto))
}

/// AES-128-GCM on and masked, and how many times that is.
fn rates(crypto: &Crypto) -> String {
    let speed = crypto.speed("aes-128-gcm");
    let rate = |of: fn(&Speed) -> Option<f64>| {
        speed.and_then(of).map_or("unknown".to_owned(), bytes_per_s)
    };
    format!(
        "AES-128-GCM at {}{}, {:.1} times the {} that it reaches with the processor's instructions \
         masked",
        rate(|speed| speed.on),
        cycles(crypto),
        crypto.ratio.unwrap_or_default(),
        rate(|speed| speed.masked),
    )
}

/// ` (0.5 cycles a byte)`, where the processor tells its frequency.
fn cycles(crypto: &Crypto) -> String {
    let cycles = crypto.cycles_per_byte;
    cycles.map_or(String::new(), |cycles| {
        format!(" ({cycles:.1} cycles a byte)")
    })
}

/// Where the mask was seen.
fn mask_seen(crypto: &Crypto) -> String {
    if let Some(words) = &crypto.capabilities_in_process {
        let lost = crypto.capabilities.first().unwrap_or(&0) & !words.first().unwrap_or(&0);
        let mut names = Vec::new();
        names.extend((lost & AES_NI != 0).then_some("AES-NI"));
        names.extend((lost & PCLMULQDQ != 0).then_some("PCLMULQDQ"));
        if !names.is_empty() {
            return format!("seen in its memory: no {}", names.join(", no "));
        }
        return "seen in its memory".to_owned();
    }
    let value = crypto.environment.as_deref().unwrap_or("?");
    format!("{}={value} in its environment", MASK.0)
}

fn masked_partly(crypto: &Crypto) -> Option<Line> {
    let speed = crypto.speed("aes-128-gcm")?;
    let (server, on) = (speed.as_server?, speed.on?);
    (server < PARTLY * on).then(|| {
        let said = format!(
            "{} ({}): AES-128-GCM at {} instead of {}",
            named(crypto),
            mask_seen(crypto),
            bytes_per_s(server),
            bytes_per_s(on)
        );
        MASKED_PARTLY.line(Level::Warning, said)
    })
}

fn built_without(crypto: &Crypto) -> String {
    let Build {
        cpu_info, compiler, ..
    } = &crypto.build;
    let proof = match (cpu_info, compiler) {
        (Some(info), _) => format!("it says {info}"),
        (None, Some(compiler)) => format!("built with {compiler}"),
        (None, None) => String::new(),
    };
    let rate = |algorithm: &str| {
        let rate = crypto.speed(algorithm).and_then(|speed| speed.on)?;
        Some(match algorithm.starts_with("sha") {
            true => format!("{algorithm} {}", bytes_per_s(rate)),
            false => format!("{algorithm} {rate:.0}/s"),
        })
    };
    let rates: Vec<String> = ["sha-256", "p256-sign", "p256-derive", "x25519-derive"]
        .into_iter()
        .filter_map(rate)
        .collect();
    format!("{}: {proof}; {}", named(crypto), rates.join(", "))
}

/// `8.10 GB/s`.
fn bytes_per_s(rate: f64) -> String {
    match rate {
        r if r >= 1e9 => format!("{:.2} GB/s", r / 1e9),
        r => format!("{:.0} MB/s", r / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Mapped;
    use super::*;

    #[test]
    fn rates_have_units() {
        assert_eq!(bytes_per_s(8.104e9), "8.10 GB/s");
        assert_eq!(bytes_per_s(123.4e6), "123 MB/s");
    }

    #[test]
    fn the_mask_is_told_by_what_is_missing() {
        let mut crypto = Crypto::new();
        crypto.environment = Some("~0x1".to_owned());
        assert_eq!(
            mask_seen(&crypto),
            "OPENSSL_ia32cap=~0x1 in its environment".replace("OPENSSL_ia32cap", MASK.0)
        );
        crypto.capabilities = vec![u64::MAX, 3];
        crypto.capabilities_in_process = Some(vec![!(AES_NI | PCLMULQDQ), 3]);
        let expected = "seen in its memory: no AES-NI, no PCLMULQDQ";
        assert_eq!(mask_seen(&crypto), expected);
    }

    #[test]
    fn every_state_has_its_line() {
        let mut crypto = Crypto::new();
        assert_eq!(lines(&crypto).lines[0].id, "crypto-none");
        crypto
            .mapped
            .push(Mapped::of("/lib/libcrypto.so.3", Part::Crypto));
        assert!(lines(&crypto).lines.is_empty());
        crypto.acceleration = Acceleration::NotUsed;
        crypto.build.assembly = Some(false);
        crypto.build.cpu_info = Some("CPUINFO: N/A".to_owned());
        let seen = lines(&crypto).lines;
        let brief: Vec<_> = seen.iter().map(|line| (line.id, line.level)).collect();
        let expected = [
            ("crypto-unaccelerated", Level::Error),
            ("crypto-no-assembly", Level::Warning),
        ];
        assert_eq!(brief, expected);
        crypto.acceleration = Acceleration::Used;
        assert_eq!(lines(&crypto).lines[0].level, Level::Ok);
    }
}
