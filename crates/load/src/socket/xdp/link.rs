//! The parts of a load that all its workers share: the BPF program, the routes to the targets, and
//! the exchange.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use prony_xdp::{
    AddressRange, AttachMode, Attachment, Interface, NextHop, QueueSocket, RssHash, SocketOptions,
    XdpError,
};

use super::exchange::Exchange;
use super::setup::{XdpOptions, XdpSetup};

/// Size of the largest IP packet, in bytes, that is sent or accepted. Larger packets would need
/// larger frames.
const MTU_MAX: u32 = 3_400;

/// The BPF program that is attached to the interface, and the routes to the targets. Dropping the
/// link detaches the program.
#[derive(Debug)]
pub(crate) struct XdpLink {
    attachment: Attachment,
    interface: Interface,
    options: XdpOptions,
    sources: Vec<AddressRange>,
    /// Source addresses that the kernel doesn't have. This process itself replies to requests for
    /// the MAC addresses of these sources.
    answered: Vec<AddressRange>,
    ports: RangeInclusive<u16>,
    hops: Mutex<HashMap<IpAddr, NextHop>>,
    workers: u32,
    /// The hash that distributes received packets over the queues. `None` if there is only one
    /// worker or the hash is unknown.
    receive_hash: Option<RssHash>,
    /// Sockets of each worker, until the worker takes them. All sockets are opened before any
    /// worker connects. Otherwise, packets in a queue without a socket would reach the kernel,
    /// which resets connections that it doesn't know.
    sockets: Mutex<Vec<Vec<QueueSocket>>>,
    /// Number of workers that have taken their sockets and have not ended.
    active: AtomicU32,
    pub(super) exchange: Exchange,
}

impl XdpLink {
    /// Attaches the program and resolves the next hops, for this number of workers.
    ///
    /// # Errors
    ///
    /// The system rejects the program or a socket, or a next hop doesn't respond.
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
        let sockets = (0..workers)
            .map(|worker| open_sockets(&setup.interface, &attachment, (worker, workers)))
            .collect::<Result<_, _>>()?;
        Ok(Arc::new(XdpLink {
            attachment,
            interface: setup.interface.clone(),
            options: setup.options.clone(),
            sources: setup.filter.sources.clone(),
            answered: setup.filter.answered.clone(),
            ports: setup.filter.ports.clone(),
            hops: Mutex::new(hops),
            workers,
            receive_hash: match workers {
                1 => None,
                _ => setup.interface.rss().and_then(|rss| RssHash::new(&rss)),
            },
            sockets: Mutex::new(sockets),
            active: AtomicU32::new(0),
            exchange,
        }))
    }

    /// Returns the size of the largest IP packet in bytes.
    pub(super) fn mtu(&self) -> u32 {
        self.interface.mtu().min(MTU_MAX)
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

    /// Returns true if there are several workers.
    pub(super) fn is_shared(&self) -> bool {
        self.workers > 1
    }

    pub(super) fn sources(&self) -> &[AddressRange] {
        &self.sources
    }

    pub(super) fn answered(&self) -> &[AddressRange] {
        &self.answered
    }

    /// Returns a worker's sockets. The worker must call [`XdpLink::end_worker`] before it drops
    /// them.
    pub(super) fn take_sockets(&self, worker: u32) -> Vec<QueueSocket> {
        self.active.fetch_add(1, Ordering::AcqRel);
        let mut sockets = self.sockets.lock().unwrap_or_else(|it| it.into_inner());
        let own = sockets.get_mut(worker as usize);
        own.map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn end_worker(&self) {
        self.active.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns true while any worker is active. Packets of its connections may then arrive at any
    /// queue.
    pub(super) fn has_active_workers(&self) -> bool {
        self.active.load(Ordering::Acquire) > 0
    }

    /// Returns the local ports of a worker, which are an equal share of the load's port range.
    pub(super) fn ports_of(&self, worker: u32) -> RangeInclusive<u16> {
        let (first, count) = (u32::from(*self.ports.start()), self.ports.len() as u32);
        let at = |worker: u32| {
            first + (u64::from(count) * u64::from(worker) / u64::from(self.workers)) as u32
        };
        at(worker) as u16..=(at(worker + 1) - 1) as u16
    }

    pub(super) fn receive_hash(&self) -> Option<&RssHash> {
        self.receive_hash.as_ref()
    }

    /// Returns the worker that receives from a queue; see [`open_sockets`].
    pub(super) fn worker_of_queue(&self, queue: u32) -> u32 {
        queue % self.workers
    }

    /// Returns the worker whose connections use a local port.
    pub(super) fn owner_of(&self, port: u16) -> u32 {
        let (first, count) = (u32::from(*self.ports.start()), self.ports.len() as u32);
        let offset = u32::from(port).saturating_sub(first);
        let guess = u64::from(offset) * u64::from(self.workers) / u64::from(count.max(1));
        let guess = (guess as u32).min(self.workers - 1);
        if self.ports_of(guess).contains(&port) {
            guess
        } else {
            (guess + 1).min(self.workers - 1)
        }
    }

    /// Returns the route to a target. If the load started without this target, it is added, and the
    /// worker is blocked while the MAC address is resolved.
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

/// Opens a worker's sockets, for its share of the receive queues.
fn open_sockets(
    interface: &Interface,
    attachment: &Attachment,
    (worker, workers): (u32, u32),
) -> Result<Vec<QueueSocket>, XdpError> {
    let options = SocketOptions {
        mtu: interface.mtu().min(MTU_MAX),
    };
    (worker..interface.queues())
        .step_by(workers as usize)
        .map(|queue| QueueSocket::open(attachment, queue, options))
        .collect()
}
