//! Tunnels: what a proxy is asked for before TLS begins with the server behind it.

use prony_record::{Nanos, Outcome};

use super::Worker;
use crate::connection::{Progress, Reason};
use crate::slot::State;
use crate::socket::Sockets;

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// Asks for a tunnel on a connection that was just made, if there is a proxy between. The time until
    /// it is made is that of the connect, and has the same end.
    pub(super) fn ask_for_tunnel(&mut self, index: u32) -> bool {
        let slot = &mut self.slots[index as usize];
        let target = &self.targets[slot.target as usize];
        let Some(tunnel) = &target.tunnel else {
            return false;
        };
        slot.state = State::Tunneling;
        slot.connection.open_tunnel();
        let mut out = std::mem::take(&mut slot.spare);
        out.extend_from_slice(tunnel);
        self.send_owned(index, out);
        true
    }

    /// The proxy said something, or closed.
    pub(super) fn on_tunnel(&mut self, index: u32, progress: Progress, now: Nanos) {
        match progress {
            Progress::Waiting => {}
            Progress::Tunneled => {
                self.connect_deadlines.clear(index);
                self.slots[index as usize].backoff = Nanos::ZERO;
                self.secure(index, now);
            }
            Progress::Broken(outcome, reason) => {
                self.connect_given_up(index, outcome, Some(reason), now);
            }
            _ => {
                let reason = Some(Reason::NoTunnel(None));
                self.connect_given_up(index, Outcome::ConnectFailed, reason, now);
            }
        }
    }
}
