//! Loads that bypass the kernel's TCP: the interface, its addresses and its local ports.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::settings::{HttpVersion, IoChoice, LoadSettings};
use crate::socket::{XdpOptions, XdpSetup};
use crate::target::Target;
use crate::target::source::Sources;
use crate::values::error::{SettingsError, SpecError};

/// The interface of a load over AF_XDP, after it has been checked.
#[derive(Debug, Clone)]
pub(crate) struct Bypass {
    pub(crate) setup: Arc<XdpSetup>,
}

impl LoadSettings {
    /// Makes the load use the kernel's sockets, so that the other settings can be checked on a
    /// machine without the interface.
    pub fn use_kernel_sockets(&mut self) {
        if is_chosen(self) {
            self.io = None;
        }
        (self.interface, self.gateway_mac, self.busy_poll) = (None, None, false);
    }
}

/// Returns true if the settings choose AF_XDP.
pub(crate) fn is_chosen(settings: &LoadSettings) -> bool {
    settings.io == Some(IoChoice::Xdp)
}

/// Checks the interface of a load over AF_XDP. Returns `None` for other loads.
///
/// # Errors
///
/// The settings contradict each other, or the interface can't be used for the load.
pub(crate) fn resolve_bypass(
    settings: &LoadSettings,
    sources: &Sources,
    targets: &[Target],
) -> Result<Option<Bypass>, SpecError> {
    // In a plan that compares socket backends, an empty interface name selects the kernel's
    // sockets.
    let interface = settings.interface.as_deref().filter(|it| !it.is_empty());
    if !is_chosen(settings) {
        let given = [
            ("interface", interface.is_some()),
            ("gateway_mac", settings.gateway_mac.is_some()),
            ("busy_poll", settings.busy_poll),
        ];
        return match given.iter().find(|(_, is_given)| *is_given) {
            None => Ok(None),
            Some((setting, _)) => {
                let error = SettingsError::of(setting).text(" has no effect without ");
                Err(error.and_value("io", IoChoice::Xdp).into())
            }
        };
    }
    let refused = |text: &str| SettingsError::value("io", IoChoice::Xdp).text(text);
    let Some(interface) = interface else {
        let error = refused(" needs the network interface that leads to the server");
        return Err(error.hint("add ").name("interface").into());
    };
    if settings.http == Some(HttpVersion::Http3) {
        let error = refused(" carries TCP, not QUIC").hint("use a version other than ");
        return Err(error.and_value("http", HttpVersion::Http3).into());
    }
    if targets.iter().any(|target| target.peer.address().is_none()) {
        let error = refused(" can't reach a UNIX socket");
        let error = error.hint("remove ").name("unix");
        return Err(error.into());
    }
    on_interface(settings, interface, sources, targets).map(Some)
}

fn on_interface(
    settings: &LoadSettings,
    interface: &str,
    sources: &Sources,
    targets: &[Target],
) -> Result<Bypass, SpecError> {
    let options = XdpOptions {
        interface: interface.to_owned(),
        gateway_mac: settings.gateway_mac.map(|it| it.0),
        busy_poll: settings.busy_poll,
    };
    let targets: BTreeSet<_> = targets
        .iter()
        .filter_map(|target| target.peer.address())
        .collect();
    let ranges: Vec<_> = sources
        .ranges()
        .map(|range| prony_xdp::AddressRange {
            first: range.first(),
            last: range.last(),
        })
        .collect();
    match XdpSetup::check(options, targets.into_iter().collect(), &ranges) {
        Ok(setup) => Ok(Bypass {
            setup: Arc::new(setup),
        }),
        Err(error) => {
            let text = format!(": {error}");
            let error = SettingsError::value("interface", interface).text(text);
            Err(SpecError::Environment(error))
        }
    }
}

impl Bypass {
    /// Maximum number of workers.
    pub(crate) fn workers_max(&self) -> u32 {
        self.setup.workers_max()
    }

    /// Number of local ports per source address.
    fn port_count(&self) -> u64 {
        self.setup.port_count()
    }
}

impl Bypass {
    /// Checks that the interface has a receive queue for each worker.
    ///
    /// # Errors
    ///
    /// The interface has fewer queues than the load has workers.
    pub(crate) fn check_workers(&self, workers: u32) -> Result<(), SpecError> {
        let queues = self.workers_max();
        if workers <= queues {
            return Ok(());
        }
        let s = if queues == 1 { "" } else { "s" };
        let error = SettingsError::value("threads", workers).text(format!(
            ": each worker needs its own receive queue, but the interface has only {queues}; use \
                at most {queues} thread{s}, or add queues (ethtool -L)"
        ));
        Err(SpecError::Environment(error))
    }

    /// Checks that the connections have enough local ports.
    ///
    /// # Errors
    ///
    /// There are fewer local ports than connections.
    pub(crate) fn check_ports(
        &self,
        connections: u32,
        sources: &Sources,
        targets: &[Target],
    ) -> Result<(), SpecError> {
        let peers = targets.iter().filter_map(|target| target.peer.address());
        let pairs: u64 = peers.map(|peer| sources.count_for(peer.ip())).sum();
        let ports = self.port_count().saturating_mul(pairs);
        if u64::from(connections) <= ports {
            return Ok(());
        }
        let error = SettingsError::value("connections", connections).text(format!(
            " needs that many local ports, but the load has only {ports}"
        ));
        let error = error.hint(format!("use at most {ports} connections"));
        let error = error.hint("connect from more addresses (").name("source");
        let error = error.text(" FIRST-LAST)");
        Err(SpecError::Environment(error))
    }
}
