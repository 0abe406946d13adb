//! Builds the request that ab sends repeatedly.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::arguments::AbArguments;

/// Bytes of an HTTP/1.0 request. Its headers are in ab's order, and headers from `-H` are
/// unchanged.
pub(super) struct Http10Request {
    /// Request line and headers, including the empty line at the end.
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
}

impl Http10Request {
    /// Builds the request.
    pub(super) fn new(arguments: &AbArguments, body: Vec<u8>) -> Http10Request {
        let mut lines = vec![format!(
            "{} {} HTTP/1.0",
            arguments.method,
            target(arguments)
        )];
        if arguments.keepalive {
            lines.push("Connection: Keep-Alive".to_owned());
        }
        if !arguments.cookies.is_empty() {
            lines.push(format!("Cookie: {}", arguments.cookies.join("; ")));
        }
        let basic = |login: &String| format!("Basic {}", BASE64.encode(login));
        lines.extend(
            arguments
                .login
                .as_ref()
                .map(|login| format!("Authorization: {}", basic(login))),
        );
        // In a tunnel, a header with the proxy's credentials would be sent to the server.
        let asks_proxy = !(arguments.url.is_tls && arguments.proxy.is_some());
        lines.extend(
            arguments
                .proxy_login
                .as_ref()
                .filter(|_| asks_proxy)
                .map(|login| format!("Proxy-Authorization: {}", basic(login))),
        );
        if arguments.body_file.is_some() {
            lines.push(format!("Content-length: {}", body.len()));
            let content_type = arguments.content_type.as_deref().unwrap_or("text/plain");
            lines.push(format!("Content-type: {content_type}"));
        }
        lines.extend(arguments.headers.iter().cloned());
        for (name, value) in [
            ("Host", arguments.url.authority()),
            ("User-Agent", "ApacheBench/2.3".to_owned()),
            ("Accept", "*/*".to_owned()),
        ] {
            if given_header(arguments, name).is_none() {
                lines.push(format!("{name}: {value}"));
            }
        }
        let mut head = lines.join("\r\n").into_bytes();
        head.extend_from_slice(b"\r\n\r\n");
        Http10Request { head, body }
    }

    /// Returns the bytes of the head and the body.
    pub(super) fn bytes(&self) -> Vec<u8> {
        [self.head.as_slice(), &self.body].concat()
    }
}

/// Returns the target for the request line. It is the whole URL if a proxy is used without a
/// tunnel.
fn target(arguments: &AbArguments) -> String {
    match &arguments.proxy {
        Some(_) if !arguments.url.is_tls => arguments.url.whole(),
        _ => arguments.url.path.clone(),
    }
}

/// Returns the value of a header that `-H` provides.
pub(super) fn given_header<'a>(arguments: &'a AbArguments, name: &str) -> Option<&'a str> {
    arguments.headers.iter().find_map(|line| {
        let (own, value) = line.split_once(':')?;
        own.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::super::arguments::{AbCommand, parse};
    use super::*;

    fn written(words: &str, body: &str) -> String {
        let words: Vec<_> = words.split(' ').map(Into::into).collect();
        let AbCommand::Load(arguments) = parse(&words).unwrap() else {
            panic!("{words:?}");
        };
        let written = Http10Request::new(&arguments, body.as_bytes().to_vec());
        String::from_utf8(written.bytes()).unwrap()
    }

    const LAST: &str = "User-Agent: ApacheBench/2.3\r\nAccept: */*\r\n\r\n";

    #[test]
    fn plain() {
        let expected = format!("GET /a?b HTTP/1.0\r\nHost: h:81\r\n{LAST}");
        assert_eq!(written("h:81/a?b", ""), expected);
    }

    #[test]
    fn requests_with_all_options_match_ab() {
        let words = "-k -C a=1 -C b=2 -A u:p -P x:y -p f -T t/x -H X-A:1 -H nocolon h/";
        let expected = format!(
            "POST / HTTP/1.0\r\nConnection: Keep-Alive\r\nCookie: a=1; b=2\r\n\
             Authorization: Basic dTpw\r\nProxy-Authorization: Basic eDp5\r\n\
             Content-length: 2\r\nContent-type: t/x\r\nX-A:1\r\nnocolon\r\nHost: h\r\n{LAST}hi"
        );
        assert_eq!(written(words, "hi"), expected);
    }

    #[test]
    fn fields_that_are_given_replace_abs_own() {
        let words = "-H host:x -H user-agent:me -H ACCEPT:y/z -m DELETE h/";
        let expected = "DELETE / HTTP/1.0\r\nhost:x\r\nuser-agent:me\r\nACCEPT:y/z\r\n\r\n";
        assert_eq!(written(words, ""), expected);
    }

    #[test]
    fn a_proxy_is_asked_for_the_whole_url_and_a_tunnel_for_the_path() {
        let plain = written("-X p:3128 -P u:p http://h:81/x", "");
        assert!(
            plain.starts_with("GET http://h:81/x HTTP/1.0\r\nProxy-Authorization"),
            "{plain}"
        );
        let tunnel = written("-X p:3128 -P u:p https://h/x", "");
        assert!(
            tunnel.starts_with("GET /x HTTP/1.0\r\nHost: h\r\n"),
            "{tunnel}"
        );
    }
}
