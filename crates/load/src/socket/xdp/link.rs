//! The parts of a load that all its workers share: the BPF program, the ways to the targets, and the
//! exchange.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use prony_xdp::{AddressRange, AttachMode, Attachment, Interface, NextHop, XdpError};

use super::exchange::Exchange;
use super::setup::{XdpOptions, XdpSetup};

/// The program on the interface, and the ways to the targets. Dropping it detaches the program.
#[derive(Debug)]
pub(crate) struct XdpLink {
    attachment: Attachment,
    interface: Interface,
    options: XdpOptions,
    sources: Vec<AddressRange>,
    /// Sources that the kernel doesn't have.
    answered: Vec<AddressRange>,
    ports: RangeInclusive<u16>,
    hops: Mutex<HashMap<IpAddr, NextHop>>,
    workers: u32,
    queues: u32,
    pub(super) exchange: Exchange,
}

impl XdpLink {
    /// Attaches the program and resolves the next hops, for this number of workers.
    ///
    /// # Errors
    ///
    /// The system refuses, or a next hop doesn't respond.
    pub(crate) fn attach(setup: &XdpSetup, workers: u32) -> Result<Arc<XdpLink>, XdpError> {
        let queues = setup.interface.queues();
        if workers > setup.interface.workers_max() {
            return Err(XdpError::Queues {
                interface: setup.interface.name().to_owned(),
                queues,
                workers,
            });
        }
        let mut hops = HashMap::new();
        for target in &setup.targets {
            let mac = setup.options.gateway_mac;
            let hop = NextHop::find(&setup.interface, target.ip(), mac)?;
            hops.insert(target.ip(), hop);
        }
        let step = "creating an eventfd";
        let exchange = Exchange::new(workers).map_err(|error| XdpError::System(step, error))?;
        let attachment = Attachment::new(&setup.interface, &setup.filter)?;
        for target in &setup.targets {
            let step = "adding a target to the BPF map";
            let added = attachment.add_target(*target);
            added.map_err(|error| XdpError::System(step, error))?;
        }
        Ok(Arc::new(XdpLink {
            attachment,
            interface: setup.interface.clone(),
            options: setup.options.clone(),
            sources: setup.filter.sources.clone(),
            answered: setup.filter.answered.clone(),
            ports: setup.filter.ports.clone(),
            hops: Mutex::new(hops),
            workers,
            queues,
            exchange,
        }))
    }

    pub(super) fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    pub(super) fn mode(&self) -> AttachMode {
        self.attachment.mode()
    }

    pub(super) fn interface(&self) -> &Interface {
        &self.interface
    }

    pub(super) fn busy_poll(&self) -> bool {
        self.options.busy_poll
    }

    /// True if there are several workers.
    pub(super) fn is_shared(&self) -> bool {
        self.workers > 1
    }

    pub(super) fn sources(&self) -> &[AddressRange] {
        &self.sources
    }

    pub(super) fn answered(&self) -> &[AddressRange] {
        &self.answered
    }

    /// Receive queues of a worker. Each queue belongs to a worker, because packets of a queue
    /// without a socket would reach the kernel, which resets connections that it doesn't know.
    pub(super) fn queues_of(&self, worker: u32) -> impl Iterator<Item = u32> {
        (worker..self.queues).step_by(self.workers as usize)
    }

    /// Local ports of a worker: an equal part of the load's.
    pub(super) fn ports_of(&self, worker: u32) -> RangeInclusive<u16> {
        let (first, count) = (u32::from(*self.ports.start()), self.ports.len() as u32);
        let at = |worker: u32| {
            first + (u64::from(count) * u64::from(worker) / u64::from(self.workers)) as u32
        };
        at(worker) as u16..=(at(worker + 1) - 1) as u16
    }

    /// The worker whose connections use a local port.
    pub(super) fn owner_of(&self, port: u16) -> u32 {
        let (first, count) = (u32::from(*self.ports.start()), self.ports.len() as u32);
        let offset = u32::from(port).saturating_sub(first);
        let guess = u64::from(offset) * u64::from(self.workers) / u64::from(count.max(1));
        let guess = (guess as u32).min(self.workers - 1);
        match self.ports_of(guess).contains(&port) {
            true => guess,
            false => (guess + 1).min(self.workers - 1),
        }
    }

    /// The way to a target. A target that was not known before the load is added; asking for its
    /// MAC address blocks this worker.
    ///
    /// # Errors
    ///
    /// The target can't be reached through the interface.
    pub(super) fn hop(&self, target: SocketAddr) -> io::Result<NextHop> {
        let mut hops = self.hops.lock().unwrap_or_else(|held| held.into_inner());
        let hop = match hops.get(&target.ip()) {
            Some(hop) => *hop,
            None => {
                let mac = self.options.gateway_mac;
                let hop = NextHop::find(&self.interface, target.ip(), mac)
                    .map_err(|_| io::Error::from_raw_os_error(libc::EHOSTUNREACH))?;
                hops.insert(target.ip(), hop);
                hop
            }
        };
        self.attachment.add_target(target)?;
        Ok(hop)
    }
}
