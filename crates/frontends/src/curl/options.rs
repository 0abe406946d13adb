//! Curl options that prony recognizes.

use prony_load::{HttpVersion, TlsVersion};

use self::CurlOption::{
    Cookie, Data, Follow, Get, Head, Header, Http, Ignored, IgnoredValue, Json, RedirectsMax,
    Refused, RefusedValue, TlsMax, TlsMin,
};

/// Effect of an option.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum CurlOption {
    /// The option is ignored, because it changes only curl's output or the directories in which
    /// curl looks for its own files.
    Ignored,
    /// Like `Ignored`, but for an option that takes a value.
    IgnoredValue,
    /// The option is rejected for this reason.
    Refused(&'static str),
    /// Like `Refused`, but for an option that takes a value.
    RefusedValue(&'static str),
    Url,
    Method,
    Head,
    Get,
    Header,
    Data(DataKind),
    Json,
    Form,
    FormString,
    PathAsIs,
    Cookie,
    User,
    Bearer,
    Insecure,
    Compressed,
    Http(HttpVersion),
    Follow,
    RedirectsMax,
    UserAgent,
    Referer,
    Proxy,
    Resolve,
    UnixSocket,
    Ca,
    Cert,
    Key,
    TlsMin(TlsVersion),
    TlsMax,
    Ciphers,
    Timeout,
    ConnectTimeout,
}

/// Treatment of a data option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataKind {
    /// Text. `@FILE` reads a file and removes its line breaks.
    Text,
    /// Binary data. `@FILE` reads a file without changing it.
    Binary,
    /// Literal data. An `@` has no special meaning.
    Raw,
    /// Percent-encoded data. `NAME@FILE` reads a file.
    UrlEncoded,
}

impl CurlOption {
    pub(super) fn takes_value(self) -> bool {
        use CurlOption::{Compressed, Insecure, PathAsIs};
        !matches!(
            self,
            Ignored
                | Refused(_)
                | Head
                | Get
                | Insecure
                | PathAsIs
                | Compressed
                | Http(_)
                | Follow
                | TlsMin(_)
        )
    }
}

const ONE: &str =
    "only one request per command is supported; list several requests in a file for --urls";
const FILE: &str = "write uploads as -X PUT --data-binary @FILE";
const ONLY_BASIC: &str = "only basic authentication is supported, as -u USER:PASSWORD";
const RETRY: &str = "failed requests are counted and never retried; remove the option";
const RATE: &str = "the transfer rate can't be limited; set the request rate with --rate";
const FAMILY: &str = "give the server's address with --resolve HOST:PORT:ADDR";
const SOURCE: &str = "set the source address with --source";
const HTTP3: &str = "prony doesn't fall back to other versions; write --http3-only";
const SOCKS: &str = "only cleartext HTTP proxies are supported; write -x HOST:PORT";
const PROXY_USER: &str = "write -x http://USER:PASSWORD@HOST:PORT";
const NETRC: &str = "write -u USER:PASSWORD";
const HTTP2: HttpVersion = HttpVersion::Http2;

/// Long name, letter and effect of each option.
const OPTIONS: &[(&str, Option<char>, CurlOption)] = &[
    ("url", None, CurlOption::Url),
    ("request", Some('X'), CurlOption::Method),
    ("head", Some('I'), Head),
    ("get", Some('G'), Get),
    ("header", Some('H'), Header),
    ("data", Some('d'), Data(DataKind::Text)),
    ("data-ascii", None, Data(DataKind::Text)),
    ("data-binary", None, Data(DataKind::Binary)),
    ("data-raw", None, Data(DataKind::Raw)),
    ("data-urlencode", None, Data(DataKind::UrlEncoded)),
    ("json", None, Json),
    ("form", Some('F'), CurlOption::Form),
    ("form-string", None, CurlOption::FormString),
    ("cookie", Some('b'), Cookie),
    ("user", Some('u'), CurlOption::User),
    ("oauth2-bearer", None, CurlOption::Bearer),
    ("insecure", Some('k'), CurlOption::Insecure),
    ("compressed", None, CurlOption::Compressed),
    ("path-as-is", None, CurlOption::PathAsIs),
    ("http1.0", Some('0'), Http(HttpVersion::Http10)),
    ("http1.1", None, Http(HttpVersion::Http11)),
    ("http2", None, Http(HTTP2)),
    ("http2-prior-knowledge", None, Http(HTTP2)),
    ("location", Some('L'), Follow),
    ("location-trusted", None, Refused("write -L")),
    ("max-redirs", None, RedirectsMax),
    ("user-agent", Some('A'), CurlOption::UserAgent),
    ("referer", Some('e'), CurlOption::Referer),
    ("proxy", Some('x'), CurlOption::Proxy),
    ("resolve", None, CurlOption::Resolve),
    ("unix-socket", None, CurlOption::UnixSocket),
    ("cacert", None, CurlOption::Ca),
    ("cert", Some('E'), CurlOption::Cert),
    ("key", None, CurlOption::Key),
    ("tlsv1.2", None, TlsMin(TlsVersion::Tls12)),
    ("tlsv1.3", None, TlsMin(TlsVersion::Tls13)),
    ("tls-max", None, TlsMax),
    ("ciphers", None, CurlOption::Ciphers),
    ("tls13-ciphers", None, CurlOption::Ciphers),
    ("max-time", Some('m'), CurlOption::Timeout),
    ("connect-timeout", None, CurlOption::ConnectTimeout),
    // Options for output, progress and diagnostics, which are ignored.
    ("output", Some('o'), IgnoredValue),
    ("output-dir", None, IgnoredValue),
    ("remote-name", Some('O'), Ignored),
    ("remote-name-all", None, Ignored),
    ("remote-header-name", Some('J'), Ignored),
    ("remote-time", Some('R'), Ignored),
    ("create-dirs", None, Ignored),
    ("clobber", None, Ignored),
    ("silent", Some('s'), Ignored),
    ("show-error", Some('S'), Ignored),
    ("verbose", Some('v'), Ignored),
    ("include", Some('i'), Ignored),
    ("show-headers", None, Ignored),
    ("write-out", Some('w'), IgnoredValue),
    ("dump-header", Some('D'), IgnoredValue),
    ("cookie-jar", Some('c'), IgnoredValue),
    ("junk-session-cookies", Some('j'), Ignored),
    ("trace", None, IgnoredValue),
    ("trace-ascii", None, IgnoredValue),
    ("trace-time", None, Ignored),
    ("trace-ids", None, Ignored),
    ("stderr", None, IgnoredValue),
    ("progress-bar", Some('#'), Ignored),
    ("progress-meter", None, Ignored),
    ("buffer", Some('N'), Ignored),
    ("styled-output", None, Ignored),
    ("fail", Some('f'), Ignored),
    ("fail-with-body", None, Ignored),
    ("fail-early", None, Ignored),
    // Options that request prony's default behavior.
    ("globoff", Some('g'), Ignored),
    ("basic", None, Ignored),
    ("tcp-nodelay", None, Ignored),
    ("keepalive", None, Ignored),
    ("keepalive-time", None, IgnoredValue),
    ("alpn", None, Ignored),
    ("disable", Some('q'), Ignored),
    // Options that would change the load in an unsupported way.
    ("next", Some(':'), Refused(ONE)),
    (
        "config",
        Some('K'),
        RefusedValue("write the options into the command"),
    ),
    (
        "parallel",
        Some('Z'),
        Refused("set the number of connections with --connections"),
    ),
    ("upload-file", Some('T'), RefusedValue(FILE)),
    ("anyauth", None, Refused(ONLY_BASIC)),
    ("digest", None, Refused(ONLY_BASIC)),
    ("negotiate", None, Refused(ONLY_BASIC)),
    ("ntlm", None, Refused(ONLY_BASIC)),
    ("aws-sigv4", None, RefusedValue(ONLY_BASIC)),
    ("netrc", Some('n'), Refused(NETRC)),
    ("netrc-optional", None, Refused(NETRC)),
    ("netrc-file", None, RefusedValue(NETRC)),
    ("retry", None, RefusedValue(RETRY)),
    ("retry-delay", None, RefusedValue(RETRY)),
    ("retry-max-time", None, RefusedValue(RETRY)),
    ("retry-all-errors", None, Refused(RETRY)),
    ("retry-connrefused", None, Refused(RETRY)),
    ("limit-rate", None, RefusedValue(RATE)),
    ("rate", None, RefusedValue(RATE)),
    ("ipv4", Some('4'), Refused(FAMILY)),
    ("ipv6", Some('6'), Refused(FAMILY)),
    ("connect-to", None, RefusedValue(FAMILY)),
    ("interface", None, RefusedValue(SOURCE)),
    ("local-port", None, RefusedValue(SOURCE)),
    ("http3", None, Refused(HTTP3)),
    ("http3-only", None, Http(HttpVersion::Http3)),
    ("socks4", None, RefusedValue(SOCKS)),
    ("socks4a", None, RefusedValue(SOCKS)),
    ("socks5", None, RefusedValue(SOCKS)),
    ("socks5-hostname", None, RefusedValue(SOCKS)),
    ("preproxy", None, RefusedValue(SOCKS)),
    (
        "proxytunnel",
        Some('p'),
        Refused("only https URLs use a tunnel through the proxy"),
    ),
    ("proxy-user", Some('U'), RefusedValue(PROXY_USER)),
    (
        "range",
        Some('r'),
        RefusedValue("write -H 'Range: bytes=…'"),
    ),
    (
        "time-cond",
        Some('z'),
        RefusedValue("write -H 'If-Modified-Since: …'"),
    ),
    (
        "request-target",
        None,
        RefusedValue("write the path into the URL"),
    ),
    (
        "variable",
        None,
        RefusedValue("write the value where the variable is used"),
    ),
];

/// Finds the option with this long name. Also accepts `--no-NAME` for an option that is ignored.
pub(super) fn by_name(name: &str) -> Option<CurlOption> {
    let find = |name: &str| OPTIONS.iter().find(|(known, ..)| *known == name);
    if let Some((_, _, option)) = find(name) {
        return Some(*option);
    }
    let (_, _, option) = find(name.strip_prefix("no-")?)?;
    let is_default = *option == Ignored || !option.takes_value();
    is_default.then_some(Ignored)
}

/// Finds the option with this letter.
pub(super) fn by_letter(letter: char) -> Option<CurlOption> {
    let mut options = OPTIONS.iter();
    let (.., option) = options.find(|(_, known, _)| *known == Some(letter))?;
    Some(*option)
}

/// Finds an option whose name resembles `name`, for a hint.
pub(super) fn similar(name: &str) -> Option<&'static str> {
    let names = OPTIONS.iter().map(|(known, ..)| *known);
    let mut similar = names.filter(|known| !name.is_empty() && known.starts_with(name));
    similar.next()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_letters_are_unique() {
        let names: BTreeSet<&str> = OPTIONS.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names.len(), OPTIONS.len());
        let letters: Vec<char> = OPTIONS
            .iter()
            .filter_map(|(_, letter, _)| *letter)
            .collect();
        let unique: BTreeSet<&char> = letters.iter().collect();
        assert_eq!(unique.len(), letters.len());
    }

    #[test]
    fn switches_can_be_turned_off() {
        assert_eq!(by_name("no-progress-meter"), Some(Ignored));
        assert_eq!(by_name("no-data"), None);
        assert_eq!(by_name("nothing"), None);
    }
}
