//! Redirects that are followed: one request to whoever measures, its clock running on, with a hop for
//! each of them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use prony_record::{Nanos, Outcome};

use super::Worker;
use crate::connection::Reason;
use crate::location::{self, further};
use crate::request::Request;
use crate::socket::Sockets;
use crate::spec::LoadSpec;

/// Requests whose redirects are remembered; with more of them all are forgotten, and written again.
const MOST_REMEMBERED: usize = 4096;
/// Of one request so many redirects are remembered.
const MOST_OF_ONE: usize = 16;
/// So many hosts that the load knew nothing of are followed to by a worker: to look one up may take
/// seconds, in which the worker does nothing else.
const MOST_NEW_HOSTS: u32 = 32;

/// What a request's earlier hops came to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Hops {
    count: u64,
    pub(super) bytes_in: u64,
    pub(super) body_bytes_in: u64,
}

/// What a worker keeps to follow redirects.
pub(super) struct Following {
    most: u64,
    fails_beyond: bool,
    /// For each seat.
    hops: Vec<Hops>,
    ways: HashMap<From, Ways>,
    new_hosts: u32,
}

/// The request that was redirected: its number in the load's list, or where it lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum From {
    Listed(u32),
    Own(*const Request),
}

/// Where the redirects of one request lead.
#[derive(Default)]
struct Ways {
    /// The request, where it is none of the load's list: another may come to lie in its place.
    of: Weak<Request>,
    known: Vec<Way>,
}

struct Way {
    status: u16,
    location: Vec<u8>,
    leads: Result<Arc<Request>, Reason>,
}

impl Following {
    /// Where the load follows redirects, on so many seats.
    pub(super) fn new(spec: &LoadSpec, seats: u32) -> Option<Following> {
        (spec.follow > 0).then(|| Following {
            most: spec.follow,
            fails_beyond: spec.fails_beyond_follow,
            hops: vec![Hops::default(); seats as usize],
            ways: HashMap::new(),
            new_hosts: 0,
        })
    }

    /// A seat's request has ended: what its earlier hops came to.
    pub(super) fn take(&mut self, seat: u32) -> Hops {
        std::mem::take(&mut self.hops[seat as usize])
    }

    /// What a redirect of a request leads to, as remembered.
    fn remembered(
        &mut self,
        (from, own): (From, Option<&Arc<Request>>),
        status: u16,
        location: &[u8],
    ) -> Option<Result<Arc<Request>, Reason>> {
        let ways = self.ways.get(&from)?;
        if own.is_some() && ways.of.strong_count() == 0 {
            self.ways.remove(&from);
            return None;
        }
        let mut known = ways.known.iter();
        let way = known.find(|way| way.status == status && way.location == location)?;
        Some(way.leads.clone())
    }

    fn remember(&mut self, (from, own): (From, Option<&Arc<Request>>), way: Way) {
        if self.ways.len() >= MOST_REMEMBERED {
            self.ways.clear();
        }
        let ways = self.ways.entry(from).or_default();
        if let Some(own) = own {
            ways.of = Arc::downgrade(own);
        }
        if ways.known.len() >= MOST_OF_ONE {
            ways.known.clear();
        }
        ways.known.push(way);
    }

    /// Writes the request that a redirect leads to.
    fn written(
        &mut self,
        spec: &LoadSpec,
        from: &Request,
        status: u16,
        location: &[u8],
    ) -> Option<Result<Arc<Request>, Reason>> {
        // One that was written by hand is not followed.
        let origin = from.origin.as_ref()?;
        let text = |error: &dyn std::fmt::Display| Reason::Text(error.to_string());
        let to = match location::resolve(&origin.url, location) {
            Ok(to) => to,
            Err(error) => return Some(Err(text(&error))),
        };
        if !spec.writer.knows(&to) {
            if self.new_hosts == MOST_NEW_HOSTS {
                let many = format!("redirects lead to more than {MOST_NEW_HOSTS} further hosts");
                return Some(Err(Reason::Text(many)));
            }
            self.new_hosts += 1;
        }
        let further = further(status, &from.method, &origin.headers, (&origin.url, &to));
        let body = match further.has_body {
            true => &origin.body[..],
            false => &[],
        };
        let written = spec
            .writer
            .write(further.method, to, &further.headers, body);
        Some(written.map_err(|error| text(&error)))
    }
}

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// A whole answer to a seat's request came. Tells whether the request is over; else it is
    /// redirected, and waits for its connection.
    #[inline]
    pub(super) fn answer_came(&mut self, seat: u32, outcome: Outcome, now: Nanos) -> bool {
        if self.following.is_some()
            && let Some(leads) = self.redirect_of(seat)
        {
            match leads {
                Ok(further) => {
                    self.redirect(seat, further, now);
                    return false;
                }
                Err(reason) => {
                    self.record_failure(seat, Outcome::Redirect, Some(reason), now);
                    return true;
                }
            }
        }
        self.show(seat);
        self.record(seat, outcome, now);
        true
    }

    /// What the answer to a seat's request redirects to, if it is a redirect that is followed.
    fn redirect_of(&mut self, seat: u32) -> Option<Result<Arc<Request>, Reason>> {
        let following = self.following.as_mut()?;
        let place = &self.seats[seat as usize];
        let connection = &self.slots[place.slot as usize].connection;
        let status = connection.received(place.tag()).status?;
        if !location::is_redirect(status) {
            return None;
        }
        let location = location::of(connection.seen(place.tag())?.head())?;
        if following.hops[seat as usize].count >= following.most {
            let most = following.most;
            let stopped = || Reason::Text(format!("stopped after {most} redirects"));
            return following.fails_beyond.then(|| Err(stopped()));
        }
        let own = place.own.as_ref();
        let from = match own {
            Some(own) => From::Own(Arc::as_ptr(own)),
            None => From::Listed(place.pending.as_ref()?.request),
        };
        if let Some(leads) = following.remembered((from, own), status, location) {
            return Some(leads);
        }
        let request = place.request(&self.spec.requests)?;
        let leads = following.written(self.spec, request, status, location)?;
        let way = Way {
            status,
            location: location.to_vec(),
            leads: leads.clone(),
        };
        following.remember((from, own), way);
        Some(leads)
    }

    /// A seat's request, whose answer has come, goes on as this one.
    fn redirect(&mut self, seat: u32, further: Arc<Request>, now: Nanos) {
        self.learn(further.target);
        let place = &mut self.seats[seat as usize];
        let slot = &mut self.slots[place.slot as usize];
        let tag = place.tag();
        let (Some(pending), Some(following)) = (&mut place.pending, &mut self.following) else {
            return;
        };
        let received = slot.connection.received(tag);
        let hops = &mut following.hops[seat as usize];
        hops.count += 1;
        hops.bytes_in += received.bytes;
        hops.body_bytes_in += received.body_bytes;
        pending.is_under_way = false;
        pending.retried = false;
        pending.first_byte = None;
        slot.under_way -= 1;
        slot.waiting += 1;
        let goes_elsewhere = further.target != slot.target;
        place.own = Some(further);
        self.recorder.redirected(now);
        if goes_elsewhere {
            self.divert(seat);
        }
    }
}
