//! A separate network namespace with a TUN device, which exchanges packets between the test and the
//! kernel.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

/// Largest IP packet of the link, in bytes.
pub(crate) const MTU: usize = 1_500;
/// Size of the header before each packet (`struct virtio_net_hdr`), in bytes.
const VNET_HEADER: usize = 10;

/// Runs a closure on a thread with its own network namespace, which ends with its threads.
pub(crate) fn isolated(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: a plain system call, which affects only this thread and its children.
            let left = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            let error = std::io::Error::last_os_error();
            assert_eq!(
                left, 0,
                "creating a network namespace (needs root): {error}"
            );
            work();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Runs a program in the namespace of this thread.
pub(crate) fn run(program: &str, arguments: &str) {
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {message}");
}

/// Sets a kernel parameter in this thread's namespace.
pub(crate) fn set_parameter(name: &str, value: &str) {
    let path = format!("/proc/sys/net/{name}");
    std::fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Returns the kernel's count with this name in this namespace, such as `Tcp: InErrs`.
pub(crate) fn kernel_count(protocol: &str, name: &str) -> u64 {
    for file in ["snmp", "netstat"] {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap();
        let mut lines = text.lines().filter(|line| line.starts_with(protocol));
        let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
            continue;
        };
        let mut pairs = names.split(' ').zip(values.split(' '));
        if let Some((_, value)) = pairs.find(|(n, _)| *n == name) {
            return value.parse().unwrap();
        }
    }
    panic!("the kernel has no counter {protocol} {name}");
}

/// Returns the number of connections that the kernel holds in TIME-WAIT in this namespace.
pub(crate) fn time_wait_count() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/sockstat").unwrap();
    let mut words = text.split_whitespace().skip_while(|word| *word != "tw");
    words.nth(1).unwrap().parse().unwrap()
}

/// A TUN device with the addresses of the server.
pub(crate) struct Tun {
    file: File,
    /// Percentage of the kernel's packets that are dropped.
    loss: u64,
    /// State of the random number generator.
    random: u64,
}

impl Tun {
    /// Creates the device with 10.9.0.2 and fd09::2. The kernel leaves checksums of its packets
    /// unfinished, as on a virtual link.
    pub(crate) fn new() -> Tun {
        let path = "/dev/net/tun";
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        // SAFETY: all-zero bytes are a valid `ifreq`.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (target, byte) in request.ifr_name.iter_mut().zip(*b"tcp0") {
            *target = byte as libc::c_char;
        }
        request.ifr_ifru.ifru_flags =
            (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: the descriptor is open, and the request is a valid `ifreq`.
        let set = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        assert_eq!(set, 0, "TUNSETIFF: {}", std::io::Error::last_os_error());
        let offload = libc::c_ulong::from(libc::TUN_F_CSUM);
        // SAFETY: the descriptor is open, and the argument is a number.
        let set = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, offload) };
        assert_eq!(set, 0, "TUNSETOFFLOAD: {}", std::io::Error::last_os_error());
        run("ip", "addr add 10.9.0.2/24 dev tcp0");
        run("ip", "addr add fd09::2/64 dev tcp0 nodad");
        run("ip", &format!("link set tcp0 mtu {MTU} up"));
        Tun {
            file,
            loss: 0,
            random: u64::from(std::process::id()),
        }
    }

    /// Drops this percentage of the packets in each direction from now on. nftables drops packets
    /// that the kernel receives. The device drops packets that the kernel sends, because the kernel
    /// would notice if nftables dropped them.
    pub(crate) fn drop_packets(&mut self, percent: u64) {
        self.loss = percent;
        run("nft", "add table inet loss");
        let chain = "add chain inet loss input { type filter hook input priority 0 ; }";
        run("nft", chain);
        let rule = format!("add rule inet loss input numgen random mod 100 < {percent} drop");
        run("nft", &rule);
    }

    /// Returns true if the next packet from the kernel is to be dropped (xorshift, Marsaglia 2003).
    fn is_lost(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 20) % 100 < self.loss
    }

    /// Reads the next packet from the kernel into a buffer, if there is one.
    pub(crate) fn receive(&mut self, packet: &mut Vec<u8>) -> bool {
        loop {
            packet.resize(VNET_HEADER + MTU, 0);
            match self.file.read(packet) {
                Ok(_) if self.is_lost() => {}
                Ok(size) => {
                    packet.truncate(size);
                    packet.drain(..VNET_HEADER);
                    return true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) => panic!("reading from the TUN device: {error}"),
            }
        }
    }

    /// Passes a packet to the kernel.
    pub(crate) fn send(&mut self, packet: &[u8]) {
        let framed = [&[0; VNET_HEADER], packet].concat();
        match self.file.write(&framed) {
            Ok(_) => {}
            // The kernel refuses packets if its queue is full. To TCP this is a loss.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN)) => {}
            Err(error) => panic!("writing to the TUN device: {error}"),
        }
    }

    /// Waits for a packet for at most this time.
    pub(crate) fn wait(&self, nanos: u64) {
        let mut descriptor = libc::pollfd {
            fd: self.file.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let millis = libc::c_int::try_from(nanos.div_ceil(1_000_000)).unwrap_or(1_000);
        // SAFETY: the array has one valid entry.
        unsafe { libc::poll(&raw mut descriptor, 1, millis) };
    }
}
