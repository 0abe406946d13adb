//! Parsers for notations that exist only in plans, such as `SIGQUIT`, `host:port` and names.
//! [`prony_record::quantity`] parses the notations that the command line also uses (`30s`, `4K`,
//! `2%`, `0-3,6`).

/// Number of the signal that stops a service by default (SIGTERM).
pub(crate) const SIGTERM: i32 = 15;

/// Reads a signal of Linux: `SIGQUIT`, `QUIT` or a number from 1 to 64.
pub(crate) fn signal(text: &str) -> Option<i32> {
    let text = text.trim();
    if let Some(number) = digits(text) {
        return i32::try_from(number)
            .ok()
            .filter(|number| (1..=64).contains(number));
    }
    let upper = text.to_ascii_uppercase();
    Some(match upper.strip_prefix("SIG").unwrap_or(&upper) {
        "HUP" => 1,
        "INT" => 2,
        "QUIT" => 3,
        "ABRT" => 6,
        "KILL" => 9,
        "USR1" => 10,
        "USR2" => 12,
        "ALRM" => 14,
        "TERM" => SIGTERM,
        "WINCH" => 28,
        _ => return None,
    })
}

/// Splits `host:port` or `[v6]:port`.
pub(crate) fn host_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = u16::try_from(digits(port)?).ok().filter(|port| *port > 0)?;
    let bare = match host.strip_prefix('[') {
        Some(v6) => v6.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    let clean = !bare.is_empty()
        && bare
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '_'));
    clean.then(|| (bare.to_owned(), port))
}

/// Parses a number that consists only of digits, without sign, space or exponent.
fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// Returns true if a template can use a name: a letter or `_`, then letters, digits and `_`.
pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_and_addresses() {
        assert_eq!(signal("SIGQUIT"), Some(3));
        assert_eq!(signal("quit"), Some(3));
        assert_eq!(signal("9"), Some(9));
        assert_eq!(signal("0"), None);
        assert_eq!(signal("SIGWHAT"), None);
        assert_eq!(host_port("[::1]:80"), Some(("::1".to_owned(), 80)));
        assert_eq!(
            host_port("a.example:8080"),
            Some(("a.example".to_owned(), 8080))
        );
        for bad in [
            "::1:80",
            "host",
            "host:0",
            "host:99999",
            ":80",
            "http://h:1",
            "[::1:80",
        ] {
            assert_eq!(host_port(bad), None, "{bad}");
        }
    }
}
