//! The finding about a service's cryptographic library, and its figures.

use serde::{Deserialize, Serialize};

use super::BASE;
use crate::finding::FindingInfo;
use crate::finding::Severity::{Note, Warning};
use crate::finding::figures::figures;
use crate::number;

pub(in crate::finding) const CRYPTO_UNACCELERATED: FindingInfo = FindingInfo {
    seen: "The target's libcrypto does not use the processor's AES instructions.",
    severities: &[
        (
            Note,
            "another variant that uses TLS doesn't have this finding, so the comparison covers it",
        ),
        (Warning, "every variant that uses TLS has it"),
    ],
    meaning: "This is a conclusion from speeds. The load uses TLS, and the service's libcrypto encrypts less than twice as fast as \
        the same library without AES-NI and PCLMULQDQ, although the processor has them. This is \
        measured after a variant's first trial, once for each program, library and environment.",
    action: "Use a build of the library with assembly, and check OPENSSL_ia32cap.",
    explains_difference: true,
    ..BASE
};

/// A libcrypto, and its speed with and without the processor's AES instructions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LibrarySpeed {
    /// File of the library, if it is known.
    pub path: Option<String>,
    /// Version that the library reports.
    pub version: Option<String>,
    /// Bytes per second of AES-128-GCM with all processor instructions.
    pub on: Option<f64>,
    /// Bytes per second with the AES instructions masked.
    pub masked: Option<f64>,
    /// `on` divided by `masked`.
    pub ratio: Option<f64>,
    /// Processor cycles per byte at the current frequency.
    pub cycles_per_byte: Option<f64>,
}

impl LibrarySpeed {
    /// Returns the path and version of the library.
    pub fn named(&self) -> String {
        let path = self.path.as_deref().unwrap_or("libcrypto");
        match &self.version {
            Some(version) => format!("{path} ({version})"),
            None => path.to_owned(),
        }
    }

    /// Describes the library and its speeds with and without AES instructions.
    pub fn compared(&self) -> String {
        format!("{}: {}", self.named(), self.rates())
    }

    /// Formats a speed as in ` (0.5 cycles per byte)`; empty if the processor's frequency is
    /// unknown.
    pub fn cycles(&self) -> String {
        let cycles = self.cycles_per_byte;
        cycles.map_or(String::new(), |cycles| {
            format!(" ({cycles:.1} cycles per byte)")
        })
    }

    /// Describes the speeds of AES-128-GCM with and without AES instructions, and their ratio.
    fn rates(&self) -> String {
        let rate = |speed: Option<f64>| speed.map_or("unknown".to_owned(), number::bytes_per_s);
        format!(
            "AES-128-GCM at {}{}, {:.1} times the {} that it reaches with the AES instructions \
             masked",
            rate(self.on),
            self.cycles(),
            self.ratio.unwrap_or_default(),
            rate(self.masked),
        )
    }
}

/// Evidence that AES instructions are masked in a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaskEvidence {
    /// The process's memory shows the mask, without these groups of instructions.
    Memory(Vec<String>),
    /// A variable of the process's environment, as `NAME=value`.
    Environment(String),
}

impl MaskEvidence {
    /// Describes the evidence.
    pub fn text(&self) -> String {
        match self {
            MaskEvidence::Memory(missing) if missing.is_empty() => {
                "according to the server's memory".to_owned()
            }
            MaskEvidence::Memory(missing) => {
                format!("the server's memory shows no {}", missing.join(", no "))
            }
            MaskEvidence::Environment(variable) => {
                format!("{variable} in the server's environment")
            }
        }
    }
}

/// AES instructions that are masked in a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MaskedInstructions {
    /// Evidence of the mask.
    pub evidence: MaskEvidence,
    /// Bytes per second of AES-128-GCM with this mask.
    pub bytes_per_s: f64,
}

figures! {
    /// A library that does not use the processor's AES instructions.
    CryptoUnaccelerated {
        /// The library and its speed.
        library: LibrarySpeed = same,
        /// True if the library was built with assembly; `None` if unknown.
        assembly: Option<bool> = same,
        /// The mask, if the library could use the instructions.
        mask: Option<MaskedInstructions> = same,
    }
    |it, subject| format!("{}: {}.", subject.service("Service"), it.phrase())
}

impl CryptoUnaccelerated {
    /// Describes the library, its speed and the reason, as a clause.
    pub fn phrase(&self) -> String {
        let library = self.library.named();
        match &self.mask {
            None => {
                let built = match self.assembly {
                    Some(false) => " (it is built without assembly)",
                    _ => "",
                };
                format!(
                    "{library} is not accelerated{built}: {}",
                    self.library.rates()
                )
            }
            Some(mask) => format!(
                "{library} could use the processor's AES instructions, but this process runs \
                 with them masked ({}): AES-128-GCM at {} instead of {}",
                mask.evidence.text(),
                number::bytes_per_s(mask.bytes_per_s),
                number::bytes_per_s(self.library.on.unwrap_or_default())
            ),
        }
    }
}
