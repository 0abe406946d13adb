//! Addresses of a URL's host, and the rules about which addresses a load may use.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use prony_record::finding::ResolveUnused;
use prony_record::{Finding, Severity};

use crate::quic;
use crate::settings::{HttpProxy, LoadSettings};
use crate::socket::Peer;
use crate::target::TargetIndices;
use crate::target::source::Sources;
use crate::values::error::{SettingsError, SpecError};
use crate::values::permits::Permits;
use crate::values::url::{self, Url};

/// An entry `HOST:PORT:ADDR[,ADDR]…` of `--resolve`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FixedAddress {
    host: String,
    port: u16,
    addresses: Vec<IpAddr>,
}

impl FixedAddress {
    /// Parses all values of `--resolve`.
    ///
    /// # Errors
    ///
    /// An error that names the first invalid value.
    pub(crate) fn all(text: &[String]) -> Result<Vec<FixedAddress>, SpecError> {
        let all = text.iter().map(|text| FixedAddress::parse(text));
        all.collect::<Result<Vec<_>, SettingsError>>()
            .map_err(SpecError::from)
    }

    /// Returns true if this entry sets the address of the URL's host.
    pub(crate) fn is_for(&self, url: &Url) -> bool {
        self.is_of(&url.host, url.port)
    }

    fn is_of(&self, host: &str, port: u16) -> bool {
        self.host.eq_ignore_ascii_case(host) && self.port == port
    }

    pub(crate) fn parse(text: &str) -> Result<FixedAddress, SettingsError> {
        let mut parts = text.splitn(3, ':');
        let (host, port, addresses) = (parts.next(), parts.next(), parts.next());
        let port = port.and_then(|port| port.parse().ok());
        let addresses = addresses.and_then(|addresses| {
            let each = addresses.split(',');
            let each = each.map(|address| address.trim_matches(['[', ']']).parse().ok());
            each.collect::<Option<Vec<IpAddr>>>()
        });
        match (host, port, addresses) {
            (Some(host), Some(port), Some(addresses)) if !host.is_empty() => Ok(FixedAddress {
                host: url::ascii_host(host).unwrap_or_else(|| host.to_owned()),
                port,
                addresses,
            }),
            _ => Err(SettingsError::value("resolve", format!("\"{text}\"")).text(
                ": write HOST:PORT:ADDR, such as example.test:80:127.0.0.1; separate several \
                       addresses with commas",
            )),
        }
    }
}

/// Finds entries of `--resolve` that no request to `targets` uses. A script or a redirect may use
/// any entry, so loads with these are not checked.
pub(crate) fn unused_entries(
    settings: &LoadSettings,
    targets: &TargetIndices,
) -> Result<Option<Finding>, SpecError> {
    if settings.script.is_some() || settings.follow.is_some() {
        return Ok(None);
    }
    let entries = FixedAddress::all(&settings.resolve)?;
    let proxy = settings.proxy.as_ref().map(HttpProxy::url);
    let proxy = proxy.iter().map(|url| (url.host.as_str(), url.port));
    let hosts = targets.keys().map(|(host, port, _)| (host.as_str(), *port));
    let hosts: Vec<_> = hosts.chain(proxy).collect();
    // The first entry for a host applies.
    let entry_of = |host, port| entries.iter().position(|entry| entry.is_of(host, port));
    let used: Vec<_> = hosts
        .iter()
        .filter_map(|&(host, port)| entry_of(host, port))
        .collect();
    let unused = settings.resolve.iter().enumerate();
    let unused = unused.filter(|(index, _)| !used.contains(index));
    let entries: Vec<String> = unused.map(|(_, text)| text.clone()).collect();
    let unused = (!entries.is_empty()).then_some(ResolveUnused { entries });
    Ok(unused.map(|unused| Finding::of(Severity::Note, &unused)))
}

/// Resolves host names before a load and while it runs.
pub(crate) struct Resolver<'a> {
    pub(crate) fixed: &'a [FixedAddress],
    /// Source addresses of connections. Target addresses of the same family are preferred.
    pub(crate) sources: &'a Sources,
    /// True if public addresses are allowed.
    pub(crate) public: bool,
    /// Decides which addresses are allowed, in place of `public`.
    pub(crate) permits: Option<&'a Permits>,
}

impl Resolver<'_> {
    /// Looks up every address of a URL's host.
    ///
    /// # Errors
    ///
    /// The host has no address.
    pub(crate) fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, SpecError> {
        match self.fixed(url) {
            Some(fixed) => {
                let addresses = fixed.addresses.iter();
                Ok(addresses.map(|it| SocketAddr::new(*it, url.port)).collect())
            }
            None => (url.host.as_str(), url.port)
                .to_socket_addrs()
                .map(Iterator::collect)
                .map_err(|error| SpecError::Name {
                    host: url.host.clone(),
                    error: error.to_string(),
                }),
        }
    }

    /// Returns the entry of `--resolve` for the URL, if there is one.
    fn fixed(&self, url: &Url) -> Option<&FixedAddress> {
        self.fixed.iter().find(|fixed| fixed.is_for(url))
    }

    /// Checks that a URL's host with these addresses may be loaded.
    ///
    /// # Errors
    ///
    /// An error that names an address that is not allowed.
    pub(crate) fn allow(&self, url: &Url, addresses: &[IpAddr]) -> Result<(), SpecError> {
        if let Some(permits) = self.permits {
            let is_fixed = self.fixed(url).is_some();
            let permitted = addresses.iter().try_for_each(|address| {
                if is_fixed {
                    // `--resolve` can assign an address to any name, so the address itself is checked.
                    permits.ask(&address.to_string(), Some(*address))
                } else {
                    permits.ask(&url.host, Some(*address))
                }
            });
            return Ok(permitted?);
        }
        if self.public {
            return Ok(());
        }
        let named = |address: &IpAddr| match address.to_string() {
            ip if ip == url.host => ip,
            ip => format!("{} ({ip})", url.host),
        };
        let mut refused = addresses
            .iter()
            .filter(|it| is_public(**it) || is_metadata(**it));
        let Some(address) = refused.next() else {
            return Ok(());
        };
        let reason = if is_metadata(*address) {
            "may belong to a cloud's metadata service, which hands out credentials"
        } else {
            "is outside the loopback and private ranges"
        };
        let error = SettingsError::from(format!(
            "{} {reason}; if you are allowed to load that server, set ",
            named(address)
        ));
        Err(error.name("public").into())
    }

    /// Returns the address to connect to for `url`: the first one that accepts a TCP connection, or
    /// the first one overall if none does.
    ///
    /// # Errors
    ///
    /// The host has no address, or no address that the load is allowed to use.
    pub(crate) fn peer(&self, url: &Url) -> Result<Peer, SpecError> {
        self.first(url, accepts).map(Peer::Tcp)
    }

    /// Returns the address to connect to over QUIC for `url`: the first one with a QUIC server, or
    /// the first one overall if there is none.
    ///
    /// # Errors
    ///
    /// Those of [`Resolver::peer`].
    pub(crate) fn quic_peer(&self, url: &Url) -> Result<Peer, SpecError> {
        self.first(url, quic::has_server).map(Peer::Quic)
    }

    /// Returns the first of the URL's addresses that is `reachable`, or the first address if none
    /// is. A single address isn't checked.
    fn first(
        &self,
        url: &Url,
        reachable: impl Fn(&SocketAddr) -> bool,
    ) -> Result<SocketAddr, SpecError> {
        let suited = self.suited(url)?;
        let found = match &suited[..] {
            [_, _, ..] => suited.iter().find(|address| reachable(address)),
            _ => None,
        };
        found
            .or(suited.first())
            .copied()
            .ok_or_else(|| SpecError::Name {
                host: url.host.clone(),
                error: "it has no address".to_owned(),
            })
    }

    /// Returns the addresses of the URL's host that the load may use. If any of them is of the same
    /// family as a source address, the others are left out.
    ///
    /// # Errors
    ///
    /// The host can't be looked up, or has an address that is not allowed.
    pub(crate) fn suited(&self, url: &Url) -> Result<Vec<SocketAddr>, SpecError> {
        let mut addresses = self.addresses(url)?;
        if let [address] = addresses[..]
            && let IpAddr::V6(v6) = address.ip()
            && v6.is_unicast_link_local()
        {
            let error = SettingsError::from(format!(
                "{v6} is link-local and needs a zone, which prony does not support; give the \
                 server another address, such as a unique local one (fd00::/8)"
            ));
            return Err(error.into());
        }
        let ips: Vec<IpAddr> = addresses.iter().map(|it| it.ip()).collect();
        self.allow(url, &ips)?;
        if addresses.iter().any(|a| self.sources.suit(a.ip())) {
            addresses.retain(|a| self.sources.suit(a.ip()));
        }
        Ok(addresses)
    }
}

fn accepts(address: &SocketAddr) -> bool {
    TcpStream::connect_timeout(address, Duration::from_millis(300)).is_ok()
}

/// Returns true if an address is outside the ranges that a load may target by default (RFC 1122,
/// 1918, 3927, 4193, 4291, 6598).
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let shared = v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64;
            !(v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || v4.is_unspecified()
                || shared)
        }
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_public(IpAddr::V4(v4)),
            None => {
                let local = v6.is_unique_local() || v6.is_unicast_link_local();
                !(v6.is_loopback() || v6.is_unspecified() || local)
            }
        },
    }
}

/// Returns true for addresses of cloud metadata services: all of 169.254.0.0/16 (AWS, Azure, Google
/// and others), 100.100.100.200 (Alibaba), fd00:ec2::/32 (AWS), fd20:ce::/64 (Google), fd00:c1::/32
/// (Oracle), and IPv6 addresses that embed one of the former.
pub fn is_metadata(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_link_local() || v4 == Ipv4Addr::new(100, 100, 100, 200),
        IpAddr::V6(v6) => {
            let segments = v6.segments();
            let [.., high, low] = segments;
            let embedded = Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
            // NAT64 (RFC 6052), IPv4-compatible addresses (RFC 4291), and link-local addresses of
            // metadata services.
            let embeds = v6.is_unicast_link_local()
                || matches!(
                    segments,
                    [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0, 0, ..]
                );
            matches!(
                segments,
                [0xfd00, 0x0ec2 | 0x00c1, ..] | [0xfd20, 0x00ce, 0, 0, ..]
            ) || (embeds && is_metadata(IpAddr::V4(embedded)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses_are_distinguished_from_private_ones() {
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.1.1",
            "169.254.1.1",
            "100.64.0.1",
            "::1",
            "fe80::1",
            "fd00::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in [
            "8.8.8.8",
            "172.32.0.1",
            "2001:db8::1",
            "::ffff:8.8.8.8",
            "100.128.0.1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn addresses_of_metadata_services_need_public() {
        let resolver = Resolver {
            fixed: &[],
            sources: &Sources::default(),
            public: false,
            permits: None,
        };
        let public = Resolver {
            public: true,
            ..resolver
        };
        let url = Url::parse("http://metadata.test/latest", None).unwrap();
        for ip in [
            "169.254.169.254",
            "169.254.0.1",
            "100.100.100.200",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "fe80::a9fe:a9fe",
            "fd00:ec2::254",
            "fd00:c1::a9fe:a9fe",
            "fd20:ce::254",
        ] {
            let address = [ip.parse().unwrap()];
            let refused = resolver.allow(&url, &address).unwrap_err().to_string();
            assert!(
                refused.contains("metadata") && refused.contains("--public"),
                "{refused}"
            );
            assert_eq!(public.allow(&url, &address), Ok(()), "{ip}");
            // A load may use any one of several addresses, so all are checked.
            let several = ["127.0.0.1".parse().unwrap(), address[0]];
            assert!(resolver.allow(&url, &several).is_err(), "{ip}");
        }
        for ip in [
            "127.0.0.1",
            "10.0.0.1",
            "fd00::1",
            "::1",
            "::",
            "100.64.0.1",
        ] {
            assert_eq!(resolver.allow(&url, &[ip.parse().unwrap()]), Ok(()), "{ip}");
        }
    }

    #[test]
    fn fixed_addresses_take_precedence_over_the_resolver() {
        let fixed = [FixedAddress::parse("example.test:80:127.0.0.9").unwrap()];
        let resolver = Resolver {
            fixed: &fixed,
            sources: &Sources::default(),
            public: false,
            permits: None,
        };
        let url = Url::parse("http://example.test/", None).unwrap();
        assert_eq!(
            resolver.peer(&url).unwrap(),
            Peer::Tcp("127.0.0.9:80".parse().unwrap())
        );
        let v6 = [FixedAddress::parse("example.test:80:::1").unwrap()];
        let resolver = Resolver {
            fixed: &v6,
            ..resolver
        };
        assert_eq!(
            resolver.peer(&url).unwrap(),
            Peer::Tcp("[::1]:80".parse().unwrap())
        );
        // The first address that accepts a connection is used, as for a name with several addresses.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let several = format!("example.test:{port}:127.0.0.9,[::1],127.0.0.1");
        let several = [FixedAddress::parse(&several).unwrap()];
        let resolver = Resolver {
            fixed: &several,
            ..resolver
        };
        let url = Url::parse(&format!("http://example.test:{port}/"), None).unwrap();
        assert_eq!(resolver.addresses(&url).unwrap().len(), 3);
        let expected = Peer::Tcp(listener.local_addr().unwrap());
        assert_eq!(resolver.peer(&url).unwrap(), expected);
        assert!(FixedAddress::parse("a:1:127.0.0.1,").is_err());
        let near = Url::parse("http://[fe80::1]/", None).unwrap();
        assert!(resolver.peer(&near).is_err());
        assert!(FixedAddress::parse("a:b:c").is_err());
        assert!(FixedAddress::parse("a:1:[::1]").is_ok());
    }
}
