//! An HTTP proxy between the load and its targets: `--proxy`.
//!
//! Cleartext requests are sent to the proxy with the target's URL in the request line
//! (absolute-form, RFC 9112 §3.2.2). Requests to all cleartext targets share the connections to the
//! proxy. For each connection to a target over TLS, the load asks the proxy to open a tunnel
//! (CONNECT, RFC 9110 §9.3.6).

use std::net::IpAddr;

use prony_protocol::h1::{self, Version};

use crate::settings::LoadSettings;
use crate::socket::Peer;
use crate::target::resolve::Resolver;
use crate::values::error::{SettingsError, SpecError};
use crate::values::url::Url;

/// Header that carries the client's credentials for the proxy.
const AUTHORIZATION: &str = "Proxy-Authorization";

/// The proxy of a load, with its resolved address.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedProxy {
    peer: Peer,
    /// Value of `Proxy-Authorization`.
    authorization: Option<String>,
    public: bool,
}

impl ResolvedProxy {
    /// Creates the proxy of a load. Returns `None` if the load has none.
    ///
    /// # Errors
    ///
    /// The proxy's name has no address, or its address needs `--public`.
    pub(crate) fn new(
        settings: &LoadSettings,
        resolver: &Resolver,
    ) -> Result<Option<ResolvedProxy>, SpecError> {
        let Some(proxy) = &settings.proxy else {
            return Ok(None);
        };
        let own = settings
            .header
            .iter()
            .filter_map(|line| line.split_once(':'));
        let mut own = own.filter(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION));
        Ok(Some(ResolvedProxy {
            peer: resolver.peer(&proxy.url())?,
            authorization: proxy
                .authorization()
                .or_else(|| own.next().map(|(_, value)| value.trim().to_owned())),
            public: settings.public,
        }))
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Checks that a target may be loaded through the proxy. The proxy looks up names itself, so a
    /// name that this machine can't resolve may belong to anyone.
    ///
    /// # Errors
    ///
    /// An error that names the rejected target, and the setting that allows it.
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
                    "{} can't be resolved on this machine, so prony can't check which server \
                        would receive the load",
                    url.host
                ));
                let error = error.hint("if you may put load on it, set ").name("public");
                Err(error.hint("give its address with ").name("resolve").into())
            }
        }
    }

    /// Returns the headers to send with a request. Headers for the proxy are included only if the
    /// proxy can read the request.
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

    /// Returns the CONNECT request that asks the proxy for a tunnel to a URL's host.
    ///
    /// # Errors
    ///
    /// The request can't be encoded.
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
