//! Describes failed requests with the error messages of Go's HTTP client, because scripts look for
//! those messages.

use std::collections::BTreeMap;

use prony_record::Outcome;

use super::watch::CollectedRequests;

/// Parts of a request that appear in the error messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailedRequestInfo<'a> {
    pub(super) method: &'a str,
    pub(super) url: &'a str,
    /// Address of the proxy as `host:port`, if there is one.
    pub(super) proxy: Option<&'a str>,
}

/// Returns the number of failures for each error message, sorted by message.
pub(super) fn failures(
    noted: &CollectedRequests,
    asked: FailedRequestInfo<'_>,
) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for ((outcome, reason), count) in &noted.failures {
        let text = format!(
            "{} {:?}: {}",
            capitalized(asked.method),
            asked.url,
            words(*outcome, reason.as_deref(), asked)
        );
        *counts.entry(text).or_default() += count;
    }
    counts
}

/// Converts `GET` to `Get`.
fn capitalized(method: &str) -> String {
    let (first, rest) = method.split_at_checked(1).unwrap_or((method, ""));
    first.to_owned() + &rest.to_lowercase()
}

fn words(outcome: Outcome, reason: Option<&str>, asked: FailedRequestInfo<'_>) -> String {
    let (via, peer) = match asked.proxy {
        Some(proxy) => ("proxyconnect tcp: ", proxy.to_owned()),
        None => ("", authority(asked.url)),
    };
    let dial = |what: &str| format!("{via}dial tcp {peer}: {what}");
    let because = reason.unwrap_or("failed");
    match outcome {
        Outcome::Dns => dial("lookup: no such host"),
        Outcome::ConnectRefused => dial("connect: connection refused"),
        Outcome::ConnectTimeout => {
            dial("i/o timeout (Client.Timeout exceeded while awaiting headers)")
        }
        Outcome::ConnectUnreachable => dial("connect: no route to host"),
        Outcome::ConnectFailed => dial(&format!("connect: {because}")),
        Outcome::NoLocalPort => dial("connect: cannot assign requested address"),
        Outcome::TooManyFiles => dial("socket: too many open files"),
        Outcome::Tls => format!("tls: {because}"),
        Outcome::Reset => format!("read tcp {peer}: read: connection reset by peer"),
        Outcome::ClosedEarly => "EOF".to_owned(),
        Outcome::Truncated => "unexpected EOF".to_owned(),
        Outcome::Protocol => format!("malformed HTTP response: {because}"),
        Outcome::Timeout => "context deadline exceeded (Client.Timeout exceeded while awaiting \
                             headers)"
            .to_owned(),
        Outcome::Capture | Outcome::Call(_) | Outcome::Redirect => because.to_owned(),
        Outcome::Unfinished => "net/http: request canceled".to_owned(),
        // These outcomes can't occur, because every status counts as success in this load, and no
        // response is read as a stream.
        Outcome::Ok
        | Outcome::StoppedEarly
        | Outcome::NoEndMarker
        | Outcome::Stalled
        | Outcome::UnexpectedStatus
        | Outcome::UnexpectedSize
        | Outcome::UnexpectedBody
        | Outcome::Unstarted => outcome.name().replace('_', " "),
    }
}

/// Returns `host:port` of a URL.
fn authority(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| {
        !port.is_empty() && port.chars().all(|digit| digit.is_ascii_digit())
    });
    match (has_port, scheme) {
        (true, _) => host.to_owned(),
        (false, "https") => format!("{host}:443"),
        (false, _) => format!("{host}:80"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_the_wording_of_go() {
        let mut noted = CollectedRequests::default();
        noted.failures.insert((Outcome::ConnectRefused, None), 3);
        noted.failures.insert((Outcome::ClosedEarly, None), 1);
        let reason = Some("handshake failure".to_owned());
        noted.failures.insert((Outcome::Tls, reason), 2);
        let asked = FailedRequestInfo {
            method: "GET",
            url: "http://localhost/path",
            proxy: None,
        };
        let counts: Vec<_> = failures(&noted, asked).into_iter().collect();
        let expected = [
            ("Get \"http://localhost/path\": EOF", 1),
            (
                "Get \"http://localhost/path\": dial tcp localhost:80: connect: connection refused",
                3,
            ),
            ("Get \"http://localhost/path\": tls: handshake failure", 2),
        ];
        assert_eq!(counts, expected.map(|(text, n)| (text.to_owned(), n)));
        let proxy = FailedRequestInfo {
            method: "OPTIONS",
            proxy: Some("p:3128"),
            ..asked
        };
        let text = failures(&noted, proxy).into_keys().last().unwrap();
        assert!(text.starts_with("Options \""), "{text}");
        let refused = words(Outcome::ConnectRefused, None, proxy);
        assert_eq!(
            refused,
            "proxyconnect tcp: dial tcp p:3128: connect: connection refused"
        );
    }

    #[test]
    fn the_address_of_a_url_has_a_port() {
        for (url, expected) in [
            ("http://h", "h:80"),
            ("https://h/x?y=:1", "h:443"),
            ("http://u:p@h:8080/x", "h:8080"),
            ("http://[::1]/", "[::1]:80"),
            ("http://[::1]:81/", "[::1]:81"),
        ] {
            assert_eq!(authority(url), expected, "{url}");
        }
    }
}
