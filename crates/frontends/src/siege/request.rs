//! Builds requests with the same headers as siege, in the same order.

use http_auth::basic::encode_credentials;
use prony_load::SettingsError;

use super::listed::ListedRequest;
use super::settings::SiegeSettings;

/// Parts that are the same in all requests of a run. They are computed once.
#[derive(Debug, Clone)]
pub(super) struct RequestForm {
    version: &'static str,
    /// Headers from Accept to Connection, including those from `-H`.
    middle: String,
    /// Content-Type of request bodies.
    content_type: Option<String>,
    names_host: bool,
    /// Credentials for the proxy. The outer `Option` is set if there is a proxy for cleartext
    /// requests, and the inner one if the proxy needs credentials.
    proxy: Option<Option<String>>,
}

impl RequestForm {
    /// Prepares the headers. Headers from `-H` replace siege's own headers of the same name, except
    /// for Cookie.
    ///
    /// # Errors
    ///
    /// A header can't be sent.
    pub(super) fn new(settings: &SiegeSettings) -> Result<RequestForm, SettingsError> {
        for (name, value) in &settings.headers {
            check_header(name, value)?;
        }
        check_header("User-Agent", &settings.user_agent)?;
        check_header("Accept-Encoding", &settings.encoding)?;
        check_header("Content-Type", &settings.content_type)?;
        let text = |name: &str| {
            settings
                .headers
                .iter()
                .any(|(text, _)| text.eq_ignore_ascii_case(name))
        };
        let mut middle = String::new();
        let mut add = |name: &str, value: &str| {
            for part in [name, ": ", value, "\r\n"] {
                middle.push_str(part);
            }
        };
        let encoding = settings.encoding.trim();
        for (name, value) in [
            ("Accept", "*/*"),
            ("Accept-Encoding", encoding),
            ("User-Agent", &settings.user_agent),
        ] {
            if !text(name) && !value.is_empty() {
                add(name, value);
            }
        }
        for (name, value) in &settings.headers {
            add(name, value);
        }
        if !text("Connection") {
            add(
                "Connection",
                if settings.keep_alive {
                    "keep-alive"
                } else {
                    "close"
                },
            );
        }
        let is_shown = settings.get || settings.print;
        Ok(RequestForm {
            version: if settings.http11 && !is_shown {
                "HTTP/1.1"
            } else {
                "HTTP/1.0"
            },
            middle,
            content_type: (!text("Content-Type")).then(|| settings.content_type.clone()),
            names_host: !text("Host"),
            proxy: settings.proxy_host.as_ref().map(|_| {
                let login = settings.proxy_login();
                login.map(|login| encode_credentials(&login.name, &login.password))
            }),
        })
    }

    /// Returns the bytes of one request.
    pub(super) fn write(
        &self,
        wanted: &ListedRequest,
        authorization: Option<&str>,
        cookie: Option<&str>,
    ) -> Vec<u8> {
        let url = &wanted.url;
        let mut out = Vec::with_capacity(256 + self.middle.len() + wanted.body.len());
        // https requests pass through a tunnel, in which headers for the proxy would reach the
        // server.
        let proxy = self.proxy.as_ref().filter(|_| !url.is_tls());
        let target = match proxy {
            Some(_) => url.text(),
            None => url.path().to_owned(),
        };
        let mut put = |parts: &[&str]| {
            for part in parts {
                out.extend_from_slice(part.as_bytes());
            }
        };
        put(&[
            wanted.method.name(),
            " ",
            &target,
            " ",
            self.version,
            "\r\n",
        ]);
        if self.names_host {
            put(&["Host: ", &url.host_header(), "\r\n"]);
        }
        let proxy_login = proxy.and_then(|login| login.as_deref());
        for (name, value) in [
            ("Authorization", authorization),
            ("Proxy-Authorization", proxy_login),
            ("Cookie", cookie),
        ] {
            if let Some(value) = value {
                put(&[name, ": ", value, "\r\n"]);
            }
        }
        put(&[&self.middle]);
        if wanted.method.has_body() {
            if let Some(kind) = &self.content_type {
                put(&["Content-Type: ", kind, "\r\n"]);
            }
            put(&["Content-Length: ", &wanted.body.len().to_string(), "\r\n"]);
        }
        put(&["\r\n"]);
        out.extend_from_slice(&wanted.body);
        out
    }
}

fn check_header(name: &str, value: &str) -> Result<(), SettingsError> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("\"{name}\" is not a valid header name").into());
    }
    if value
        .bytes()
        .any(|byte| byte.is_ascii_control() && byte != b'\t')
    {
        return Err(format!(
            "the header {name} contains a line break or another control character"
        )
        .into());
    }
    if ["content-length", "transfer-encoding"].contains(&name.to_ascii_lowercase().as_str()) {
        let error = SettingsError::from("this header is computed from the body");
        return Err(error.at(format!("-H {name}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::settings::SiegeLogin;
    use super::*;

    fn settings() -> SiegeSettings {
        SiegeSettings {
            user_agent: "me".to_owned(),
            ..SiegeSettings::template()
        }
    }

    fn written(settings: &SiegeSettings, line: &str) -> String {
        let wanted = ListedRequest::parse(line, true).unwrap();
        let bytes = RequestForm::new(settings)
            .unwrap()
            .write(&wanted, None, None);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_get_and_a_post() {
        assert_eq!(
            written(&settings(), "a.test:81/x?y"),
            "GET /x?y HTTP/1.1\r\nHost: a.test:81\r\nAccept: */*\r\n\
             Accept-Encoding: gzip, deflate\r\nUser-Agent: me\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(
            written(&settings(), "a.test POST a=b c"),
            "POST / HTTP/1.1\r\nHost: a.test\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n\
             User-Agent: me\r\nConnection: close\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: 5\r\n\r\na=b c"
        );
        assert!(written(&settings(), "a.test DELETE").contains("\r\nContent-Length: 0\r\n"));
    }

    #[test]
    fn login_and_cookies_follow_the_host() {
        let wanted = ListedRequest::parse("a.test", true).unwrap();
        let bytes =
            RequestForm::new(&settings())
                .unwrap()
                .write(&wanted, Some("Basic x"), Some("a=1"));
        let text = String::from_utf8(bytes).unwrap();
        let begins =
            "GET / HTTP/1.1\r\nHost: a.test\r\nAuthorization: Basic x\r\nCookie: a=1\r\nAccept:";
        assert!(text.starts_with(begins), "{text}");
    }

    #[test]
    fn typed_headers_replace_siege_s_own() {
        let mut settings = settings();
        for header in [
            "Accept: x/y",
            "host: other",
            "X: 1",
            "Content-Type: a/b",
            "Cookie: c=d",
        ] {
            settings.add_header(header).unwrap();
        }
        settings.keep_alive = true;
        settings.encoding = String::new();
        assert_eq!(
            written(&settings, "a.test POST"),
            "POST / HTTP/1.1\r\nUser-Agent: me\r\nAccept: x/y\r\nhost: other\r\nX: 1\r\n\
             Content-Type: a/b\r\nCookie: c=d\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n"
        );
    }

    #[test]
    fn versions_and_proxies() {
        let mut settings = settings();
        settings.get = true;
        assert!(written(&settings, "a.test").starts_with("GET / HTTP/1.0\r\n"));
        settings.get = false;
        settings.proxy_host = Some("p.test".to_owned());
        assert!(written(&settings, "a.test/x").starts_with("GET http://a.test/x HTTP/1.1\r\n"));
        assert!(!written(&settings, "a.test/x").contains("Proxy-Authorization"));
        settings.proxy_logins = vec![SiegeLogin::parse("a:b")];
        let through = written(&settings, "a.test/x");
        assert!(
            through.contains("\r\nProxy-Authorization: Basic YTpi\r\n"),
            "{through}"
        );
        let tunnelled = written(&settings, "https://a.test/x");
        assert!(tunnelled.starts_with("GET /x HTTP/1.1\r\n"), "{tunnelled}");
        assert!(!tunnelled.contains("Proxy-Authorization"), "{tunnelled}");
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        for header in [
            "X: a\nb",
            "a b: c",
            ": x",
            "Content-Length: 3",
            "Transfer-Encoding: chunked",
        ] {
            let mut settings = settings();
            settings.headers.clear();
            settings.add_header(header).unwrap();
            assert!(RequestForm::new(&settings).is_err(), "{header:?}");
        }
    }
}
