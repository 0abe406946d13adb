//! AF_XDP sockets, which receive and send Ethernet frames on a network interface and bypass the
//! kernel's network stack.
//!
//! Input: an interface, the addresses and ports of a load, and frames to send. Output: the frames
//! that belong to the load. The kernel still receives everything else that arrives on the
//! interface.
//!
//! | part | owns |
//! |---|---|
//! | [`Interface`] | facts about an interface: MAC, MTU, queues, addresses, offloads |
//! | [`NextHop`] | the path to a target: the kernel's route and the next hop's MAC |
//! | [`Attachment`] | the BPF program on the interface; it ends with the process |
//! | [`QueueSocket`] | one AF_XDP socket with its ring memory, for one receive queue |
//! | [`bpf`] | an assembler, programs and maps |
//! | [`neighbor`] | replies to ARP requests and neighbor solicitations, as pure functions |
//!
//! The crate contains no TCP or HTTP, no thread and no clock. On systems other than Linux, only
//! [`MacAddress`] exists.

#[cfg(target_os = "linux")]
mod address_range;
#[cfg(target_os = "linux")]
mod attachment;
#[cfg(target_os = "linux")]
pub mod bpf;
#[cfg(target_os = "linux")]
mod error;
mod ethernet;
#[cfg(target_os = "linux")]
mod ethtool;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod interface;
#[cfg(target_os = "linux")]
pub mod neighbor;
#[cfg(target_os = "linux")]
mod netlink;
#[cfg(target_os = "linux")]
mod ring;
#[cfg(target_os = "linux")]
mod route;
#[cfg(target_os = "linux")]
mod rss;
#[cfg(target_os = "linux")]
mod socket;
#[cfg(target_os = "linux")]
mod umem;

#[cfg(target_os = "linux")]
pub use address_range::AddressRange;
#[cfg(target_os = "linux")]
pub use attachment::{AttachMode, Attachment};
#[cfg(target_os = "linux")]
pub use error::XdpError;
pub use ethernet::{ETHERNET_HEADER, EtherType, MacAddress, ether_type, write_header};
#[cfg(target_os = "linux")]
pub use ethtool::{Offloads, RssSettings};
#[cfg(target_os = "linux")]
pub use filter::FilterSpec;
#[cfg(target_os = "linux")]
pub use interface::{DriverFeatures, Interface};
#[cfg(target_os = "linux")]
pub use route::NextHop;
#[cfg(target_os = "linux")]
pub use rss::RssHash;
#[cfg(target_os = "linux")]
pub use socket::{Frame, QueueSocket, RingDrops, SocketOptions};
