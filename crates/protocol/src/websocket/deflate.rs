//! Parameters of permessage-deflate (RFC 7692 §7).

use std::fmt;

/// Name of the extension.
const NAME: &str = "permessage-deflate";
/// Largest window, in bits, which applies without a parameter.
pub const WINDOW_BITS_MAX: u8 = 15;
/// Smallest window, in bits.
const WINDOW_BITS_MIN: u8 = 8;

/// The parameters of an offer, or those on which both sides agreed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeflateParameters {
    /// True if the server compresses each message on its own.
    pub server_no_context_takeover: bool,
    /// True if the client compresses each message on its own.
    pub client_no_context_takeover: bool,
    /// Window of the server's compression, in bits.
    pub server_max_window_bits: Option<u8>,
    /// Window of the client's compression, in bits. An offer permits the server to limit it.
    pub client_max_window_bits: Option<u8>,
}

impl DeflateParameters {
    /// Parses the parameters of an offer, separated by semicolons. `client_max_window_bits` needs no
    /// value.
    ///
    /// Returns `None` if a parameter is unknown, given twice, or has an invalid value.
    #[must_use]
    pub fn parse_offer(text: &str) -> Option<DeflateParameters> {
        let parts = text.split(';').map(str::trim);
        DeflateParameters::parse(parts.filter(|it| !it.is_empty()), true)
    }

    fn parse<'a>(
        parts: impl Iterator<Item = &'a str>,
        is_offer: bool,
    ) -> Option<DeflateParameters> {
        let mut parameters = DeflateParameters::default();
        for part in parts {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => (name.trim(), Some(value.trim().trim_matches('"'))),
                None => (part, None),
            };
            let bits = || -> Option<u8> {
                let value = value.filter(|it| !it.starts_with(['0', '+']))?;
                let bits = value.parse().ok()?;
                (WINDOW_BITS_MIN..=WINDOW_BITS_MAX)
                    .contains(&bits)
                    .then_some(bits)
            };
            let is_new = match (name, value) {
                ("server_no_context_takeover", None) => {
                    !std::mem::replace(&mut parameters.server_no_context_takeover, true)
                }
                ("client_no_context_takeover", None) => {
                    !std::mem::replace(&mut parameters.client_no_context_takeover, true)
                }
                ("server_max_window_bits", Some(_)) => {
                    parameters.server_max_window_bits.replace(bits()?).is_none()
                }
                ("client_max_window_bits", None) if is_offer => {
                    let bits = &mut parameters.client_max_window_bits;
                    bits.replace(WINDOW_BITS_MAX).is_none()
                }
                ("client_max_window_bits", Some(_)) => {
                    parameters.client_max_window_bits.replace(bits()?).is_none()
                }
                _ => false,
            };
            if !is_new {
                return None;
            }
        }
        Some(parameters)
    }

    /// Returns the parameters of a response to this offer, the value of `Sec-WebSocket-Extensions`.
    /// Returns `None` if the response doesn't fit the offer (RFC 7692 §7.1).
    pub(super) fn agree(&self, response: &str) -> Option<DeflateParameters> {
        let mut parts = response.split(';').map(str::trim);
        if parts.next() != Some(NAME) {
            return None;
        }
        let agreed = DeflateParameters::parse(parts, false)?;
        let within = |agreed: Option<u8>, offered: Option<u8>| match offered {
            Some(most) => agreed.is_some_and(|bits| bits <= most),
            None => true,
        };
        let fits = agreed.server_no_context_takeover >= self.server_no_context_takeover
            && within(agreed.server_max_window_bits, self.server_max_window_bits)
            && (agreed.client_max_window_bits.is_none() || self.client_max_window_bits.is_some());
        fits.then_some(DeflateParameters {
            // The client keeps to what it has announced, even if the response doesn't repeat it.
            client_no_context_takeover: agreed.client_no_context_takeover
                || self.client_no_context_takeover,
            client_max_window_bits: match (
                agreed.client_max_window_bits,
                self.client_max_window_bits,
            ) {
                (Some(agreed), Some(offered)) => Some(agreed.min(offered)),
                (agreed, offered) => agreed.or(offered),
            },
            ..agreed
        })
    }
}

/// Writes the offer as the value of `Sec-WebSocket-Extensions`.
impl fmt::Display for DeflateParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)?;
        if self.server_no_context_takeover {
            f.write_str("; server_no_context_takeover")?;
        }
        if self.client_no_context_takeover {
            f.write_str("; client_no_context_takeover")?;
        }
        if let Some(bits) = self.server_max_window_bits {
            write!(f, "; server_max_window_bits={bits}")?;
        }
        match self.client_max_window_bits {
            Some(WINDOW_BITS_MAX) => f.write_str("; client_max_window_bits"),
            Some(bits) => write!(f, "; client_max_window_bits={bits}"),
            None => Ok(()),
        }
    }
}
