//! Formats of access logs, as nginx (`log_format`) and Apache (`LogFormat`) write them.

use std::borrow::Cow;

use super::logged::{LoggedRequest, SkipReason};
use super::stamp::{Stamp, number};

/// The beginning that the formats `combined` and `common` of both servers share. Further fields are
/// ignored.
const COMBINED: &str = "%h %l %u [$time_local] \"%r\" %>s";
/// The beginning of Apache's `vhost_combined`.
const VHOST_COMBINED: &str = "%v %h %l %u [$time_local] \"%r\" %>s";

/// The format of an access log.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogFormat {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Literal(Vec<u8>),
    Field(Field),
}

/// A field, and the part of the request that it contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Client,
    /// Time of day in the form of access logs, also in brackets.
    CommonTime,
    /// Time in another form.
    Time,
    /// Fraction of the second, in this number of units per second.
    Fraction(i64),
    RequestLine,
    Method,
    /// Path, perhaps with a query.
    Target,
    /// Query, with a question mark or without.
    Query,
    Status,
    Ignored,
}

impl LogFormat {
    /// The formats that are tried if none is given.
    pub(super) fn defaults() -> [LogFormat; 2] {
        [COMBINED, VHOST_COMBINED].map(LogFormat::built_in)
    }

    fn built_in(text: &str) -> LogFormat {
        LogFormat {
            pieces: pieces(text),
        }
    }

    /// Parses a format string of nginx or Apache, or the name of a usual format.
    ///
    /// # Errors
    ///
    /// Returns a sentence about a format that has no request, or whose fields can't be separated.
    pub(crate) fn parse(text: &str) -> Result<LogFormat, String> {
        let text = text.trim().trim_matches('\'');
        let format = LogFormat::built_in(match text {
            "combined" | "common" => COMBINED,
            "vhost_combined" => VHOST_COMBINED,
            _ => text,
        });
        if !format.has(Field::RequestLine) && !format.has(Field::Target) {
            return Err(
                "the format has no field with the request: $request or $request_uri (nginx), %r or \
                 %U%q (Apache)"
                    .to_owned(),
            );
        }
        for pair in format.pieces.windows(2) {
            if let [Piece::Field(one), Piece::Field(next)] = pair
                && !matches!((one, next), (Field::CommonTime, _) | (_, Field::Query))
            {
                return Err(
                    "two fields have no text between them, so they can't be separated".into(),
                );
            }
        }
        Ok(format)
    }

    fn has(&self, field: Field) -> bool {
        self.pieces.contains(&Piece::Field(field))
    }

    /// Returns true if the format has a time.
    pub(super) fn has_time(&self) -> bool {
        self.has(Field::Time) || self.has(Field::CommonTime)
    }

    /// Reads a line.
    pub(super) fn read(&self, line: &[u8], to: &mut LoggedRequest) -> Result<(), SkipReason> {
        to.clear();
        let mut rest = line;
        let mut pieces = self.pieces.iter().peekable();
        let (mut time, mut fraction) = (None, None);
        let mut target: Option<Cow<'_, [u8]>> = None;
        while let Some(piece) = pieces.next() {
            let field = match piece {
                Piece::Literal(text) => {
                    rest = rest.strip_prefix(&text[..]).ok_or(SkipReason::Format)?;
                    continue;
                }
                Piece::Field(field) => *field,
            };
            let length = match (field, pieces.peek()) {
                (Field::CommonTime, _) => common_time_length(rest),
                (Field::Status, None) => {
                    let digits = rest.iter().take_while(|it| it.is_ascii_digit());
                    Some(digits.count())
                }
                (_, None) => Some(rest.len()),
                (_, Some(Piece::Literal(next))) => find_end(rest, next),
                // The query follows its path.
                (_, Some(Piece::Field(_))) => {
                    let end = rest.iter().position(|byte| b"? \"".contains(byte));
                    Some(end.unwrap_or(rest.len()))
                }
            };
            let (value, after) = rest.split_at(length.ok_or(SkipReason::Format)?);
            rest = after;
            match field {
                Field::Client => to.set_client(value),
                Field::CommonTime if time.is_none() => {
                    let value = value.strip_prefix(b"[").unwrap_or(value);
                    time = Stamp::common(value.get(..26).unwrap_or(value));
                }
                // A more precise time has precedence.
                Field::Time => {
                    time = Stamp::parse(value)
                        .filter(|it| time.is_none_or(|other: Stamp| other.is_whole || !it.is_whole))
                        .or(time)
                }
                Field::Fraction(per_second) => fraction = Some((number(value), per_second)),
                Field::RequestLine => to.set_request_line(&unescaped(value))?,
                Field::Method => to.set_method(value)?,
                Field::Target => target = Some(unescaped(value)),
                Field::Query => {
                    let value = unescaped(value);
                    let path = target.get_or_insert_default().to_mut();
                    if !matches!(&*value, [] | [b'?', ..] | b"-") {
                        path.push(b'?');
                    }
                    if *value != *b"-" {
                        path.extend_from_slice(&value);
                    }
                }
                Field::Status => to.set_status(value),
                Field::CommonTime | Field::Ignored => {}
            }
        }
        to.stamp = match (time, fraction) {
            (Some(time), Some((Some(count), per_second))) => {
                Some(time.with_fraction(count.min(per_second - 1), per_second))
            }
            (time, _) => time,
        };
        if let Some(target) = target.filter(|_| to.path.is_empty()) {
            to.set_target(&target)?;
        }
        if to.method.is_empty() {
            to.method.push_str("GET");
        }
        Ok(())
    }
}

/// Returns the length of a time of access logs, with its brackets.
fn common_time_length(text: &[u8]) -> Option<usize> {
    match text {
        [b'[', ..] => memchr::memchr(b']', text).map(|end| end + 1),
        _ => (text.len() >= 26).then_some(26),
    }
}

/// Returns the length of a value that ends before `next`. A quotation mark after a backslash does
/// not end it.
fn find_end(text: &[u8], next: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let found = from + memchr::memmem::find(&text[from..], next)?;
        let slashes = text[..found].iter().rev().take_while(|it| **it == b'\\');
        if next[0] != b'"' || slashes.count() % 2 == 0 {
            return Some(found);
        }
        from = found + 1;
    }
}

/// Replaces the escapes of nginx, Apache and JSON: `\xHH`, `\"`, `\\`, `\t`, `\u00HH` and similar.
fn unescaped(value: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', value).is_none() {
        return Cow::Borrowed(value);
    }
    let mut text = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let hex = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 16).ok()
        };
        let (decoded, used) = match (byte, after) {
            (b'\\', [b'x', high, low, ..]) => (hex(&[*high, *low]), 3),
            (b'\\', [b'u', b'0', b'0', high, low, ..]) => (hex(&[*high, *low]), 5),
            (b'\\', [b'n', ..]) => (Some(b'\n'), 1),
            (b'\\', [b'r', ..]) => (Some(b'\r'), 1),
            (b'\\', [b't', ..]) => (Some(b'\t'), 1),
            (b'\\', [other, ..]) => (Some(*other), 1),
            _ => (None, 0),
        };
        text.push(decoded.unwrap_or(byte));
        rest = &rest[if decoded.is_some() { used } else { 0 }..];
    }
    Cow::Owned(text)
}

/// Divides a format string into text and fields.
fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut literal = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let field = match first {
            '$' => nginx_field(&rest[1..]),
            '%' => apache_field(&rest[1..]),
            _ => None,
        };
        match field {
            Some((field, length)) => {
                if !literal.is_empty() {
                    pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                }
                // `$is_args` is a part of the query that follows it.
                if let Some(field) = field {
                    pieces.push(Piece::Field(field));
                }
                rest = &rest[1 + length..];
            }
            None => {
                let escaped = rest.strip_prefix('\\').filter(|it| it.starts_with('"'));
                rest = escaped
                    .or(rest.strip_prefix("%").filter(|it| it.starts_with('%')))
                    .unwrap_or(rest);
                let first = rest.chars().next().unwrap_or(first);
                literal.extend_from_slice(&rest.as_bytes()[..first.len_utf8()]);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    pieces
}

/// Returns nginx's variable at the beginning of a text, and the length of its name.
fn nginx_field(text: &str) -> Option<(Option<Field>, usize)> {
    let (name, length) = match text.strip_prefix('{') {
        Some(rest) => {
            let end = rest.find('}')?;
            (&rest[..end], end + 2)
        }
        None => {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
            (&text[..end], end)
        }
    };
    let field = match name {
        "" => return None,
        "is_args" => return Some((None, length)),
        "remote_addr" | "binary_remote_addr" | "realip_remote_addr" => Field::Client,
        "time_local" => Field::CommonTime,
        "time_iso8601" | "msec" => Field::Time,
        "request" => Field::RequestLine,
        "request_method" => Field::Method,
        "request_uri" | "uri" | "document_uri" => Field::Target,
        "args" | "query_string" => Field::Query,
        "status" => Field::Status,
        _ => Field::Ignored,
    };
    Some((Some(field), length))
}

/// Returns Apache's directive at the beginning of a text, and its length.
fn apache_field(text: &str) -> Option<(Option<Field>, usize)> {
    // Conditions on the status, and the original or final request, precede the name.
    let start = text.find(|c: char| !(c.is_ascii_digit() || ",!<>".contains(c)))?;
    let (argument, at) = match text[start..].strip_prefix('{') {
        Some(rest) => {
            let end = rest.find('}')?;
            (&rest[..end], start + end + 2)
        }
        None => ("", start),
    };
    let name = text[at..].chars().next()?;
    if !name.is_ascii_alphabetic() {
        return None;
    }
    let time = argument
        .strip_prefix("begin:")
        .or(argument.strip_prefix("end:"));
    let field = match (name, time.unwrap_or(argument)) {
        ('h' | 'a', _) => Field::Client,
        ('t', "") => Field::CommonTime,
        ('t', "msec_frac") => Field::Fraction(1_000),
        ('t', "usec_frac") => Field::Fraction(1_000_000),
        ('t', "%d/%b/%Y:%H:%M:%S %z" | "%d/%b/%Y:%T %z") => Field::CommonTime,
        ('t', _) => Field::Time,
        ('r', _) => Field::RequestLine,
        ('m', _) => Field::Method,
        ('U', _) => Field::Target,
        ('q', _) => Field::Query,
        ('s', _) => Field::Status,
        _ => Field::Ignored,
    };
    // `%^ti` and similar have two letters.
    Some((Some(field), at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: &str, line: &str) -> Result<(String, String, i64, u16), SkipReason> {
        let mut request = LoggedRequest::default();
        LogFormat::parse(format)
            .unwrap()
            .read(line.as_bytes(), &mut request)?;
        let path = String::from_utf8_lossy(&request.path).into_owned();
        let ms = request.stamp.map_or(-1, |stamp| stamp.ns / 1_000_000);
        Ok((request.method, path, ms, request.status))
    }

    #[test]
    fn lines_of_nginx_and_apache_are_read_with_their_format_strings() {
        let seconds = 971_211_336_000;
        let time = "10/Oct/2000:13:55:36 -0700";
        for (format, line, expected) in [
            (
                "combined",
                format!("::1 - J Doe [{time}] \"GET /a HTTP/1.1\" 200 5 \"-\" \"x \\\" y\""),
                ("GET", "/a", seconds, 200),
            ),
            (
                "$remote_addr - $remote_user [$time_local] \"$request\" $status \
                 $body_bytes_sent \"$http_referer\" $msec",
                format!("::1 - - [{time}] \"GET /\\x22\\x5C HTTP/2.0\" 404 5 \"a\" 971211336.250"),
                ("GET", "/\"\\", seconds + 250, 404),
            ),
            (
                "$msec $request_method $uri$is_args$args $status",
                "971211336.5 HEAD /a?b=1 301".to_owned(),
                ("HEAD", "/a?b=1", seconds + 500, 301),
            ),
            (
                "{\"t\":\"$time_iso8601\",\"m\":\"$request_method\",\"u\":\"$request_uri\"}",
                "{\"t\":\"2000-10-10T20:55:36+00:00\",\"m\":\"GET\",\"u\":\"\\/a\\u0022\"}"
                    .to_owned(),
                ("GET", "/a\"", seconds, 0),
            ),
            (
                "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"",
                format!("h:80 ::1 - - [{time}] \"GET /\\\"a HTTP/1.1\" 500 5 \"-\" \"-\""),
                ("GET", "/\"a", seconds, 500),
            ),
            (
                "%a %{sec}t.%{usec_frac}t \\\"%m %U%q\\\" %s",
                "::1 971211336.000250 \"GET /a?b\" 200".to_owned(),
                ("GET", "/a?b", seconds, 200),
            ),
            (
                "%h %{%d/%b/%Y:%T %z}t %{msec_frac}t \"%m %U%q\" %D%%",
                format!("::1 {time} 125 \"GET /a\" 9%"),
                ("GET", "/a", seconds + 125, 0),
            ),
        ] {
            let expected = (
                expected.0.to_owned(),
                expected.1.to_owned(),
                expected.2,
                expected.3,
            );
            assert_eq!(read(format, &line), Ok(expected), "{format}");
        }
    }

    #[test]
    fn wrong_lines_and_formats_are_refused() {
        for line in [
            "",
            "a",
            "\u{0}\u{1}",
            "::1 - - 10/Oct/2000 \"GET / HTTP/1.1\" 200",
        ] {
            assert_eq!(read("combined", line), Err(SkipReason::Format), "{line:?}");
        }
        let line = "::1 - - [10/Oct/2000:13:55:36 -0700] \"\\x16\\x03\" 400 1";
        assert_eq!(read("combined", line), Err(SkipReason::NoRequest));
        for format in ["$remote_addr [$time_local]", "$request$status", ""] {
            assert!(LogFormat::parse(format).is_err(), "{format}");
        }
    }
}
