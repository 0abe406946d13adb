//! An HTTP proxy between the load and its targets: `--proxy`.
//!
//! Cleartext requests are sent to the proxy with the target's URL in the request line
//! (absolute-form, RFC 9112 §3.2.2), all over the same connections. For each target over TLS, the
//! proxy is asked for a tunnel (CONNECT, RFC 9110 §9.3.6).

use std::net::IpAddr;
use std::str::FromStr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use prony_protocol::h1::{self, Version};

use crate::credentials::decoded;
use crate::settings::{LoadSettings, SettingsError};
use crate::socket::Peer;
use crate::spec::SpecError;
use crate::target::{Resolver, Url};

/// Header that carries the client's credentials for the proxy.
const AUTHORIZATION: &str = "Proxy-Authorization";

/// A proxy as typed: `HOST`, `HOST:PORT` or `http://USER:PASSWORD@HOST:PORT`. The default port is
/// 80.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpProxy {
    host: String,
    port: u16,
    /// `USER:PASSWORD`.
    credentials: Option<String>,
}

impl FromStr for HttpProxy {
    type Err = String;

    fn from_str(typed: &str) -> Result<HttpProxy, String> {
        let rest = match typed.split_once("://") {
            None => typed,
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some((scheme, _)) => {
                return Err(format!(
                    "{scheme}: only HTTP proxies are spoken to, and in clear; write HOST:PORT"
                ));
            }
        };
        let (credentials, authority) = match rest.rsplit_once('@') {
            Some((credentials, authority)) => (Some(decoded(credentials)?), authority),
            None => (None, rest),
        };
        // The error message omits text that may be a password.
        let authority = authority.trim_end_matches('/');
        let url = match authority.contains(['/', '?', '#']) {
            false => Url::parse(&format!("http://{authority}"), None)?,
            true => return Err("a proxy has no path; write HOST:PORT".to_owned()),
        };
        Ok(HttpProxy {
            host: url.host,
            port: url.port,
            credentials,
        })
    }
}

impl HttpProxy {
    /// Name of the proxy in results: without its credentials.
    pub(crate) fn name(&self) -> String {
        let url = self.url();
        format!("{}:{}", url.bracketed_host(), url.port)
    }

    /// URL of the proxy with its credentials.
    pub(crate) fn url_with_credentials(&self) -> String {
        match &self.credentials {
            Some(credentials) => format!("http://{}@{}", encoded(credentials), self.name()),
            None => self.name(),
        }
    }

    fn url(&self) -> Url {
        Url {
            tls: false,
            host: self.host.clone(),
            port: self.port,
            path: "/".to_owned(),
        }
    }
}

/// Percent-encodes `USER:PASSWORD`, the inverse of [`decoded`].
fn encoded(credentials: &str) -> String {
    let mut text = String::new();
    for byte in credentials.bytes() {
        match byte {
            b':' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            byte => text += &format!("%{byte:02X}"),
        }
    }
    text
}

/// The proxy of a load, with its address.
#[derive(Debug, Clone)]
pub(crate) struct Forward {
    peer: Peer,
    /// Value of `Proxy-Authorization`.
    authorization: Option<String>,
    public: bool,
}

impl Forward {
    /// Creates the load's proxy, if it has one.
    ///
    /// # Errors
    ///
    /// Fails if the proxy has no address, or one that `--public` doesn't allow.
    pub(crate) fn new(
        settings: &LoadSettings,
        resolver: &Resolver,
    ) -> Result<Option<Forward>, SpecError> {
        let Some(proxy) = &settings.proxy else {
            return Ok(None);
        };
        let own = settings
            .header
            .iter()
            .filter_map(|line| line.split_once(':'));
        let mut own = own.filter(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION));
        let credentials = settings.proxy_auth.as_ref().or(proxy.credentials.as_ref());
        let basic = credentials.map(|it| format!("Basic {}", BASE64_STANDARD.encode(it)));
        Ok(Some(Forward {
            peer: resolver.peer(&proxy.url())?,
            authorization: basic.or_else(|| own.next().map(|(_, value)| value.trim().to_owned())),
            public: settings.public,
        }))
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Checks that a target may be loaded through the proxy. The proxy looks names up, so a name
    /// that is unknown here may belong to anyone.
    ///
    /// # Errors
    ///
    /// Names the target that is not allowed, and the setting that allows it.
    pub(crate) fn judge(&self, url: &Url, resolver: &Resolver) -> Result<(), SpecError> {
        if self.public && resolver.permits.is_none() {
            return Ok(());
        }
        match (resolver.addresses(url), resolver.permits) {
            (Ok(addresses), _) => {
                let addresses: Vec<IpAddr> = addresses.iter().map(|it| it.ip()).collect();
                resolver.allow(url, &addresses)
            }
            (Err(_), Some(permits)) => Ok(permits.ask(&url.host, None)?),
            (Err(_), None) => {
                let error = SettingsError::from(format!(
                    "{} has no address here, so only the proxy knows whose server it is; if you may \
                     load it, set ",
                    url.host
                ));
                let error = error.name("public").text(", or give its address with ");
                Err(error.name("resolve").into())
            }
        }
    }

    /// Headers of a request. Those for the proxy are included only if the proxy sees them.
    pub(crate) fn headers(&self, url: &Url, headers: &[(String, String)]) -> Vec<(String, String)> {
        let is_for_proxy = |name: &str| name.eq_ignore_ascii_case(AUTHORIZATION);
        let others = headers.iter().filter(|(name, _)| !is_for_proxy(name));
        let mut others: Vec<_> = others.cloned().collect();
        let own = headers.iter().find(|(name, _)| is_for_proxy(name));
        if !url.tls {
            let value = own.map(|(_, value)| value).or(self.authorization.as_ref());
            others.extend(value.map(|value| (AUTHORIZATION.to_owned(), value.clone())));
        }
        others
    }

    /// CONNECT request that asks the proxy for a tunnel to a URL's host.
    ///
    /// # Errors
    ///
    /// Fails if the request can't be written.
    pub(crate) fn tunnel(&self, url: &Url) -> Result<Vec<u8>, SpecError> {
        let authority = format!("{}:{}", url.bracketed_host(), url.port);
        let mut headers = Vec::new();
        headers.extend(
            self.authorization
                .as_ref()
                .map(|value| (AUTHORIZATION.to_owned(), value.clone())),
        );
        let request = h1::RequestSpec {
            method: "CONNECT",
            target: &authority,
            version: Version::Http11,
            host: &authority,
            headers: &headers,
            body: &[],
            keep_alive: true,
        };
        h1::encode_request(&request)
            .map_err(|error| SettingsError::of("proxy").text(format!(": {error}")).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(typed: &str) -> Result<(String, u16, Option<String>), String> {
        let proxy: HttpProxy = typed.parse()?;
        Ok((proxy.host, proxy.port, proxy.credentials))
    }

    #[test]
    fn proxies_are_typed_in_several_ways() {
        for (typed, host, port, credentials) in [
            ("h:3128", "h", 3128, None),
            ("h", "h", 80, None),
            ("http://h:1/", "h", 1, None),
            ("HTTP://[::1]:8", "::1", 8, None),
            ("u:p@h:1", "h", 1, Some("u:p")),
            ("http://u%40x:p%3a%zz@h", "h", 80, Some("u@x:p:%zz")),
            ("http://u:p@w@h", "h", 80, Some("u:p@w")),
        ] {
            let expected = (host.to_owned(), port, credentials.map(str::to_owned));
            assert_eq!(parsed(typed), Ok(expected.clone()), "{typed}");
            let written = typed.parse::<HttpProxy>().unwrap().url_with_credentials();
            assert_eq!(parsed(&written), Ok(expected), "{written}");
        }
        for (typed, why) in [
            ("https://h:1", "in clear"),
            ("socks5://h:1", "socks5: only HTTP"),
            ("h:0", "port 0"),
            ("h:x", "port"),
            ("", "URL"),
            ("h/path", "no path"),
            ("%ff@h", "UTF-8"),
        ] {
            let error = parsed(typed).unwrap_err();
            assert!(error.contains(why), "{typed}: {error}");
        }
        let error = parsed("user:secret@h:0").unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }
}
