//! The cookies of a virtual user (RFC 6265).

use std::time::{Duration, SystemTime};

/// Maximum number of cookies per domain (RFC 6265 §6.1). Beyond it, the oldest cookies are removed.
const COOKIES_PER_DOMAIN_MAX: usize = 50;
/// Maximum combined length of a cookie's name, value, domain and path (RFC 6265 §6.1). Longer
/// cookies are ignored.
const COOKIE_BYTES_MAX: usize = 4096;
/// Maximum total length of a user's cookies. Beyond it, the oldest cookies are removed.
const JAR_BYTES_MAX: usize = 64 << 10;

/// The cookies of one virtual user. Their number and size are limited.
#[derive(Debug, Clone, Default)]
pub struct CookieJar {
    /// The cookies, oldest first.
    cookies: Vec<Cookie>,
    /// Total length of the cookies in bytes.
    bytes: usize,
}

/// The parts of a request's URL that determine which cookies are sent.
#[derive(Debug, Clone, Copy)]
pub struct CookieUrl<'a> {
    /// Host without port.
    pub host: &'a str,
    /// Path, with or without a query.
    pub path: &'a str,
    /// True if the request is sent over TLS.
    pub is_tls: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Cookie {
    name: String,
    value: String,
    domain: String,
    /// True if only the host that set the cookie receives it.
    is_of_host: bool,
    path: String,
    is_secure: bool,
    /// Expiry time; `None` for a session cookie.
    expires: Option<SystemTime>,
}

impl CookieJar {
    /// Stores the cookie from a Set-Cookie header in a response from `url`. Cookies that this
    /// server is not allowed to set are ignored, as in browsers.
    pub fn set(&mut self, header: &str, url: CookieUrl<'_>, now: SystemTime) {
        let Some(cookie) = parse_cookie(header, url, now) else {
            return;
        };
        let is_same = |old: &Cookie| {
            (&old.name, &old.domain, &old.path) == (&cookie.name, &cookie.domain, &cookie.path)
        };
        let position = self.cookies.iter().position(is_same);
        let is_over = cookie.expires.is_some_and(|expires| expires <= now);
        match (position, is_over) {
            (Some(position), true) => self.remove(position),
            (Some(position), false) => {
                self.bytes = self.bytes - self.cookies[position].bytes() + cookie.bytes();
                self.cookies[position] = cookie;
            }
            (None, true) => {}
            (None, false) => self.add(cookie),
        }
        while self.bytes > JAR_BYTES_MAX {
            self.remove(0);
        }
    }

    fn add(&mut self, cookie: Cookie) {
        let has_same_domain = |old: &Cookie| old.domain == cookie.domain;
        let of_domain = self
            .cookies
            .iter()
            .filter(|old| has_same_domain(old))
            .count();
        let oldest = self.cookies.iter().position(has_same_domain);
        if let Some(oldest) = oldest.filter(|_| of_domain >= COOKIES_PER_DOMAIN_MAX) {
            self.remove(oldest);
        }
        self.bytes += cookie.bytes();
        self.cookies.push(cookie);
    }

    fn remove(&mut self, position: usize) {
        self.bytes -= self.cookies.remove(position).bytes();
    }

    /// Returns the value of the Cookie header for `url`; `None` if no cookie applies.
    pub fn header(&self, url: CookieUrl<'_>, now: SystemTime) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let host = url.host.to_ascii_lowercase();
        let mut sent: Vec<&Cookie> = self
            .cookies
            .iter()
            .filter(|cookie| cookie.is_for(&host, url))
            .filter(|cookie| cookie.expires.is_none_or(|end| end > now))
            .collect();
        // Cookies with longer paths come first; cookies with paths of the same length stay in order
        // of age (§5.4).
        sent.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let pairs: Vec<String> = sent
            .iter()
            .map(|cookie| format!("{}={}", cookie.name, cookie.value))
            .collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }

    /// Returns the value of the cookie with this name that would be sent to `url`.
    pub fn value(&self, name: &str, url: CookieUrl<'_>, now: SystemTime) -> Option<String> {
        let host = url.host.to_ascii_lowercase();
        let mut sent = self.cookies.iter().filter(|cookie| {
            let is_current = cookie.expires.is_none_or(|end| end > now);
            cookie.name == name && cookie.is_for(&host, url) && is_current
        });
        sent.next().map(|cookie| cookie.value.clone())
    }

    /// Returns true if there are no cookies.
    pub fn is_empty(&self) -> bool {
        self.cookies.is_empty()
    }

    /// Removes all cookies.
    pub fn clear(&mut self) {
        self.cookies.clear();
        self.bytes = 0;
    }
}

impl Cookie {
    fn bytes(&self) -> usize {
        self.name.len() + self.value.len() + self.domain.len() + self.path.len()
    }

    /// Returns true if the cookie is sent with a request for `url`. `host` is the URL's host in
    /// lower case. Secure cookies are sent over TLS, and to loopback hosts, as in browsers.
    fn is_for(&self, host: &str, url: CookieUrl<'_>) -> bool {
        let by_host = if self.is_of_host {
            host == self.domain
        } else {
            is_within(host, &self.domain)
        };
        by_host
            && is_below(url.path, &self.path)
            && (!self.is_secure || url.is_tls || is_loopback(host))
    }
}

/// Returns true if `host` equals `domain` or is a subdomain of it (§5.1.3).
fn is_within(host: &str, domain: &str) -> bool {
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    host == domain
        || !is_address
            && host
                .strip_suffix(domain)
                .is_some_and(|sub| sub.ends_with('.'))
}

/// Returns true for names and addresses that always mean this machine (W3C Secure Contexts §3.1).
fn is_loopback(host: &str) -> bool {
    match host.trim_matches(['[', ']']).parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => {
            let name = host.strip_suffix('.').unwrap_or(host);
            name == "localhost" || name.ends_with(".localhost")
        }
    }
}

/// Returns true if a request's path matches a cookie's path (§5.1.4).
fn is_below(requested: &str, path: &str) -> bool {
    let requested = requested.split('?').next().unwrap_or_default();
    match requested.strip_prefix(path) {
        Some(rest) => rest.is_empty() || path.ends_with('/') || rest.starts_with('/'),
        None => false,
    }
}

/// Returns the folder of a request's path, which is the default path of the cookies that its
/// response sets.
fn default_path(requested: &str) -> &str {
    let path = requested.split('?').next().unwrap_or_default();
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(slash) => &path[..slash],
    }
}

fn parse_cookie(header: &str, url: CookieUrl<'_>, now: SystemTime) -> Option<Cookie> {
    let mut parts = header.split(';');
    let (name, value) = parts.next()?.split_once('=')?;
    let is_plain = |text: &str| !text.bytes().any(|byte| byte.is_ascii_control());
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() || !is_plain(name) || !is_plain(value) {
        return None;
    }
    let host = url.host.to_ascii_lowercase();
    let mut cookie = Cookie {
        name: name.to_owned(),
        value: value.to_owned(),
        domain: host.clone(),
        is_of_host: true,
        path: default_path(url.path).to_owned(),
        is_secure: false,
        expires: None,
    };
    let mut max_age = None;
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let value = value.trim();
        match key.trim().to_ascii_lowercase().as_str() {
            "domain" => {
                let domain = value.trim_start_matches('.').to_ascii_lowercase();
                if domain.is_empty() {
                    continue;
                }
                if !is_within(&host, &domain) || is_top(&domain, &host) {
                    return None;
                }
                cookie.domain = domain;
                cookie.is_of_host = false;
            }
            "path" if value.starts_with('/') => cookie.path = value.to_owned(),
            "secure" => cookie.is_secure = true,
            "max-age" => max_age = lifetime(value, now).or(max_age),
            "expires" => cookie.expires = date(value).or(cookie.expires),
            _ => {}
        }
    }
    cookie.expires = max_age.or(cookie.expires);
    (cookie.bytes() <= COOKIE_BYTES_MAX).then_some(cookie)
}

/// Returns true for a top-level domain, for which no host may set a cookie.
fn is_top(domain: &str, host: &str) -> bool {
    !domain.contains('.') && domain != host
}

/// Longest lifetime that a Max-Age attribute sets, in seconds. No load lasts that long.
const LIFETIME_MAX_S: u64 = 1 << 32;

/// Returns the expiry time that a Max-Age attribute sets, counted from `now`. A number may have any
/// number of digits (RFC 6265 §5.2.2).
fn lifetime(seconds: &str, now: SystemTime) -> Option<SystemTime> {
    let digits = seconds.strip_prefix('-').unwrap_or(seconds);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if digits.len() < seconds.len() {
        return Some(SystemTime::UNIX_EPOCH);
    }
    // Only a number that is too large can't be parsed.
    let seconds = digits.parse().unwrap_or(LIFETIME_MAX_S).min(LIFETIME_MAX_S);
    now.checked_add(Duration::from_secs(seconds))
}

/// Parses an Expires date in one of HTTP's formats or in Netscape's: `Wed, 21-Oct-2026 07:28:00
/// GMT`.
fn date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text)
        .or_else(|_| httpdate::parse_http_date(&text.replace('-', " ")))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> CookieUrl<'_> {
        let (scheme, rest) = text.split_once("://").unwrap();
        let (authority, path) = rest.split_at(rest.find('/').unwrap());
        CookieUrl {
            host: authority.split(':').next().unwrap(),
            path,
            is_tls: scheme == "https",
        }
    }

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    /// Returns the Cookie header that is sent to `to` after `from` set the cookies in `set`.
    fn sent(from: &str, set: &[&str], to: &str) -> String {
        let mut jar = CookieJar::default();
        for header in set {
            jar.set(header, url(from), now());
        }
        jar.header(url(to), now()).unwrap_or_default()
    }

    #[test]
    fn hosts_and_domains() {
        let own = ["a=1"];
        assert_eq!(sent("http://x.test/", &own, "http://x.test:81/"), "a=1");
        assert_eq!(sent("http://x.test/", &own, "http://y.x.test/"), "");
        let wide = ["a=1; Domain=.x.test"];
        assert_eq!(sent("http://y.x.test/", &wide, "http://X.test/"), "a=1");
        assert_eq!(sent("http://y.x.test/", &wide, "http://z.x.test/"), "a=1");
        assert_eq!(sent("http://y.x.test/", &wide, "http://ax.test/"), "");
        assert_eq!(
            sent("http://x.test/", &["a=1; Domain=b.test"], "http://b.test/"),
            ""
        );
        assert_eq!(
            sent("http://x.test/", &["a=1; Domain=test"], "http://y.test/"),
            ""
        );
        assert_eq!(
            sent(
                "http://127.0.0.1/",
                &["a=1; Domain=0.0.1"],
                "http://127.0.0.1/"
            ),
            ""
        );
        assert_eq!(
            sent(
                "http://localhost/",
                &["a=1; Domain=localhost"],
                "http://localhost/"
            ),
            "a=1"
        );
    }

    #[test]
    fn paths() {
        let from = "http://x.test/dir/page?q=/a/b";
        assert_eq!(sent(from, &["a=1"], "http://x.test/dir/other"), "a=1");
        assert_eq!(sent(from, &["a=1"], "http://x.test/directory"), "");
        assert_eq!(sent(from, &["a=1; Path=/"], "http://x.test/"), "a=1");
        assert_eq!(
            sent(from, &["a=1; path=/sub"], "http://x.test/sub?x"),
            "a=1"
        );
        assert_eq!(sent(from, &["a=1; Path=/sub/"], "http://x.test/sub"), "");
        let both = ["a=1; Path=/", "b=2; Path=/sub"];
        assert_eq!(sent(from, &both, "http://x.test/sub/x"), "b=2; a=1");
    }

    #[test]
    fn secure_cookies_are_sent_over_tls_or_to_this_machine() {
        let set = ["a=1; Secure; HttpOnly"];
        assert_eq!(sent("https://x.test/", &set, "https://x.test/"), "a=1");
        assert_eq!(sent("https://x.test/", &set, "http://x.test/"), "");
        for host in [
            "localhost",
            "LOCALHOST",
            "app.localhost",
            "localhost.",
            "127.0.0.2",
        ] {
            let url = format!("http://{host}/");
            assert_eq!(sent(&url, &set, &url), "a=1", "{host}");
        }
        for host in ["localhost.test", "notlocalhost", "10.0.0.1"] {
            let url = format!("http://{host}/");
            assert_eq!(sent(&url, &set, &url), "", "{host}");
        }
        let mut jar = CookieJar::default();
        let ipv6 = CookieUrl {
            host: "::1",
            path: "/",
            is_tls: false,
        };
        jar.set(set[0], ipv6, now());
        assert_eq!(jar.header(ipv6, now()).as_deref(), Some("a=1"));
    }

    #[test]
    fn lifetimes() {
        for (attributes, lives) in [
            ("Max-Age=10", true),
            ("Max-Age=0", false),
            ("Max-Age=-5", false),
            ("Max-Age=x", true),
            ("Max-Age=-99999999999999999999", false),
            ("Max-Age=99999999999999999999", true),
            ("Max-Age=18446744073709551615", true),
            ("Max-Age=-", true),
            (
                "Expires=Wed, 21 Oct 2015 07:28:00 GMT; Max-Age=99999999999999999999",
                true,
            ),
            ("Expires=Wed, 21 Oct 2015 07:28:00 GMT", false),
            ("Expires=Wed, 21-Oct-2015 07:28:00 GMT", false),
            ("Expires=Sat, 21 Oct 2090 07:28:00 GMT", true),
            ("Expires=Sat, 21-Oct-2090 07:28:00 GMT", true),
            ("Max-Age=10; Expires=Wed, 21 Oct 2015 07:28:00 GMT", true),
            ("Expires=Sat, 21 Oct 2090 07:28:00 GMT; Max-Age=0", false),
            ("Expires=soon", true),
        ] {
            let set = format!("a=1; {attributes}");
            let expected = if lives { "a=1" } else { "" };
            assert_eq!(
                sent("http://x.test/", &[&set], "http://x.test/"),
                expected,
                "{set}"
            );
        }
        let mut jar = CookieJar::default();
        jar.set("a=1; Max-Age=10", url("http://x.test/"), now());
        let later = now() + Duration::from_secs(10);
        assert_eq!(jar.header(url("http://x.test/"), later), None);
    }

    #[test]
    fn the_same_cookie_is_replaced_or_removed() {
        let from = "http://x.test/";
        assert_eq!(sent(from, &["a=1", "b=2", "a=3"], from), "a=3; b=2");
        assert_eq!(sent(from, &["a=1", "b=2", "a=; Max-Age=0"], from), "b=2");
        assert_eq!(sent(from, &["novalue", "=x", "a=b=c"], from), "a=b=c");
        let mut jar = CookieJar::default();
        jar.set("a=1", url(from), now());
        assert!(!jar.is_empty());
        jar.clear();
        assert!(jar.is_empty());
    }

    #[test]
    fn the_oldest_make_room_in_their_domain() {
        let set: Vec<String> = (0..60).map(|n| format!("c{n}={n}")).collect();
        let mut set: Vec<&str> = set.iter().map(String::as_str).collect();
        set.insert(0, "other=1; Domain=x.test");
        let sent = sent("http://a.x.test/", &set, "http://a.x.test/");
        let sent: Vec<&str> = sent.split("; ").collect();
        assert_eq!(sent.len(), 1 + COOKIES_PER_DOMAIN_MAX);
        assert_eq!((sent[0], sent[1]), ("other=1", "c10=10"));
    }

    #[test]
    fn the_size_of_a_jar_is_limited() {
        let mut jar = CookieJar::default();
        let value = "v".repeat(4000);
        for number in 0..100 {
            let set = format!("c{number}={value}; Path=/{number}");
            jar.set(&set, url("http://x.test/"), now());
            jar.set(&set, url("http://x.test/"), now());
            assert!(jar.bytes <= JAR_BYTES_MAX);
        }
        assert!(jar.header(url("http://x.test/99"), now()).is_some());
        assert_eq!(jar.header(url("http://x.test/1"), now()), None);
        let kept: usize = jar.cookies.iter().map(Cookie::bytes).sum();
        assert_eq!(jar.bytes, kept);
        let long = format!("long={}; Path=/", "v".repeat(COOKIE_BYTES_MAX));
        jar.set(&long, url("http://x.test/"), now());
        assert_eq!(jar.header(url("http://x.test/"), now()), None);
    }
}
