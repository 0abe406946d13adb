//! Checks the endpoints that an agent claims to have allocated.
//!
//! This machine and other agents send load to the endpoint of a service. A stolen key must not make
//! it possible to direct that load to a machine other than the agent's own.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use prony_plan::service::{AllocatedService, Allocation, Endpoint, ListenKind};

/// Reason why the services that an agent allocated are rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WrongAllocation {
    /// This service was not requested.
    Unasked(String),
    /// This service is missing.
    Missing(String),
    /// The listeners of this service are not those requested.
    Listeners(String),
    /// An endpoint is on another machine.
    Elsewhere {
        service: String,
        /// Name of the listener; empty if the service has a single one.
        listener: String,
        endpoint: Endpoint,
        /// Addresses of the agent's machine.
        addresses: Vec<IpAddr>,
    },
}

impl fmt::Display for WrongAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WrongAllocation::Unasked(service) => {
                write!(
                    f,
                    "it allocated service {service:?}, which was not requested"
                )
            }
            WrongAllocation::Missing(service) => {
                write!(f, "it did not allocate service \"{service}\"")
            }
            WrongAllocation::Listeners(service) => write!(
                f,
                "service \"{service}\": its listeners differ from those requested"
            ),
            WrongAllocation::Elsewhere {
                service,
                listener,
                endpoint,
                addresses,
            } => {
                write!(f, "service \"{service}\"")?;
                if !listener.is_empty() {
                    write!(f, ", listener \"{listener}\"")?;
                }
                let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
                write!(
                    f,
                    ": endpoint {} is not on the agent's machine; the agent registered {}",
                    endpoint_text(endpoint),
                    addresses.join(", ")
                )
            }
        }
    }
}

/// Checks the endpoints of an agent's services against the addresses in its registration.
///
/// # Errors
///
/// A service or its endpoint is wrong.
pub(super) fn check_endpoints(
    wanted: &[Allocation],
    services: &BTreeMap<String, AllocatedService>,
    addresses: &[IpAddr],
    is_this_machine: bool,
) -> Result<(), WrongAllocation> {
    let asked: Vec<&str> = wanted.iter().map(|it| it.service.as_str()).collect();
    if let Some(name) = services.keys().find(|name| !asked.contains(&name.as_str())) {
        return Err(WrongAllocation::Unasked(name.clone()));
    }
    for wanted in wanted {
        let service = &wanted.service;
        let Some(allocated) = services.get(service) else {
            return Err(WrongAllocation::Missing(service.clone()));
        };
        if !allocated.endpoints.keys().eq(wanted.listen.keys()) {
            return Err(WrongAllocation::Listeners(service.clone()));
        }
        for ((name, kind), endpoint) in wanted.listen.iter().zip(allocated.endpoints.values()) {
            let is_right = match (kind, endpoint) {
                (ListenKind::Unix, Endpoint::Unix(path)) => path.is_absolute(),
                (ListenKind::Tcp, Endpoint::Tcp(address))
                | (ListenKind::Udp, Endpoint::Udp(address)) => {
                    let ip = address.ip().to_canonical();
                    let is_own = addresses.contains(&ip) || (ip.is_loopback() && is_this_machine);
                    // A service that is not exposed is reached only from its own machine, so it may
                    // use any of that machine's own addresses.
                    address.port() != 0 && (is_own || !wanted.exposed)
                }
                _ => false,
            };
            if !is_right {
                return Err(WrongAllocation::Elsewhere {
                    service: service.clone(),
                    listener: name.clone(),
                    endpoint: endpoint.clone(),
                    addresses: addresses.to_vec(),
                });
            }
        }
    }
    Ok(())
}

fn endpoint_text(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Tcp(address) => address.to_string(),
        Endpoint::Udp(address) => format!("UDP {address}"),
        Endpoint::Unix(path) => format!("{path:?}"),
    }
}

#[cfg(test)]
mod tests {
    use prony_plan::service::PlaceKind;

    use super::*;

    fn checked(
        endpoint: Endpoint,
        exposed: bool,
        is_this_machine: bool,
    ) -> Result<(), WrongAllocation> {
        let wanted = Allocation {
            jail: None,
            service: "web".to_owned(),
            host: None,
            exposed,
            place: PlaceKind::Native,
            listen: [(String::new(), ListenKind::Tcp)].into(),
        };
        let allocated = AllocatedService {
            endpoints: [(String::new(), endpoint)].into(),
            files_dir: "/tmp".into(),
        };
        let own = ["10.0.0.7".parse().unwrap(), "fd00::7".parse().unwrap()];
        let services = [("web".to_owned(), allocated)].into();
        check_endpoints(&[wanted], &services, &own, is_this_machine)
    }

    fn tcp(address: &str) -> Endpoint {
        Endpoint::Tcp(address.parse().unwrap())
    }

    #[test]
    fn an_endpoint_is_on_the_agents_own_machine() {
        for own in ["10.0.0.7:80", "[fd00::7]:80", "[::ffff:10.0.0.7]:80"] {
            assert_eq!(checked(tcp(own), true, false), Ok(()), "{own}");
        }
        // These endpoints belong to the coordinator's own services, a cloud metadata service, and
        // an unrelated machine.
        for other in [
            "127.0.0.1:80",
            "[::1]:80",
            "169.254.169.254:80",
            "192.0.2.1:80",
            "10.0.0.7:0",
        ] {
            let error = checked(tcp(other), true, false).unwrap_err().to_string();
            assert!(
                error.contains(other) && error.contains("10.0.0.7"),
                "{error}"
            );
        }
        assert!(checked(Endpoint::Unix("/run/docker.sock".into()), true, true).is_err());
        assert_eq!(checked(tcp("127.0.0.1:80"), true, true), Ok(()));
        // This address is in a namespace, so only the agent's machine can reach it.
        assert_eq!(checked(tcp("10.200.0.2:80"), false, false), Ok(()));
    }

    #[test]
    fn unrequested_services_and_listeners_are_refused() {
        let wanted = Allocation {
            jail: None,
            service: "web".to_owned(),
            host: None,
            exposed: false,
            place: PlaceKind::Native,
            listen: BTreeMap::new(),
        };
        let nothing = AllocatedService {
            endpoints: BTreeMap::new(),
            files_dir: "/tmp".into(),
        };
        let of = |names: &[&str]| {
            let services = names
                .iter()
                .map(|name| ((*name).to_owned(), nothing.clone()));
            let services = services.collect();
            check_endpoints(std::slice::from_ref(&wanted), &services, &[], true)
        };
        assert_eq!(of(&["web"]), Ok(()));
        assert!(of(&[]).is_err() && of(&["web", "balancer"]).is_err());
        assert!(checked(tcp("10.0.0.7:80"), true, false).is_ok());
    }
}
