//! What an executable without a libcrypto of its own shows of the cryptography that is built in.

use std::fs::File;
use std::io::Read;

use memchr::memmem::{Finder, find};
use serde::Serialize;

/// The most of an executable that is searched, in bytes.
const LONGEST: u64 = 512 << 20;

/// A sign of a library within an executable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trace {
    /// Whose sign it is.
    pub library: &'static str,
    /// The text that was found.
    pub text: String,
}

/// Texts that the libraries leave in whatever is linked with them.
const SIGNS: [(&str, &str); 9] = [
    ("OpenSSL", "OpenSSL 1."),
    ("OpenSSL", "OpenSSL 3."),
    ("OpenSSL", "OpenSSL 4."),
    ("LibreSSL", "LibreSSL "),
    ("AWS-LC", "AWS-LC"),
    ("BoringSSL", "BoringSSL"),
    ("GnuTLS", "GnuTLS "),
    ("wolfSSL", "wolfSSL "),
    ("rustls", "rustls-"),
];

/// The mark of a Go program's build information (debug/buildinfo).
const GO: &[u8] = b"\xff Go buildinf:";

/// Every sign in an executable, each library once.
///
/// # Errors
/// The system's words.
pub(super) fn traces(executable: &File) -> Result<Vec<Trace>, String> {
    let mut bytes = Vec::new();
    let read = executable.take(LONGEST).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    Ok(found_in(&bytes))
}

fn found_in(bytes: &[u8]) -> Vec<Trace> {
    let mut found: Vec<Trace> = go(bytes).into_iter().collect();
    for (library, sign) in SIGNS {
        let text = Finder::new(sign)
            .find_iter(bytes)
            .map(|at| printable(&bytes[at..]))
            .find(|text| text.len() > sign.len() || !sign.ends_with([' ', '.']));
        if let Some(text) = text
            && found.iter().all(|known| known.library != library)
        {
            found.push(Trace { library, text });
        }
    }
    found
}

/// A Go program: its version of Go, and the tags that take assembly out of it.
fn go(bytes: &[u8]) -> Option<Trace> {
    let rest = &bytes[find(bytes, GO)?..];
    // Since Go 1.18: a header of 32 bytes, a length, then the version as text.
    let version = rest.get(33..).map(printable).unwrap_or_default();
    let version = match version.starts_with("go1") {
        true => version,
        false => "Go".to_owned(),
    };
    let without = find(bytes, b"build\t-tags=").map(|at| printable(&bytes[at + 6..]));
    let pure = without.filter(|tags| tags.contains("purego") || tags.contains("noasm"));
    Some(Trace {
        library: "Go",
        text: match pure {
            Some(tags) => format!("{version}, built with {tags}: without assembly"),
            None => version,
        },
    })
}

/// The text at the start of some bytes.
fn printable(bytes: &[u8]) -> String {
    let text = bytes
        .iter()
        .take(80)
        .take_while(|byte| (b' '..=b'~').contains(*byte));
    text.map(|byte| char::from(*byte))
        .collect::<String>()
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_found_once_with_their_text() {
        let bytes = b"\0\0OpenSSL 3.\0x OpenSSL 3.0.17 1 Jul 2025\0..OpenSSL 3.0.17\0rustls-0.23\0";
        let found = found_in(bytes);
        let brief: Vec<_> = found.iter().map(|t| (t.library, t.text.as_str())).collect();
        let expected = [
            ("OpenSSL", "OpenSSL 3.0.17 1 Jul 2025"),
            ("rustls", "rustls-0.23"),
        ];
        assert_eq!(brief, expected);
        assert!(found_in(b"nothing at all").is_empty());
    }

    #[test]
    fn a_go_program_tells_its_version_and_whether_it_has_assembly() {
        let mut bytes = GO.to_vec();
        bytes.resize(32, 0);
        bytes.extend(b"\x08go1.24.1\0mod\tbuild\t-tags=netgo,purego\n");
        let found = found_in(&bytes);
        assert_eq!(found[0].library, "Go");
        let expected = "go1.24.1, built with -tags=netgo,purego: without assembly";
        assert_eq!(found[0].text, expected);
        assert_eq!(found_in(GO)[0].text, "Go");
    }
}
