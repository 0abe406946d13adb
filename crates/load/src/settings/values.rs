//! Types of settings that are written as text, such as `1.1`, `0-3` or `per-user`.

use std::fmt;
use std::str::FromStr;

use prony_record::quantity;
use sha2::Digest as _;

use crate::values::error::SettingsError;
use crate::values::pacing::Arrivals;

/// Declares an enum whose variants are written as words.
macro_rules! words {
    (
        $(#[$about:meta])*
        pub enum $name:ident {
            $($(#[$about_variant:meta])* $variant:ident = $word:literal: $meaning:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $(#[doc = $meaning] $(#[$about_variant])* $variant,)+
        }

        impl $name {
            /// The words that represent the variants, each with its meaning.
            pub(super) const CHOICES: &[(&str, &str)] = &[$(($word, $meaning)),+];

            /// Returns the word that represents this variant.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }
        }

        impl FromStr for $name {
            type Err = SettingsError;

            fn from_str(text: &str) -> Result<$name, SettingsError> {
                match text {
                    $($word => Ok($name::$variant),)+
                    _ => Err(not_one_of(text, $name::CHOICES)),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

fn not_one_of(text: &str, choices: &[(&str, &str)]) -> SettingsError {
    let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
    format!("\"{text}\" is not one of {}", words.join(", ")).into()
}

words! {
    /// Order in which the requests of a list are sent.
    pub enum RequestOrder {
        Sequence = "sequence": "In list order, shared by all workers",
        PerUser = "per-user": "In list order, by each virtual user",
        Random = "random": "At random with equal probability, reproducible with --seed",
        Weighted = "weighted": "At random with the weights in the list, reproducible with --seed",
    }
}

words! {
    /// Order in which requests take the rows of the data file.
    pub enum DataOrder {
        Sequence = "sequence": "In file order, shared by all workers",
        Random = "random": "At random, reproducible with --seed",
    }
}

words! {
    /// Connections on which each message of a fan-out must arrive.
    pub enum FanOut {
        All = "all": "On all connections, also the one that sent it",
        Others = "others": "On all connections except the one that sent it",
    }
}

words! {
    /// HTTP version of the requests.
    pub enum HttpVersion {
        Http10 = "1.0": "HTTP/1.0",
        Http11 = "1.1": "HTTP/1.1",
        Http2 = "2": "HTTP/2: by ALPN over TLS, with prior knowledge in cleartext",
        Http3 = "3": "HTTP/3 over QUIC",
    }
}

words! {
    /// Order in which connections take source addresses.
    #[derive(Default)]
    pub enum SourceOrder {
        #[default]
        RoundRobin = "round-robin": "Each connection takes the next address",
        Random = "random": "Each connection takes a random address, reproducible with --seed",
        PerUser = "per-user": "Each virtual user keeps its address when it reconnects; --connections sets the number of users",
    }
}

words! {
    /// Choice among the addresses of a host that has several.
    #[derive(Default)]
    pub enum AddressOrder {
        #[default]
        First = "first": "All connections use the first address that accepts one",
        All = "all": "Each connection takes the next address",
        Random = "random": "Each connection takes a random address, reproducible with --seed",
    }
}

words! {
    /// Version of the PROXY protocol.
    pub enum ProxyVersion {
        V1 = "v1": "A line of text",
        V2 = "v2": "Binary",
    }
}

words! {
    /// Kernel interface for sockets.
    pub enum IoChoice {
        Auto = "auto": "The fastest that this system supports",
        Uring = "uring": "Completions: io_uring, on Linux 6.1 and later",
        Poll = "poll": "Readiness: epoll",
        Xdp = "xdp": "prony's own TCP over AF_XDP; needs --interface, root, and Linux 5.11 or later",
    }
}

words! {
    /// Division of the body of a streamed response into events.
    pub enum EventChoice {
        ServerSent = "sse": "Server-sent events (text/event-stream): blocks with data lines",
        Lines = "lines": "Lines that aren't empty, such as JSON Lines",
        Chunks = "chunks": "Chunks of HTTP/1.1, or DATA frames of HTTP/2 and 3",
    }
}

/// MAC address of the next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayMac(pub prony_xdp::MacAddress);

impl FromStr for GatewayMac {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<GatewayMac, SettingsError> {
        Ok(GatewayMac(text.parse()?))
    }
}

impl fmt::Display for GatewayMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Arrivals {
    /// The words that represent the variants, each with its meaning.
    pub(super) const CHOICES: &[(&str, &str)] =
        &[("constant", "Equal gaps"), ("poisson", "Exponential gaps")];
}

impl FromStr for Arrivals {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Arrivals, SettingsError> {
        match text {
            "constant" => Ok(Arrivals::Constant),
            "poisson" => Ok(Arrivals::Poisson),
            _ => Err(not_one_of(text, Arrivals::CHOICES)),
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A TLS version that the library supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl FromStr for TlsVersion {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<TlsVersion, SettingsError> {
        match text {
            "1.2" => Ok(TlsVersion::Tls12),
            "1.3" => Ok(TlsVersion::Tls13),
            _ => {
                let version = match text {
                    "1.0" | "1.1" => format!("TLS {text}"),
                    _ => format!("\"{text}\""),
                };
                let cause = format!("{version} is not supported by this TLS library");
                Err(SettingsError::from(cause).hint("use 1.2 or 1.3"))
            }
        }
    }
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TlsVersion::Tls12 => "1.2",
            TlsVersion::Tls13 => "1.3",
        })
    }
}

/// Core numbers in the order given, such as `0-3,6`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreList(pub Vec<usize>);

impl FromStr for CoreList {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<CoreList, SettingsError> {
        Ok(CoreList(quantity::cores(text)?))
    }
}

impl fmt::Display for CoreList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

/// A SHA-256 hash, written in hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sha256(pub [u8; 32]);

impl Sha256 {
    /// Returns the hash of these bytes.
    pub fn of(bytes: &[u8]) -> Sha256 {
        Sha256(sha2::Sha256::digest(bytes).into())
    }
}

impl FromStr for Sha256 {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Sha256, SettingsError> {
        let expected = || {
            SettingsError::from(format!("\"{text}\" is not a SHA-256 hash"))
                .hint("write 64 hexadecimal digits")
        };
        let digits: Option<Vec<u8>> = text
            .chars()
            .map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok()))
            .collect();
        let digits = digits
            .filter(|digits| digits.len() == 64)
            .ok_or_else(expected)?;
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Ok(Sha256(hash))
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_parsed_as_they_are_written() {
        for (name, _) in SourceOrder::CHOICES {
            assert_eq!(name.parse::<SourceOrder>().unwrap().name(), *name);
        }
        for (name, _) in Arrivals::CHOICES {
            assert_eq!(name.parse::<Arrivals>().unwrap().to_string(), *name);
        }
        let error = "upside".parse::<RequestOrder>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"upside\" is not one of sequence, per-user, random, weighted"
        );
        let hash: Sha256 = "0f".repeat(32).parse().unwrap();
        assert_eq!(hash.to_string(), "0f".repeat(32));
        let cores: CoreList = "0-2,7".parse().unwrap();
        assert_eq!(cores.to_string(), "0,1,2,7");
    }

    #[test]
    fn unsupported_tls_versions_are_refused_by_name() {
        for (text, error) in [
            ("1.1", "TLS 1.1 is not supported by this TLS library"),
            ("1.0", "use 1.2 or 1.3"),
            ("ssl3", "\"ssl3\" is not supported by this TLS library"),
        ] {
            let refused = text.parse::<TlsVersion>().unwrap_err().to_string();
            assert!(refused.contains(error), "{text}: {refused}");
        }
    }

    #[test]
    fn hashes_have_64_hexadecimal_digits() {
        assert_eq!("0f".repeat(32).parse(), Ok(Sha256([0x0f; 32])));
        assert!("0f".parse::<Sha256>().is_err());
        assert!("é".repeat(32).parse::<Sha256>().is_err());
    }
}
