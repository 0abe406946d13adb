//! AF_XDP sockets: Ethernet frames to and from a network interface, past the kernel's stack.
//!
//! Input: an interface, the addresses and ports of a load, and frames to send. Output: the frames
//! that belong to the load. Everything else on the interface goes to the kernel as before.
//!
//! | part | owns |
//! |---|---|
//! | [`Interface`] | facts about an interface: MAC, MTU, queues, addresses, offloads |
//! | [`NextHop`] | the way to a target: the kernel's route and the next hop's MAC |
//! | [`Attachment`] | the BPF program on the interface; it ends with the process |
//! | [`QueueSocket`] | one AF_XDP socket with its ring memory, for one receive queue |
//! | [`neighbor`] | replies to ARP requests and neighbor solicitations, as pure functions |
//!
//! The crate knows neither TCP nor HTTP, and has no thread and no clock. It exists on Linux only.
#![cfg(target_os = "linux")]

mod address_range;
mod attachment;
mod bpf;
mod error;
mod ethernet;
mod ethtool;
mod filter;
mod interface;
pub mod neighbor;
mod netlink;
mod ring;
mod route;
mod socket;
mod umem;

pub use address_range::AddressRange;
pub use attachment::{AttachMode, Attachment};
pub use error::XdpError;
pub use ethernet::{ETHERNET_HEADER, EtherType, MacAddress, ether_type, write_header};
pub use ethtool::{Offloads, RssSettings};
pub use filter::FilterSpec;
pub use interface::Interface;
pub use route::NextHop;
pub use socket::{Frame, QueueSocket, RingDrops, SocketOptions};
