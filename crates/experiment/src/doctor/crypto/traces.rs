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

/// What must follow a name: a mere name may be anybody's mention of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Follows {
    Anything,
    /// The end of a word and a closing parenthesis.
    Parenthesis,
    /// `0.23.46`
    Version,
    /// `3.0.17 1 Jul 2025`
    DatedVersion,
}

/// How texts begin that the libraries leave in whatever is linked with them.
const SIGNS: [(&str, &str, Follows); 6] = [
    ("BoringSSL", "(compatible; Boring", Follows::Parenthesis),
    ("AWS-LC", "(compatible; AWS-", Follows::Parenthesis),
    ("OpenSSL", "OpenSSL ", Follows::DatedVersion),
    ("LibreSSL", "LibreSSL ", Follows::Version),
    (
        "BoringSSL or AWS-LC",
        "crypto/fipsmodule/",
        Follows::Anything,
    ),
    ("rustls", "rustls-", Follows::Version),
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
    for (library, sign, follows) in SIGNS {
        let place = Finder::new(sign)
            .find_iter(bytes)
            .find(|at| follows.is_met(&printable(&bytes[at + sign.len()..])));
        let Some(place) = place else { continue };
        if found.iter().any(|known| library.contains(known.library)) {
            continue;
        }
        // Sources name the file that they were built from after the version.
        let text = match follows {
            Follows::Anything | Follows::Parenthesis => library.to_owned(),
            _ => printable(&bytes[place..])
                .split('/')
                .next()
                .unwrap_or_default()
                .to_owned(),
        };
        found.push(Trace { library, text });
    }
    found
}

impl Follows {
    fn is_met(self, text: &str) -> bool {
        let mut words = text.split([' ', '/']);
        let is_number = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
        let version = words.next().unwrap_or_default();
        let is_version =
            version.split('.').count() >= 3 && version.split('.').take(3).all(is_number);
        match self {
            Follows::Anything => true,
            Follows::Parenthesis => text.find(')').is_some_and(|end| {
                let plain = |c: char| c.is_ascii_alphanumeric() || " .".contains(c);
                end < 16 && text[..end].chars().all(plain)
            }),
            Follows::Version => is_version,
            Follows::DatedVersion => is_version && words.next().is_some_and(is_number),
        }
    }
}

/// A Go program: its version of Go, and the tags that take assembly out of it.
fn go(bytes: &[u8]) -> Option<Trace> {
    let finder = Finder::new(GO);
    let mut places = finder.find_iter(bytes);
    let version = places.find_map(|at| {
        // Since Go 1.18: a header of 32 bytes, a length, then the version as text.
        let version = printable(bytes.get(at + 33..)?);
        let digits = version.strip_prefix("go")?;
        digits
            .starts_with(|c: char| c.is_ascii_digit())
            .then_some(version)
    })?;
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
        let bytes = b"OpenSSL 1.0.1 is old\0x OpenSSL 3.0.17 1 Jul 2025\0OpenSSL 3.0.18\0rustls-0.23.1/src\0";
        let found = found_in(bytes);
        let brief: Vec<_> = found.iter().map(|t| (t.library, t.text.as_str())).collect();
        let expected = [
            ("OpenSSL", "OpenSSL 3.0.17 1 Jul 2025"),
            ("rustls", "rustls-0.23.1"),
        ];
        assert_eq!(brief, expected);
        assert!(found_in(b"OpenSSL and LibreSSL are mentioned, OpenSSL \0LibreSSL ").is_empty());
        let relative = found_in(b"OpenSSL 1.1.1 (compatible; AWS-LC 1.40.0)\0crypto/fipsmodule/\0");
        let libraries: Vec<_> = relative.iter().map(|trace| trace.library).collect();
        assert_eq!(libraries, ["AWS-LC"]);
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
        assert!(found_in(GO).is_empty());
    }
}
