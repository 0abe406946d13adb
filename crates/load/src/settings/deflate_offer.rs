//! The offer of compression for WebSockets.

use std::fmt;
use std::str::FromStr;

use prony_protocol::websocket::DeflateParameters;

use crate::values::error::SettingsError;

/// Parameters of permessage-deflate that a load offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeflateOffer {
    text: String,
    parameters: DeflateParameters,
}

impl DeflateOffer {
    /// The parsed parameters.
    pub(crate) fn parameters(&self) -> DeflateParameters {
        self.parameters
    }
}

impl FromStr for DeflateOffer {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<DeflateOffer, SettingsError> {
        let parameters = DeflateParameters::parse_offer(text).ok_or_else(|| {
            SettingsError::from(format!("\"{text}\" is not a list of parameters")).hint(
                "separate server_no_context_takeover, client_no_context_takeover, \
                 server_max_window_bits=8…15 and client_max_window_bits=8…15 by semicolons",
            )
        })?;
        let text = text.to_owned();
        Ok(DeflateOffer { text, parameters })
    }
}

impl fmt::Display for DeflateOffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
