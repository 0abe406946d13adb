//! Builds the request of a run without a script.

use super::url::WrkUrl;

/// Serializes the request. It contains only the Host header and the given headers. A given Host
/// header replaces the default one.
pub(super) fn plain(url: &WrkUrl, headers: &[(String, String)]) -> Vec<u8> {
    let mut text = format!("GET {} HTTP/1.1\r\n", url.0.path);
    let mut line = |name: &str, value: &str| {
        text.extend([name, ": ", value, "\r\n"]);
    };
    if !headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("host"))
    {
        line("Host", &url.authority());
    }
    for (name, value) in headers {
        line(name, value);
    }
    text.push_str("\r\n");
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_script_sends_what_wrk_sends() {
        let url = WrkUrl::parse("http://h:81/a?b").unwrap();
        let sent = |headers: &[(&str, &str)]| {
            let headers: Vec<_> = headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            String::from_utf8(plain(&url, &headers)).unwrap()
        };
        assert_eq!(sent(&[]), "GET /a?b HTTP/1.1\r\nHost: h:81\r\n\r\n");
        assert_eq!(
            sent(&[("A", "1"), ("host", "x")]),
            "GET /a?b HTTP/1.1\r\nA: 1\r\nhost: x\r\n\r\n"
        );
    }
}
