//! Interpretation of a head, line by line. Every line is checked, but only the information that an
//! exchange needs is stored.

use memchr::memchr;

use super::{Expects, Framing, Head, Version, Violation};
use crate::field::{is_named, is_token, is_value, line_length, name_length, token_length, trim};

/// Parsing state of a head. Each interim response starts with a new state.
#[derive(Debug)]
pub(super) struct HeadLines {
    status: u16,
    version: Version,
    length: Option<u64>,
    coded: CodingSeen,
    close: bool,
    keep_alive: bool,
    fold: FoldTarget,
}

/// Content of the Transfer-Encoding fields that have been parsed so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CodingSeen {
    No,
    /// A Transfer-Encoding field without a coding.
    Named,
    Chunked,
}

/// Meaning of the next line, if it begins with white space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoldTarget {
    /// No field precedes the line.
    Nothing,
    /// The line continues a field that doesn't affect the exchange.
    Any,
    /// The line continues a field that frames the response.
    Framing,
}

impl HeadLines {
    pub(super) const fn new() -> HeadLines {
        HeadLines {
            status: 0,
            version: Version::Http11,
            length: None,
            coded: CodingSeen::No,
            close: false,
            keep_alive: false,
            fold: FoldTarget::Nothing,
        }
    }

    /// Parses the status line: `HTTP/1.x SP 3DIGIT SP reason` (RFC 9112 §4). The last space is
    /// optional.
    pub(super) fn status_line(&mut self, line: &[u8]) -> Result<(), Violation> {
        let reason = self.version_and_status(line)?;
        if !matches!(reason, [] | [b' ', ..]) {
            return Err(Violation::Status);
        }
        if !is_value(reason) {
            return Err(value_fault(reason));
        }
        Ok(())
    }

    /// Parses the version and the status at the start of a line, and returns the rest.
    #[inline]
    pub(super) fn version_and_status<'l>(&mut self, line: &'l [u8]) -> Result<&'l [u8], Violation> {
        let Some((minor, rest)) = line
            .get(super::first_bytes::STATUS_LINE_START.len()..)
            .and_then(<[u8]>::split_first)
        else {
            return Err(Violation::Version);
        };
        let (b'0'..=b'9', [b' ', rest @ ..]) = (minor, rest) else {
            return Err(Violation::Version);
        };
        let (&[a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'], rest) =
            rest.split_first_chunk::<3>().ok_or(Violation::Status)?
        else {
            return Err(Violation::Status);
        };
        let digit = |byte: u8| u16::from(byte - b'0');
        self.status = digit(a) * 100 + digit(b) * 10 + digit(c);
        self.version = if *minor == b'0' {
            Version::Http10
        } else {
            Version::Http11
        };
        Ok(rest)
    }

    /// Parses a field line.
    pub(super) fn field_line(&mut self, line: &[u8]) -> Result<(), Violation> {
        match split_field(line, self.fold)? {
            Some(field) => self.field(field),
            None => Ok(()),
        }
    }

    /// Interprets a field.
    #[inline(always)]
    pub(super) fn field(
        &mut self,
        FieldLine { name, value }: FieldLine<'_>,
    ) -> Result<(), Violation> {
        self.fold = FoldTarget::Framing;
        // Few other field names have these lengths, so names are rarely compared.
        match name.len() {
            10 if is_named(name, b"connection") => self.connection(value),
            14 if is_named(name, b"content-length") => return self.content_length(value),
            17 if is_named(name, b"transfer-encoding") => return self.transfer_encoding(value),
            _ => self.fold = FoldTarget::Any,
        }
        Ok(())
    }

    /// Parses a list of connection options, of which only `close` and `keep-alive` matter (RFC 9112
    /// §9.3).
    #[inline]
    fn connection(&mut self, value: &[u8]) {
        match value {
            b" keep-alive" => self.keep_alive = true,
            b" close" => self.close = true,
            list => self.connection_options(list),
        }
    }

    fn connection_options(&mut self, list: &[u8]) {
        for option in elements(list) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// Parses a Content-Length, which consists of digits. The same number may occur several times,
    /// in one field or in several (RFC 9112 §6.3).
    #[inline]
    fn content_length(&mut self, value: &[u8]) -> Result<(), Violation> {
        match short_number(value) {
            Some(number) if self.length.is_none() => {
                self.length = Some(number);
                Ok(())
            }
            _ => self.lengths(value),
        }
    }

    fn lengths(&mut self, list: &[u8]) -> Result<(), Violation> {
        for number in elements(list) {
            let number = decimal(number)?;
            if self.length.is_some_and(|length| length != number) {
                return Err(Violation::LengthsDiffer);
            }
            self.length = Some(number);
        }
        Ok(())
    }

    /// Parses a Transfer-Encoding. The list may contain only `chunked`, once (RFC 9112 §6.1) and
    /// without parameters (§7.1).
    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Violation> {
        if self.coded == CodingSeen::No {
            self.coded = CodingSeen::Named;
        }
        // Empty list elements are ignored (RFC 9110 §5.6.1.2).
        for coding in elements(value).filter(|coding| !coding.is_empty()) {
            if !coding.eq_ignore_ascii_case(b"chunked") {
                return Err(Violation::Coding);
            }
            if self.coded == CodingSeen::Chunked {
                return Err(Violation::ChunkedTwice);
            }
            self.coded = CodingSeen::Chunked;
        }
        Ok(())
    }

    /// Returns the status code, which is valid once the status line has been parsed.
    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// Ends the head. Determines the length of the body by the rules of RFC 9112 §6.3, applied in
    /// order, and whether the connection can be reused (§9.3).
    #[inline]
    pub(super) fn finish(&self, expects: Expects) -> Result<Head, Violation> {
        let tunnel = expects == Expects::Connect && (200..300).contains(&self.status);
        let bodiless = tunnel || expects == Expects::NoBody || matches!(self.status, 204 | 304);
        let framing = match (self.coded, self.length) {
            _ if bodiless => Framing::Empty,
            (CodingSeen::No, None) => Framing::UntilClose,
            (CodingSeen::No, Some(_)) => Framing::Length,
            _ if self.version == Version::Http10 => return Err(Violation::CodingInHttp10),
            (_, Some(_)) => return Err(Violation::LengthAndCoding),
            (CodingSeen::Named, None) => return Err(Violation::Coding),
            (CodingSeen::Chunked, None) => Framing::Chunked,
        };
        let persistent = !self.close && (self.version == Version::Http11 || self.keep_alive);
        Ok(Head {
            status: self.status,
            version: self.version,
            framing,
            length: match framing {
                Framing::Empty => Some(0),
                Framing::Length => self.length,
                Framing::Chunked | Framing::UntilClose => None,
            },
            reusable: persistent && framing != Framing::UntilClose && !tunnel,
        })
    }
}

/// Name and value of a field line.
#[derive(Debug)]
pub(super) struct FieldLine<'l> {
    pub(super) name: &'l [u8],
    /// Value with surrounding white space.
    pub(super) value: &'l [u8],
}

/// Parses a field line at the start of `bytes`, if it is valid and ends with CRLF. Returns the line
/// and its size, including CRLF. Returns `None` for any other input; [`split_field`] checks it once
/// the line is complete.
///
/// The searches for the end of the name and of the line are independent, so a processor can run
/// them in parallel.
#[inline]
pub(super) fn whole_field(bytes: &[u8]) -> Option<(FieldLine<'_>, usize)> {
    let line_end = line_length(bytes)?;
    let name_end = name_length(bytes)?;
    let value = bytes.get(name_end + 1..line_end)?;
    let name = &bytes[..name_end];
    Some((FieldLine { name, value }, line_end + 2))
}

/// Splits a field line into name and value, and checks both. Returns `None` for a line that
/// continues the previous value. A user agent treats such a fold as a space (RFC 9112 §5.2).
pub(super) fn split_field(
    line: &[u8],
    fold: FoldTarget,
) -> Result<Option<FieldLine<'_>>, Violation> {
    let name_end = token_length(line);
    if name_end == 0 || line.get(name_end) != Some(&b':') {
        return odd_line(line, fold).map(|()| None);
    }
    let (name, value) = (&line[..name_end], &line[name_end + 1..]);
    if !is_value(value) {
        return Err(value_fault(value));
    }
    Ok(Some(FieldLine { name, value }))
}

/// Classifies a line without a valid name: a continuation, or a violation.
#[cold]
fn odd_line(line: &[u8], fold: FoldTarget) -> Result<(), Violation> {
    if let [b' ' | b'\t', ..] = line {
        return match fold {
            FoldTarget::Nothing => Err(Violation::SpaceBeforeFields),
            FoldTarget::Framing => Err(Violation::FoldedFraming),
            FoldTarget::Any if is_value(line) => Ok(()),
            FoldTarget::Any => Err(value_fault(line)),
        };
    }
    let Some(colon) = memchr(b':', line) else {
        return Err(Violation::NoColon);
    };
    Err(match trim(&line[..colon]) {
        [] => Violation::EmptyName,
        name if name.len() < colon && is_token(name) => Violation::SpaceBeforeColon,
        _ => Violation::Name,
    })
}

/// Returns the violation in a value that contains an invalid byte.
#[cold]
fn value_fault(bytes: &[u8]) -> Violation {
    if bytes.contains(&0) {
        Violation::Nul
    } else if bytes.contains(&b'\r') {
        Violation::LoneCr
    } else {
        Violation::Control
    }
}

/// Returns the elements of a list (RFC 9110 §5.6.1), including empty ones.
pub(super) fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim)
}

/// Parses one or more digits (RFC 9110 §8.6).
fn decimal(digits: &[u8]) -> Result<u64, Violation> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Violation::Length);
    }
    digits.iter().try_fold(0u64, |number, digit| {
        let number = number.checked_mul(10).ok_or(Violation::LengthOverflow)?;
        number
            .checked_add(u64::from(digit - b'0'))
            .ok_or(Violation::LengthOverflow)
    })
}

/// Parses digits after a space. Returns `None` for any other value, and for a number of more than
/// 19 digits, which might overflow.
#[inline]
fn short_number(value: &[u8]) -> Option<u64> {
    let [b' ', digits @ ..] = value else {
        return None;
    };
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    let mut number = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    Some(number)
}
