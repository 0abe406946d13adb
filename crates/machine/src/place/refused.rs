//! Reasons why this machine can't have places and links.

use std::path::PathBuf;
use std::{fmt, io};

use prony_plan::service::LimitKey;

use crate::system::HostError;

/// The device from which all TAP devices are made.
pub(super) const TUN_FILE: &str = "/dev/net/tun";

/// Requirement of a place or a link that is missing.
#[derive(Debug)]
pub enum PlaceRefused {
    /// prony doesn't run as root.
    NotRoot,
    /// The command `ip` is missing.
    NoIp,
    /// The command `tc` is missing.
    NoTc,
    /// The command `nft` is missing.
    NoNft,
    /// The kernel refuses to create a network namespace.
    NoNetwork(io::Error),
    /// No thread could enter a new network namespace.
    NoThread(io::Error),
    /// The kernel can't drop packets at random.
    NoLosses(HostError),
    /// The kernel has no `sch_netem`.
    NoNetem(io::Error),
    /// The kernel creates no TAP devices.
    NoTap(io::Error),
    /// A command that prepares the network failed.
    Host(HostError),
    /// No process could be forked.
    NoFork(io::Error),
    /// The kernel refuses to create a namespace of this kind.
    NoNamespace(&'static str),
    /// The kernel refuses to create namespaces.
    NoNamespaces,
    /// None of these private networks is free on this host.
    NoSubnet(Vec<String>),
}

/// Formats the missing requirement, with a hint.
impl fmt::Display for PlaceRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceRefused::NotRoot => {
                f.write_str("creating network namespaces requires root (run prony with sudo)")
            }
            PlaceRefused::NoIp => f.write_str(
                "the command `ip` is missing (install the package iproute2: `apt-get install \
                 iproute2`)",
            ),
            PlaceRefused::NoTc => f.write_str(
                "the command `tc` is missing (install the package iproute2, on Fedora iproute-tc: \
                 `apt-get install iproute2`)",
            ),
            PlaceRefused::NoNft => f.write_str(
                "the command `nft` is missing (install the package nftables: `apt-get install \
                 nftables`)",
            ),
            PlaceRefused::NoNetwork(error) => write!(
                f,
                "the kernel refuses to create a network namespace ({error}; a container must be \
                 privileged)"
            ),
            PlaceRefused::NoThread(error) => error.fmt(f),
            PlaceRefused::NoLosses(error) => {
                write!(f, "{error} (the kernel needs nftables with `numgen`)")
            }
            PlaceRefused::NoNetem(error) => write!(
                f,
                "the kernel has no sch_netem ({error}; load the module with `modprobe sch_netem`, \
                 or use emulator = \"relay\")"
            ),
            PlaceRefused::NoTap(error) => write!(
                f,
                "a relay needs TAP devices, and {TUN_FILE} can't be used ({error}; load the module \
                 with `modprobe tun`; a container needs `--device {TUN_FILE}`)"
            ),
            PlaceRefused::Host(error) => error.fmt(f),
            PlaceRefused::NoFork(error) => write!(f, "could not fork: {error}"),
            PlaceRefused::NoNamespace(kind) => write!(
                f,
                "the kernel refuses to create a {kind} namespace (a container must be privileged; \
                 otherwise see `sysctl user`)"
            ),
            PlaceRefused::NoNamespaces => f.write_str("the kernel refuses to create namespaces"),
            PlaceRefused::NoSubnet(tried) => write!(
                f,
                "no private network is free on this host (prony tries {})",
                tried.join(", ")
            ),
        }
    }
}

impl std::error::Error for PlaceRefused {}

/// Reason why a service can't have a limit.
#[derive(Debug)]
pub enum LimitRefused {
    /// Neither the kernel nor the groups above prony's own offer the controller.
    NoController(LimitKey),
    /// A control group can't be created in this folder.
    NotCreated(PathBuf, io::Error),
    /// A file of a control group can't be written.
    NotWritten(PathBuf, io::Error),
    /// The list of the run's resources can't be written.
    Host(HostError),
}

/// Hint for users who may not create control groups.
const DELEGATE: &str = "run prony as root, or in a control group of its own: `systemd-run --user \
    --scope -p Delegate=yes prony …`; a container must be privileged";

/// Formats the cause, with a hint.
impl fmt::Display for LimitRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitRefused::NoController(key) => write!(
                f,
                "no control group above prony's own offers the controller `{}` ({DELEGATE})",
                key.name()
            ),
            LimitRefused::NotCreated(folder, error) => write!(
                f,
                "could not create the control group {}: {error} ({DELEGATE})",
                folder.display()
            ),
            // The kernel refuses a limit that exceeds the one of a group above.
            LimitRefused::NotWritten(file, error)
                if error.kind() == io::ErrorKind::InvalidInput =>
            {
                write!(
                    f,
                    "the kernel rejects the value in {}: {error} (a group above may allow less)",
                    file.display()
                )
            }
            LimitRefused::NotWritten(file, error) => {
                write!(
                    f,
                    "could not write {}: {error} ({DELEGATE})",
                    file.display()
                )
            }
            LimitRefused::Host(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LimitRefused {}
