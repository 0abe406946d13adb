//! The HTTP proxy of a load, as the user entered it (`--proxy`).

use std::str::FromStr;

use crate::values::credentials::Credentials;
use crate::values::error::SettingsError;
use crate::values::url::Url;

/// A proxy as the user entered it: `HOST`, `HOST:PORT` or `http://USER:PASSWORD@HOST:PORT`. The
/// default port is 80.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpProxy {
    host: String,
    port: u16,
    credentials: Option<Credentials>,
}

impl FromStr for HttpProxy {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<HttpProxy, SettingsError> {
        let rest = match text.split_once("://") {
            None => text,
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some((scheme, _)) => {
                let cause = format!("the scheme {scheme} is not supported for proxies");
                let error = SettingsError::from(cause);
                return Err(error.hint("write HOST:PORT for a cleartext HTTP proxy"));
            }
        };
        let (credentials, authority) = match rest.rsplit_once('@') {
            Some((credentials, authority)) => {
                (Some(Credentials::from_userinfo(credentials)?), authority)
            }
            None => (None, rest),
        };
        // The error message omits text that may be a password.
        let authority = authority.trim_end_matches('/');
        let url = if authority.contains(['/', '?', '#']) {
            return Err(SettingsError::from("a proxy has no path").hint("write HOST:PORT"));
        } else {
            Url::parse(&format!("http://{authority}"), None)?
        };
        Ok(HttpProxy {
            host: url.host,
            port: url.port,
            credentials,
        })
    }
}

impl HttpProxy {
    /// Name of the proxy in results, without its credentials.
    pub(crate) fn name(&self) -> String {
        let url = self.url();
        format!("{}:{}", url.bracketed_host(), url.port)
    }

    pub(crate) fn url_with_credentials(&self) -> String {
        match &self.credentials {
            Some(credentials) => format!("http://{}@{}", credentials.to_userinfo(), self.name()),
            None => self.name(),
        }
    }

    /// Replaces the credentials with `login` (`USER:PASSWORD`), which is used unchanged.
    #[must_use]
    pub fn with_login(self, login: String) -> HttpProxy {
        HttpProxy {
            credentials: Some(Credentials::unchecked(login)),
            ..self
        }
    }

    /// Value of the `Proxy-Authorization` header, if there are credentials.
    pub(crate) fn authorization(&self) -> Option<String> {
        self.credentials.as_ref().map(Credentials::basic)
    }

    /// URL of the proxy without its credentials.
    pub(crate) fn url(&self) -> Url {
        Url {
            is_websocket: false,
            tls: false,
            host: self.host.clone(),
            port: self.port,
            path: "/".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<(String, u16, Option<String>), SettingsError> {
        let proxy: HttpProxy = text.parse()?;
        let credentials = proxy.credentials.map(|it| it.as_str().to_owned());
        Ok((proxy.host, proxy.port, credentials))
    }

    #[test]
    fn proxies_can_be_written_in_several_ways() {
        for (text, host, port, credentials) in [
            ("h:3128", "h", 3128, None),
            ("h", "h", 80, None),
            ("http://h:1/", "h", 1, None),
            ("HTTP://[::1]:8", "::1", 8, None),
            ("u:p@h:1", "h", 1, Some("u:p")),
            ("http://u%40x:p%3a%zz@h", "h", 80, Some("u@x:p:%zz")),
            ("http://u:p@w@h", "h", 80, Some("u:p@w")),
        ] {
            let expected = (host.to_owned(), port, credentials.map(str::to_owned));
            assert_eq!(parsed(text), Ok(expected.clone()), "{text}");
            let written = text.parse::<HttpProxy>().unwrap().url_with_credentials();
            assert_eq!(parsed(&written), Ok(expected), "{written}");
        }
        for (text, why) in [
            ("https://h:1", "cleartext"),
            ("socks5://h:1", "the scheme socks5 is not supported"),
            ("h:0", "port 0"),
            ("h:x", "port"),
            ("", "URL"),
            ("h/path", "no path"),
            ("%ff@h", "UTF-8"),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let error = parsed("user:secret@h:0").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
