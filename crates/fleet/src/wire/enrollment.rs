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
    /// Returns a message if the key can't be used.
    pub fn sign(token: &TokenId, name: &AgentName, seed: &Secret) -> Result<EnrollRequest, String> {
        let failed = |error: nkeys::error::Error| format!("can't use the key: {error}");
        let key = KeyPair::from_seed(seed.reveal()).map_err(failed)?;
        let public = key.public_key();
        let text = signed_text(token, name, &public);
        let signature = key.sign(text.as_bytes()).map_err(failed)?;
        Ok(EnrollRequest {
            name: name.clone(),
            public,
            signature: BASE64.encode(signature),
        })
    }

    /// Checks that the key belongs to a user, and that the requester has the private key.
    ///
    /// # Errors
    ///
    /// Returns a message for the agent.
    pub(crate) fn verify(&self, token: &TokenId) -> Result<(), String> {
        let invalid = || "its key or signature is not valid".to_owned();
        let key = KeyPair::from_public_key(&self.public).map_err(|_| invalid())?;
        if !matches!(key.key_pair_type(), KeyPairType::User) {
            return Err(invalid());
        }
        let signature = BASE64.decode(&self.signature).map_err(|_| invalid())?;
        let text = signed_text(token, &self.name, &self.public);
        key.verify(text.as_bytes(), &signature)
            .map_err(|_| invalid())
    }
}
