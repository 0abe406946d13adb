//! What a head says, line by line. Only what an exchange needs is kept; all of it is checked.

use memchr::memchr;

use super::{Expects, Framing, Head, Version, Violation};
use crate::field::{is_named, is_token, is_value, line_length, name_length, token_length, trim};

/// A head under way. One for each head, interim ones included.
#[derive(Debug)]
pub(super) struct HeadLines {
    status: u16,
    version: Version,
    length: Option<u64>,
    coded: Coded,
    close: bool,
    keep_alive: bool,
    fold: Fold,
}

/// What the Transfer-Encoding fields said so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coded {
    No,
    /// Such a field, but an empty one.
    Named,
    Chunked,
}

/// What a line that begins with white space would continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    /// Nothing: there was no field yet.
    Nothing,
    /// A field that does not matter here.
    Any,
    /// A field that says where the answer ends.
    Framing,
}

impl HeadLines {
    pub(super) const fn new() -> HeadLines {
        HeadLines {
            status: 0,
            version: Version::Http11,
            length: None,
            coded: Coded::No,
            close: false,
            keep_alive: false,
            fold: Fold::Nothing,
        }
    }

    /// Reads the status line: `HTTP/1.x SP 3DIGIT SP reason` (RFC 9112 §4), with the last space
    /// missing too.
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

    /// Reads the version and the status that the bytes begin with, and gives the rest.
    #[inline]
    pub(super) fn version_and_status<'l>(&mut self, line: &'l [u8]) -> Result<&'l [u8], Violation> {
        let Some((minor, rest)) = line
            .get(super::opening::START.len()..)
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

    /// Reads a field line.
    pub(super) fn field_line(&mut self, line: &[u8]) -> Result<(), Violation> {
        match split_field(line, self.fold)? {
            Some(field) => self.field(field),
            None => Ok(()),
        }
    }

    /// Takes what matters from a field.
    #[inline(always)]
    pub(super) fn field(&mut self, Field { name, value }: Field<'_>) -> Result<(), Violation> {
        self.fold = Fold::Framing;
        // Few fields have a name of such a length, so names are seldom compared.
        match name.len() {
            10 if is_named(name, b"connection") => self.connection(value),
            14 if is_named(name, b"content-length") => return self.content_length(value),
            17 if is_named(name, b"transfer-encoding") => return self.transfer_encoding(value),
            _ => self.fold = Fold::Any,
        }
        Ok(())
    }

    /// A list of options, of which two matter (RFC 9112 §9.3). Others are the peer's own.
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

    /// Digits, or the same number several times, in one field or several (RFC 9112 §6.3).
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

    /// A list in which only `chunked` may stand, once (RFC 9112 §6.1) and without parameters (§7.1).
    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Violation> {
        if self.coded == Coded::No {
            self.coded = Coded::Named;
        }
        // Empty elements of a list are ignored (RFC 9110 §5.6.1.2).
        for coding in elements(value).filter(|coding| !coding.is_empty()) {
            if !coding.eq_ignore_ascii_case(b"chunked") {
                return Err(Violation::Coding);
            }
            if self.coded == Coded::Chunked {
                return Err(Violation::ChunkedTwice);
            }
            self.coded = Coded::Chunked;
        }
        Ok(())
    }

    /// The status, once its line was read.
    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// The empty line has come: how long is the body, in the order of RFC 9112 §6.3, and may the
    /// connection be used again (§9.3)?
    #[inline]
    pub(super) fn finish(&self, expects: Expects) -> Result<Head, Violation> {
        let tunnel = expects == Expects::Connect && (200..300).contains(&self.status);
        let bodiless = tunnel || expects == Expects::NoBody || matches!(self.status, 204 | 304);
        let framing = match (self.coded, self.length) {
            _ if bodiless => Framing::Empty,
            (Coded::No, None) => Framing::UntilClose,
            (Coded::No, Some(_)) => Framing::Length,
            _ if self.version == Version::Http10 => return Err(Violation::CodingInHttp10),
            (_, Some(_)) => return Err(Violation::LengthAndCoding),
            (Coded::Named, None) => return Err(Violation::Coding),
            (Coded::Chunked, None) => Framing::Chunked,
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

/// The two parts of a field line.
#[derive(Debug)]
pub(super) struct Field<'l> {
    pub(super) name: &'l [u8],
    /// With the white space around it.
    pub(super) value: &'l [u8],
}

/// The valid field line, ended by CRLF, that the bytes begin with, and its size with the CRLF. None
/// for whatever else they may begin with, which [`split_field`] judges once the line is complete.
///
/// The end of the line does not wait for that of the name: a processor looks for both at once.
#[inline]
pub(super) fn whole_field(bytes: &[u8]) -> Option<(Field<'_>, usize)> {
    let line_end = line_length(bytes)?;
    let name_end = name_length(bytes)?;
    let value = bytes.get(name_end + 1..line_end)?;
    let name = &bytes[..name_end];
    Some((Field { name, value }, line_end + 2))
}

/// A field line's name and value, checked; None for a line that continues the value of the one
/// before it, which a user agent is to read as a space (RFC 9112 §5.2).
pub(super) fn split_field(line: &[u8], fold: Fold) -> Result<Option<Field<'_>>, Violation> {
    let name_end = token_length(line);
    if name_end == 0 || line.get(name_end) != Some(&b':') {
        return odd_line(line, fold).map(|()| None);
    }
    let (name, value) = (&line[..name_end], &line[name_end + 1..]);
    if !is_value(value) {
        return Err(value_fault(value));
    }
    Ok(Some(Field { name, value }))
}

/// A line that has no valid name: does it continue a value, or what is wrong with it?
#[cold]
fn odd_line(line: &[u8], fold: Fold) -> Result<(), Violation> {
    if let [b' ' | b'\t', ..] = line {
        return match fold {
            Fold::Nothing => Err(Violation::SpaceBeforeFields),
            Fold::Framing => Err(Violation::FoldedFraming),
            Fold::Any if is_value(line) => Ok(()),
            Fold::Any => Err(value_fault(line)),
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

/// What makes these bytes no value.
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

/// The elements of a list (RFC 9110 §5.6.1), empty ones included.
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim)
}

/// One or more digits, and nothing else (RFC 9110 §8.6).
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

/// Digits after a space, as few as always fit.
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
