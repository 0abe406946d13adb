//! Detection of TLS libraries that are statically linked into an executable.

use std::fs::File;
use std::io::{self, Read};

use memchr::memmem::{Finder, find};
use serde::Serialize;

/// Maximum number of bytes of an executable that are searched.
const EXECUTABLE_BYTES_MAX: u64 = 512 << 20;

/// A library whose signature was found in an executable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BuiltInLibrary {
    /// Name of the library.
    pub library: &'static str,
    /// Text that identifies the library, such as its name and version.
    pub text: String,
}

/// Text that must follow a library's signature, to rule out coincidental matches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SignatureSuffix {
    /// Any text.
    Anything,
    /// A short word and a closing parenthesis.
    Parenthesis,
    /// A version, such as `0.23.46`.
    Version,
    /// A version followed by a date, such as `3.0.17 1 Jul 2025`.
    DatedVersion,
}

/// Signatures that libraries leave in the programs that link them. Each entry holds the library,
/// its signature, and the kind of text that must follow the signature.
const LIBRARY_SIGNATURES: [(&str, &str, SignatureSuffix); 6] = [
    (
        "BoringSSL",
        "(compatible; Boring",
        SignatureSuffix::Parenthesis,
    ),
    ("AWS-LC", "(compatible; AWS-", SignatureSuffix::Parenthesis),
    ("OpenSSL", "OpenSSL ", SignatureSuffix::DatedVersion),
    ("LibreSSL", "LibreSSL ", SignatureSuffix::Version),
    (
        "BoringSSL or AWS-LC",
        "crypto/fipsmodule/",
        SignatureSuffix::Anything,
    ),
    ("rustls", "rustls-", SignatureSuffix::Version),
];

/// Marker of the build information in a Go program (package debug/buildinfo).
const GO_BUILD_INFO: &[u8] = b"\xff Go buildinf:";

/// Finds the libraries that are built into an executable. Each library is listed once.
///
/// # Errors
/// The executable can't be read.
pub(super) fn built_in_libraries(executable: &File) -> io::Result<Vec<BuiltInLibrary>> {
    let mut bytes = Vec::new();
    let read = executable
        .take(EXECUTABLE_BYTES_MAX)
        .read_to_end(&mut bytes);
    read?;
    Ok(found_in(&bytes))
}

fn found_in(bytes: &[u8]) -> Vec<BuiltInLibrary> {
    let mut found: Vec<BuiltInLibrary> = go(bytes).into_iter().collect();
    for (library, sign, follows) in LIBRARY_SIGNATURES {
        let offset = Finder::new(sign)
            .find_iter(bytes)
            .find(|at| follows.is_met(&printable(&bytes[at + sign.len()..])));
        let Some(offset) = offset else { continue };
        if found.iter().any(|known| library.contains(known.library)) {
            continue;
        }
        // In some programs, the path of a source file follows the version.
        let text = match follows {
            SignatureSuffix::Anything | SignatureSuffix::Parenthesis => library.to_owned(),
            _ => printable(&bytes[offset..])
                .split('/')
                .next()
                .unwrap_or_default()
                .to_owned(),
        };
        found.push(BuiltInLibrary { library, text });
    }
    found
}

impl SignatureSuffix {
    fn is_met(self, text: &str) -> bool {
        let mut words = text.split([' ', '/']);
        let is_number = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
        let version = words.next().unwrap_or_default();
        let is_version =
            version.split('.').count() >= 3 && version.split('.').take(3).all(is_number);
        match self {
            SignatureSuffix::Anything => true,
            SignatureSuffix::Parenthesis => text.find(')').is_some_and(|end| {
                let plain = |c: char| c.is_ascii_alphanumeric() || " .".contains(c);
                end < 16 && text[..end].chars().all(plain)
            }),
            SignatureSuffix::Version => is_version,
            SignatureSuffix::DatedVersion => is_version && words.next().is_some_and(is_number),
        }
    }
}

/// Returns the version of a Go program, and the build tags that disable assembly.
fn go(bytes: &[u8]) -> Option<BuiltInLibrary> {
    let finder = Finder::new(GO_BUILD_INFO);
    let mut offsets = finder.find_iter(bytes);
    let version = offsets.find_map(|at| {
        // Format since Go 1.18: a header of 32 bytes, a length, then the version as text.
        let version = printable(bytes.get(at + 33..)?);
        let digits = version.strip_prefix("go")?;
        digits
            .starts_with(|c: char| c.is_ascii_digit())
            .then_some(version)
    })?;
    let without = find(bytes, b"build\t-tags=").map(|at| printable(&bytes[at + 6..]));
    let pure = without.filter(|tags| tags.contains("purego") || tags.contains("noasm"));
    Some(BuiltInLibrary {
        library: "Go",
        text: match pure {
            Some(tags) => format!("{version}, built with {tags} (without assembly)"),
            None => version,
        },
    })
}

/// Returns the printable text at the start of `bytes`.
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
    fn each_library_is_found_once() {
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
    fn a_go_program_has_its_version_and_build_tags() {
        let mut bytes = GO_BUILD_INFO.to_vec();
        bytes.resize(32, 0);
        bytes.extend(b"\x08go1.24.1\0mod\tbuild\t-tags=netgo,purego\n");
        let found = found_in(&bytes);
        assert_eq!(found[0].library, "Go");
        let expected = "go1.24.1, built with -tags=netgo,purego (without assembly)";
        assert_eq!(found[0].text, expected);
        assert!(found_in(GO_BUILD_INFO).is_empty());
    }
}
