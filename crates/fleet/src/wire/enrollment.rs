//! A new agent's request to be enrolled, and the registrar's reply.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use nkeys::{KeyPair, KeyPairType};
use serde::{Deserialize, Serialize};

use crate::credentials::Secret;
use crate::names::{AgentName, TokenId};

/// An agent's request to be enrolled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrollRequest {
    /// Name that the agent requests.
    pub name: AgentName,
    /// Public key of the agent.
    pub public: String,
    /// Base64 signature with the agent's key. It proves that the requester has the private key.
    pub signature: String,
}

/// Reply of the registrar to an enrollment request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum EnrollReply {
    /// The agent is enrolled, and the server will accept its key.
    Enrolled,
    /// The request was rejected.
    Refused {
        /// Reason for the rejection, for the user.
        text: String,
    },
}

/// Returns the text that an agent signs in its request.
fn signed_text(token: &TokenId, name: &AgentName, public: &str) -> String {
    format!("prony enrollment\n{token}\n{name}\n{public}")
}

impl EnrollRequest {
    /// Creates and signs a request.
    ///
    /// # Errors
    ///
    /// The key can't be used.
    pub fn sign(
        token: &TokenId,
        name: &AgentName,
        seed: &Secret,
    ) -> Result<EnrollRequest, nkeys::error::Error> {
        let key = KeyPair::from_seed(seed.reveal())?;
        let public = key.public_key();
        let text = signed_text(token, name, &public);
        let signature = key.sign(text.as_bytes())?;
        Ok(EnrollRequest {
            name: name.clone(),
            public,
            signature: BASE64.encode(signature),
        })
    }

    /// Returns true if the key belongs to a user, and the requester has the private key.
    pub(crate) fn is_genuine(&self, token: &TokenId) -> bool {
        let (Ok(key), Ok(signature)) = (
            KeyPair::from_public_key(&self.public),
            BASE64.decode(&self.signature),
        ) else {
            return false;
        };
        let text = signed_text(token, &self.name, &self.public);
        matches!(key.key_pair_type(), KeyPairType::User)
            && key.verify(text.as_bytes(), &signature).is_ok()
    }
}
