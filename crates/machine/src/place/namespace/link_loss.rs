//! Random loss on a link. An nftables rule at each end drops arriving packets.

use prony_plan::topology::PacketShare;

use crate::system::HostError;
use crate::system::command;

/// Adds a rule to the current network namespace that randomly drops packets arriving over
/// `interface`. The rule counts the dropped packets.
pub(super) fn drop_arriving(interface: &str, loss: PacketShare) -> Result<(), HostError> {
    if loss.per_million() == 0 {
        return Ok(());
    }
    command::run("nft", &[&rules(interface, loss)]).map(drop)
}

/// Adds a loss rule to the loopback interface, to check that the kernel supports such rules.
pub(super) fn rehearse() -> Result<(), HostError> {
    command::run("nft", &[&rules("lo", PacketShare::MAX)]).map(drop)
}

/// Returns the nft(8) commands that add a loss rule. The table and the chain may already exist,
/// because the links of a place share them.
fn rules(interface: &str, loss: PacketShare) -> String {
    format!(
        "add table inet prony; \
         add chain inet prony loss {{ type filter hook prerouting priority -300; }}; \
         add rule inet prony loss iifname \"{interface}\" \
         numgen random mod 1000000 < {} counter drop",
        loss.per_million()
    )
}
