//! Parses the requests that scripts return.

/// Maximum number of header fields in a script's request.
const FIELDS_MAX: usize = 256;

/// Returns the method of the first request.
///
/// # Errors
///
/// Returns an error that quotes the beginning of the bytes.
pub fn method(bytes: &[u8]) -> Result<&str, String> {
    let end = bytes
        .iter()
        .position(|byte| !byte.is_ascii_alphabetic() && *byte != b'-');
    let (word, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
    match std::str::from_utf8(word) {
        Ok(method) if !method.is_empty() && rest.starts_with(b" ") => Ok(method),
        _ => {
            let start = &bytes[..bytes.len().min(40)];
            Err(format!(
                "\"{}\" is not an HTTP request",
                start.escape_ascii()
            ))
        }
    }
}

/// The parts of a single request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestParts<'a> {
    pub(crate) method: &'a str,
    /// Path and query.
    pub(crate) path: &'a str,
    /// The header fields without Content-Length.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: &'a [u8],
}

/// Parses a single request.
///
/// # Errors
///
/// Returns the reason why the text is not one complete request for a path.
pub(crate) fn parse_request(bytes: &[u8]) -> Result<RequestParts<'_>, String> {
    if count(bytes)? > 1 {
        return Err("it returned several requests at once".to_owned());
    }
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    let Ok(httparse::Status::Complete(head)) = request.parse(bytes) else {
        return Err("it returned an incomplete request".to_owned());
    };
    let path = request.path.unwrap_or_default();
    if !path.starts_with('/') {
        return Err(format!("the path \"{path}\" does not begin with a slash"));
    }
    let mut headers = Vec::new();
    for field in request.headers.iter() {
        if field.name.eq_ignore_ascii_case("Transfer-Encoding") {
            return Err(
                "a chunked body requires HTTP/1.1, no redirects, no proxy and reused \
                        connections (set Content-Length instead)"
                    .to_owned(),
            );
        }
        let value = std::str::from_utf8(field.value)
            .map_err(|_| format!("the value of {} is not UTF-8 text", field.name))?;
        if !field.name.eq_ignore_ascii_case("Content-Length") {
            headers.push((field.name.to_owned(), value.to_owned()));
        }
    }
    Ok(RequestParts {
        method: request.method.unwrap_or_default(),
        path,
        headers,
        body: &bytes[head..],
    })
}

/// Returns the number of concatenated requests.
///
/// # Errors
///
/// Returns the reason why the bytes are not complete requests.
pub fn count(bytes: &[u8]) -> Result<u32, String> {
    let mut rest = bytes;
    let mut count: u32 = 0;
    let is_head = |bytes: &[u8]| bytes.starts_with(b"HEAD ");
    while !rest.is_empty() || count == 0 {
        if is_head(rest) != is_head(bytes) {
            return Err("it returned a HEAD request together with others".to_owned());
        }
        rest = after_first(rest)
            .map_err(|what| format!("request {} of the returned text {what}", count + 1))?;
        count += 1;
    }
    Ok(count)
}

/// Returns the bytes after the first request.
fn after_first(bytes: &[u8]) -> Result<&[u8], String> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    let head = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Err("is incomplete".to_owned()),
        Err(error) => return Err(format!("is not HTTP: {error}")),
    };
    let field = |name: &str| {
        let mut fields = request.headers.iter();
        let found = fields.find(|field| field.name.eq_ignore_ascii_case(name));
        found.map(|field| field.value.trim_ascii())
    };
    let body = &bytes[head..];
    if field("Transfer-Encoding").is_some_and(|value| value.eq_ignore_ascii_case(b"chunked")) {
        return after_chunks(body);
    }
    let length = match field("Content-Length") {
        None => 0,
        Some(digits) => std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or("has an invalid Content-Length")?,
    };
    body.get(length..).ok_or_else(|| {
        format!(
            "has a body of {} bytes and a Content-Length of {length}",
            body.len()
        )
    })
}

/// Returns the bytes after a chunked body (RFC 9112 §7.1).
fn after_chunks(mut body: &[u8]) -> Result<&[u8], String> {
    loop {
        let Ok(httparse::Status::Complete((line, size))) = httparse::parse_chunk_size(body) else {
            return Err("has an incomplete chunked body".to_owned());
        };
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let end = line.saturating_add(size);
        if size > 0 {
            let rest = body.get(end..).and_then(|rest| rest.strip_prefix(b"\r\n"));
            body = rest.ok_or("has an incomplete chunked body")?;
            continue;
        }
        // Trailers end with an empty line.
        let mut rest = &body[line..];
        loop {
            let end = rest.iter().position(|byte| *byte == b'\n');
            let end = end.ok_or("has an incomplete chunked body")?;
            let is_last = rest[..end].trim_ascii().is_empty();
            rest = &rest[end + 1..];
            if is_last {
                return Ok(rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_method_is_the_first_word() {
        assert_eq!(method(b"GET / HTTP/1.1\r\n\r\n"), Ok("GET"));
        assert_eq!(method(b"M-SEARCH * HTTP/1.1\r\n\r\n"), Ok("M-SEARCH"));
        for wrong in [
            &b""[..],
            b"GET",
            b" GET /",
            b"\xff /",
            b"\r\nGET / HTTP/1.1",
        ] {
            assert!(
                method(wrong)
                    .unwrap_err()
                    .contains("is not an HTTP request")
            );
        }
    }

    #[test]
    fn pipelined_requests_are_counted() {
        let get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        let post = "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
        let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
                       3;x=y\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nA: b\r\n\r\n";
        for (text, counted) in [
            (get.to_owned(), 1),
            (post.to_owned(), 1),
            (chunked.to_owned(), 1),
            (get.repeat(3), 3),
            (format!("{post}{get}{chunked}{post}"), 4),
        ] {
            assert_eq!(count(text.as_bytes()), Ok(counted), "{text}");
        }
    }

    #[test]
    fn single_requests_have_parts() {
        let text = "POST /a?b HTTP/1.1\r\nHost: h\r\ncontent-length: 3\r\nA: b \r\n\r\nabc";
        let parts = parse_request(text.as_bytes()).unwrap();
        assert_eq!(
            (parts.method, parts.path, parts.body),
            ("POST", "/a?b", &b"abc"[..])
        );
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(parts.headers, [field("Host", "h"), field("A", "b")]);
        let get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        for (text, expected_text) in [
            (get.repeat(2), "several requests"),
            (
                get.replace(" / ", " http://h/ "),
                "does not begin with a slash",
            ),
            (
                get.replace("Host: h", "Transfer-Encoding: chunked") + "0\r\n\r\n",
                "a chunked body",
            ),
        ] {
            let error = parse_request(text.as_bytes()).unwrap_err();
            assert!(error.contains(expected_text), "{text:?}: {error}");
        }
    }

    #[test]
    fn incomplete_requests_are_reported() {
        let get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        for (text, expected_text) in [
            (
                String::new(),
                "request 1 of the returned text is incomplete",
            ),
            (
                get[..20].to_owned(),
                "request 1 of the returned text is incomplete",
            ),
            (
                format!("{get}GET"),
                "request 2 of the returned text is incomplete",
            ),
            (
                format!("{get}{get}\0"),
                "request 3 of the returned text is not HTTP",
            ),
            (
                format!("{get}HEAD / HTTP/1.1\r\n\r\n"),
                "it returned a HEAD request together with others",
            ),
            (
                "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab".to_owned(),
                "has a body of 2 bytes and a Content-Length of 3",
            ),
            (
                "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n".to_owned(),
                "has an invalid Content-Length",
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nab".to_owned(),
                "has an incomplete chunked body",
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nab"
                    .to_owned(),
                "has an incomplete chunked body",
            ),
        ] {
            let error = count(text.as_bytes()).unwrap_err();
            assert!(error.contains(expected_text), "{text:?}: {error}");
        }
    }
}
