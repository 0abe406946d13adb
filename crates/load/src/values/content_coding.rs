//! Decodes content codings (RFC 9110 §8.4) of response bodies, so that a compressed body can be
//! compared with a plain one.
//!
//! A body comes from a peer, so memory and time are bounded by limits on encoded bytes, decoded
//! bytes and the number of codings.

use std::fmt;
use std::io::{self, Read};

use brotli_decompressor::Decompressor;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use ruzstd::decoding::StreamingDecoder;
use sha2::{Digest, Sha256};

/// Maximum number of bytes of an encoded body that are kept for decoding.
pub(crate) const ENCODED_BYTES_MAX: usize = 64 << 20;
/// Maximum number of decoded bytes; a longer body counts as a decompression bomb.
const DECODED_BYTES_MAX: u64 = 256 << 20;
/// Maximum number of codings applied to one body.
const CODINGS_MAX: usize = 3;
/// The largest zstd window, from RFC 9659.
const ZSTD_WINDOW_BYTES_MAX: u64 = 8 << 20;
/// Size of the decoding buffer.
const BUFFER_BYTES: usize = 16 << 10;

/// A body's length and hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyDigest {
    /// Length in bytes.
    pub length: u64,
    /// SHA-256 digest.
    pub sha256: [u8; 32],
}

impl BodyDigest {
    /// Returns the digest of an empty body.
    pub(crate) fn empty() -> BodyDigest {
        BodyDigest {
            length: 0,
            sha256: Sha256::digest([]).into(),
        }
    }
}

/// Reason why a body couldn't be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeError {
    /// The name of the coding is unknown.
    UnknownCoding(String),
    /// The body has more than `CODINGS_MAX` codings.
    TooManyCodings,
    /// The encoded body is longer than `ENCODED_BYTES_MAX`.
    EncodedTooLong,
    /// The decoded body is longer than `DECODED_BYTES_MAX`.
    DecodedTooLong,
    /// The bytes aren't valid for the coding.
    Corrupt(String),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::UnknownCoding(coding) => {
                let coding: String = coding.chars().take(40).collect();
                write!(f, "unknown content coding {coding:?}")
            }
            DecodeError::TooManyCodings => write!(f, "more than {CODINGS_MAX} content codings"),
            DecodeError::EncodedTooLong => {
                write!(f, "over {} MiB when encoded", ENCODED_BYTES_MAX >> 20)
            }
            DecodeError::DecodedTooLong => {
                write!(f, "over {} MiB when decoded", DECODED_BYTES_MAX >> 20)
            }
            DecodeError::Corrupt(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Returns the codings in the values of `Content-Encoding`, in lower case and in the order in which
/// they were applied. `identity` is omitted.
pub(crate) fn codings<'a>(values: impl Iterator<Item = &'a str>) -> Vec<String> {
    values
        .flat_map(|value| value.split(','))
        .map(|coding| coding.trim().to_ascii_lowercase())
        .filter(|coding| !coding.is_empty() && coding != "identity")
        .take(CODINGS_MAX + 1)
        .collect()
}

/// Decodes a body. `kept` is the beginning of the encoded body, and `sent` is the digest of the
/// whole encoded body. An empty body, as in a response to HEAD, needs no decoding.
pub(crate) fn decode(
    codings: &[String],
    kept: &[u8],
    sent: BodyDigest,
) -> Result<BodyDigest, DecodeError> {
    if codings.is_empty() || sent.length == 0 {
        return Ok(sent);
    }
    if codings.len() > CODINGS_MAX {
        return Err(DecodeError::TooManyCodings);
    }
    if kept.len() as u64 != sent.length {
        return Err(DecodeError::EncodedTooLong);
    }
    let mut reader: Box<dyn Read + '_> = Box::new(kept);
    for coding in codings.iter().rev() {
        reader = decoder(coding, reader)?;
    }
    digest(reader)
}

/// Decodes the beginning of a body with one coding, up to `most` bytes or the first error. Returns
/// `None` if the coding is unknown.
pub fn decode_beginning(coding: &str, body: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut decoded = Vec::new();
    match decoder(&coding.to_ascii_lowercase(), Box::new(body)) {
        Ok(reader) => {
            // The error is ignored, because a truncated body still yields its beginning.
            let _ = reader.take(most as u64).read_to_end(&mut decoded);
        }
        Err(DecodeError::UnknownCoding(_)) => return None,
        Err(_) => {}
    }
    Some(decoded)
}

/// Returns a reader that decodes the bytes of `inner`.
fn decoder<'a>(coding: &str, inner: Box<dyn Read + 'a>) -> Result<Box<dyn Read + 'a>, DecodeError> {
    Ok(match coding {
        "gzip" | "x-gzip" => Box::new(MultiGzDecoder::new(inner)),
        "deflate" => deflate(inner).map_err(corrupt)?,
        "br" => Box::new(Decompressor::new(inner, BUFFER_BYTES)),
        "zstd" => {
            let frame = StreamingDecoder::new_with_max_window_size(inner, ZSTD_WINDOW_BYTES_MAX);
            Box::new(frame.map_err(corrupt)?)
        }
        unknown => return Err(DecodeError::UnknownCoding(unknown.to_owned())),
    })
}

/// Decodes `deflate`, which is the zlib format. Some servers send the bare deflate format, which
/// browsers also accept.
fn deflate<'a>(mut inner: Box<dyn Read + 'a>) -> io::Result<Box<dyn Read + 'a>> {
    let mut head = Vec::new();
    inner.by_ref().take(2).read_to_end(&mut head)?;
    let is_zlib = matches!(head[..], [cmf, flags]
        if cmf & 0x0f == 8 && (u16::from(cmf) << 8 | u16::from(flags)).is_multiple_of(31));
    let whole = io::Cursor::new(head).chain(inner);
    Ok(if is_zlib {
        Box::new(ZlibDecoder::new(whole))
    } else {
        Box::new(DeflateDecoder::new(whole))
    })
}

fn corrupt(error: impl fmt::Display) -> DecodeError {
    DecodeError::Corrupt(error.to_string())
}

fn digest(reader: impl Read) -> Result<BodyDigest, DecodeError> {
    let mut reader = reader.take(DECODED_BYTES_MAX + 1);
    let (mut hash, mut length) = (Sha256::new(), 0);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                hash.update(&buffer[..count]);
                length += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(corrupt(error)),
        }
    }
    if length > DECODED_BYTES_MAX {
        return Err(DecodeError::DecodedTooLong);
    }
    Ok(BodyDigest {
        length,
        sha256: hash.finalize().into(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    /// Returns 1,050 bytes of text.
    fn text() -> Vec<u8> {
        b"The quick brown fox. ".repeat(50)
    }

    /// The output of [`text`], encoded by the reference encoders for brotli and zstd.
    const BROTLI: &str = "1b1904f88d94aadba306a13243932e6f7839c824ad2509db74942f90ae7fd700";
    const ZSTD: &str = "28b52ffd641a03ed0000a854686520717569636b2062726f776e20666f782e20010005c07f\
                        32015cbfd7f6";

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex
            .chars()
            .filter_map(|c| c.to_digit(16))
            .map(|d| d as u8)
            .collect();
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()
    }

    fn of(bytes: &[u8]) -> BodyDigest {
        BodyDigest {
            length: bytes.len() as u64,
            sha256: Sha256::digest(bytes).into(),
        }
    }

    fn decoded(encoding: &str, body: &[u8]) -> Result<BodyDigest, DecodeError> {
        decode(&codings([encoding].into_iter()), body, of(body))
    }

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(plain: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn bare_deflate(plain: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn every_coding_decodes_to_the_plain_body() {
        let plain = of(&text());
        for (encoding, body) in [
            ("", text()),
            ("identity", text()),
            ("gzip", gzip(&text())),
            ("X-GZIP", gzip(&text())),
            ("deflate", zlib(&text())),
            ("deflate", bare_deflate(&text())),
            ("br", bytes(BROTLI)),
            ("zstd", bytes(ZSTD)),
            ("br, gzip", gzip(&bytes(BROTLI))),
            ("zstd, identity , gzip", gzip(&bytes(ZSTD))),
        ] {
            assert_eq!(decoded(encoding, &body), Ok(plain), "{encoding}");
        }
    }

    #[test]
    fn a_body_without_bytes_has_no_coding() {
        assert_eq!(decoded("gzip", b""), Ok(of(b"")));
    }

    #[test]
    fn truncated_or_garbled_bodies_are_corrupt() {
        for (encoding, body) in [
            ("gzip", gzip(&text())),
            ("deflate", zlib(&text())),
            ("br", bytes(BROTLI)),
            ("zstd", bytes(ZSTD)),
        ] {
            for cut in 1..body.len() - 5 {
                let result = decoded(encoding, &body[..cut]);
                assert!(
                    matches!(result, Err(DecodeError::Corrupt(_))),
                    "{encoding} {cut}"
                );
            }
            let garbled = decoded(encoding, b"<html>plain</html>");
            assert!(
                matches!(garbled, Err(DecodeError::Corrupt(_))),
                "{encoding} {garbled:?}"
            );
        }
    }

    #[test]
    fn unknown_and_stacked_codings_are_named() {
        let unknown = decoded("compress", b"x").unwrap_err();
        assert_eq!(unknown.to_string(), "unknown content coding \"compress\"");
        let stacked = decoded("gzip,gzip,gzip,gzip", b"x").unwrap_err();
        assert_eq!(stacked, DecodeError::TooManyCodings);
    }

    #[test]
    fn a_decompression_bomb_ends_at_the_limit() {
        let zeros = vec![0; 1 << 20];
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        for _ in 0..(DECODED_BYTES_MAX >> 20) + 1 {
            encoder.write_all(&zeros).unwrap();
        }
        let bomb = encoder.finish().unwrap();
        assert_eq!(decoded("gzip", &bomb), Err(DecodeError::DecodedTooLong));
    }

    #[test]
    fn a_zstd_window_over_the_limit_is_refused() {
        // A frame header without the single-segment flag, whose window descriptor declares 128 MiB.
        let frame = bytes("28b52ffd00880000");
        assert!(matches!(
            decoded("zstd", &frame),
            Err(DecodeError::Corrupt(_))
        ));
    }

    #[test]
    fn a_truncated_body_is_not_decoded() {
        let body = gzip(&text());
        let result = decode(&["gzip".to_owned()], &body[..10], of(&body));
        assert_eq!(result, Err(DecodeError::EncodedTooLong));
    }
}
