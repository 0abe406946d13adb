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
//! The crate contains no TCP or HTTP, no thread and no clock.

mod address_range;
mod attachment;
pub mod bpf;
mod error;
mod ethernet;
mod ethtool;
mod filter;
mod interface;
pub mod neighbor;
pub mod netlink;
mod ring;
mod route;
mod rss;
mod socket;
mod umem;

pub use address_range::AddressRange;
pub use attachment::{AttachMode, Attachment};
pub use error::XdpError;
pub use ethernet::{ETHERNET_HEADER, EtherType, MacAddress, ether_type, write_header};
pub use ethtool::{Offloads, RssSettings};
pub use filter::FilterSpec;
pub use interface::{DriverFeatures, Interface};
pub use route::NextHop;
pub use rss::RssHash;
pub use socket::{Frame, QueueSocket, RingDrops, SocketOptions};
