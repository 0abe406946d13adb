//! Redirects that are followed: one request to the measurement, its clock running on, with a hop for each
//! of them.
//!
//! A redirect to a new host waits for its name lookup, which another thread makes: meanwhile the seat is
//! diverted, and its connection carries nothing.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use prony_record::{Nanos, Outcome};

use super::Worker;
use crate::connection::Reason;
use crate::location::{self, LOCATION_BYTES_MAX, further};
use crate::lookup::LOOKUP_TIMEOUT;
use crate::request::Request;
use crate::socket::Sockets;
use crate::spec::LoadSpec;
use crate::target::Url;
use crate::writer::{self, TargetLookup, TargetState};

/// Requests whose redirects are remembered; with more of them all are forgotten, and written again.
const MOST_REMEMBERED: usize = 4096;
/// Redirects of one request that are remembered.
const MOST_OF_ONE: usize = 16;
/// Bytes that a worker's remembered redirects may take, roughly.
const REMEMBERED_BYTES_MAX: usize = 16 << 20;
/// Bytes that a remembered redirect takes besides its texts, roughly.
const WAY_OVERHEAD_BYTES: usize = 1024;
/// Hosts new to the load to which a worker follows redirects.
const MOST_NEW_HOSTS: u32 = 32;
/// The time between two polls of unfinished lookups.
pub(super) const LOOKUP_POLL_INTERVAL: Nanos = Nanos::from_millis(2);

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
    /// Bytes that these take.
    ways_bytes: usize,
    new_hosts: u32,
    /// Some request waits for a lookup.
    pub(super) looks_up: bool,
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

impl Way {
    fn bytes(&self) -> usize {
        let request = self.leads.as_ref().map_or(0, |request| request.bytes.len());
        // The request's body is kept a second time, for the next redirect.
        WAY_OVERHEAD_BYTES + self.location.len() + 2 * request
    }
}

/// A request whose redirect leads to a host that is being looked up.
pub(crate) struct PendingRedirect {
    lookup: TargetLookup,
    /// When the lookup is given up.
    deadline: Nanos,
    status: u16,
    location: Vec<u8>,
}

/// The result of a redirect.
enum Redirect {
    /// The request goes on as another one, or fails.
    Leads(Result<Arc<Request>, Reason>),
    /// That depends on a lookup.
    LooksUp(TargetLookup),
    /// It fails for want of room for another lookup.
    Busy(Reason),
}

impl Following {
    /// Where the load follows redirects, on so many seats.
    pub(super) fn new(spec: &LoadSpec, seats: u32) -> Option<Following> {
        (spec.follow > 0).then(|| Following {
            most: spec.follow,
            fails_beyond: spec.fails_beyond_follow,
            hops: vec![Hops::default(); seats as usize],
            ways: HashMap::new(),
            ways_bytes: 0,
            new_hosts: 0,
            looks_up: false,
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
        let bytes = way.bytes();
        if self.ways.len() >= MOST_REMEMBERED || self.ways_bytes + bytes > REMEMBERED_BYTES_MAX {
            self.ways.clear();
            self.ways_bytes = 0;
        }
        let ways = self.ways.entry(from).or_default();
        if let Some(own) = own {
            ways.of = Arc::downgrade(own);
        }
        if ways.known.len() >= MOST_OF_ONE {
            self.ways_bytes -= ways.known.iter().map(Way::bytes).sum::<usize>();
            ways.known.clear();
        }
        self.ways_bytes += bytes;
        ways.known.push(way);
    }

    /// Finds where a redirect leads.
    fn resolved(
        &mut self,
        spec: &LoadSpec,
        from: &Request,
        status: u16,
        location: &[u8],
    ) -> Option<Redirect> {
        // One that was written by hand is not followed.
        let origin = from.origin.as_ref()?;
        let to = match location::resolve(&origin.url, location) {
            Ok(to) => to,
            Err(error) => return Some(Redirect::Leads(Err(text(&error)))),
        };
        if !spec.writer.knows(&to) {
            if self.new_hosts == MOST_NEW_HOSTS {
                let many = format!("redirects lead to more than {MOST_NEW_HOSTS} further hosts");
                return Some(Redirect::Leads(Err(Reason::Text(many))));
            }
            self.new_hosts += 1;
        }
        Some(match spec.writer.find_target(&to) {
            Ok(TargetState::Known(target)) => {
                Redirect::Leads(written(spec, from, status, to, target))
            }
            Ok(TargetState::LookingUp(lookup)) => Redirect::LooksUp(lookup),
            Ok(TargetState::Busy) => Redirect::Busy(text(&writer::busy(&to.host))),
            Err(error) => Redirect::Leads(Err(text(&error))),
        })
    }
}

fn text(error: &dyn std::fmt::Display) -> Reason {
    Reason::Text(error.to_string())
}

/// Writes the request that a redirect to a URL leads to.
fn written(
    spec: &LoadSpec,
    from: &Request,
    status: u16,
    to: Url,
    target: u32,
) -> Result<Arc<Request>, Reason> {
    let Some(origin) = from.origin.as_ref() else {
        return Err(Reason::Text("it was written by hand".to_owned()));
    };
    let further = further(status, &from.method, &origin.headers, (&origin.url, &to));
    let body = match further.has_body {
        true => &origin.body[..],
        false => &[],
    };
    let written = spec
        .writer
        .write_to(target, further.method, to, &further.headers, body);
    written.map_err(|error| text(&error))
}

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// A whole answer to a seat's request came. Tells whether the request is over; else it is
    /// redirected, and waits for its connection.
    #[inline]
    pub(super) fn answer_came(&mut self, seat: u32, outcome: Outcome, now: Nanos) -> bool {
        if self.following.is_some()
            && let Some(redirect) = self.redirect_of(seat)
        {
            match redirect {
                Redirect::Leads(Ok(further)) => {
                    self.redirect(seat, further, now);
                    return false;
                }
                Redirect::LooksUp(lookup) => {
                    self.wait_for_lookup(seat, lookup, now);
                    return false;
                }
                Redirect::Leads(Err(reason)) | Redirect::Busy(reason) => {
                    self.record_failure(seat, Outcome::Redirect, Some(reason), now);
                    return true;
                }
            }
        }
        self.show(seat);
        self.record(seat, outcome, now);
        true
    }

    /// The redirect that the response to a seat's request is, if it is one that is followed.
    fn redirect_of(&mut self, seat: u32) -> Option<Redirect> {
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
            return following
                .fails_beyond
                .then(|| Redirect::Leads(Err(stopped())));
        }
        let own = place.own.as_ref();
        let from = match own {
            Some(own) => From::Own(Arc::as_ptr(own)),
            None => From::Listed(place.pending.as_ref()?.request),
        };
        if let Some(leads) = following.remembered((from, own), status, location) {
            return Some(Redirect::Leads(leads));
        }
        let request = place.request(&self.spec.requests)?;
        let redirect = following.resolved(self.spec, request, status, location)?;
        if let Redirect::Leads(leads) = &redirect
            && location.len() <= LOCATION_BYTES_MAX
        {
            let way = Way {
                status,
                location: location.to_vec(),
                leads: leads.clone(),
            };
            following.remember((from, own), way);
        }
        Some(redirect)
    }

    /// A seat's request, to which a redirect came, no longer is on its connection.
    fn end_hop(&mut self, seat: u32, now: Nanos) {
        self.take_back_unsent(seat);
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
        self.recorder.redirected(now);
    }

    /// A seat's request, whose response has come, goes on as this one.
    fn redirect(&mut self, seat: u32, further: Arc<Request>, now: Nanos) {
        self.learn(further.target);
        self.end_hop(seat, now);
        let place = &mut self.seats[seat as usize];
        let goes_elsewhere = further.target != self.slots[place.slot as usize].target;
        place.own = Some(further);
        if goes_elsewhere {
            self.divert(seat);
        }
    }

    /// A seat's request, to which a redirect came, waits until the new host is looked up.
    fn wait_for_lookup(&mut self, seat: u32, lookup: TargetLookup, now: Nanos) {
        let place = &self.seats[seat as usize];
        let connection = &self.slots[place.slot as usize].connection;
        let seen = connection.seen(place.tag());
        let location = seen.and_then(|seen| location::of(seen.head()));
        let pending = PendingRedirect {
            lookup,
            deadline: now + Nanos::from(LOOKUP_TIMEOUT),
            status: connection.received(place.tag()).status.unwrap_or(0),
            location: location.unwrap_or_default().to_vec(),
        };
        self.seats[seat as usize].lookup = Some(Box::new(pending));
        self.end_hop(seat, now);
        self.divert(seat);
    }

    /// Goes on with a diverted request that waits for a lookup. Returns whether it waits on.
    ///
    /// # Errors
    ///
    /// Why the request fails.
    pub(super) fn poll_lookup(&mut self, seat: u32, now: Nanos) -> Result<bool, Reason> {
        let place = &mut self.seats[seat as usize];
        let result = match &place.lookup {
            None => return Ok(false),
            Some(redirect) => redirect.lookup.result(),
        };
        let redirect = place
            .lookup
            .take_if(|redirect| result.is_some() || now >= redirect.deadline);
        let (Some(redirect), Some(following)) = (redirect, &mut self.following) else {
            return Ok(true);
        };
        let own = place.own.clone();
        let request = place.request(&self.spec.requests);
        let (Some(request), Some(pending)) = (request, &place.pending) else {
            return Ok(false);
        };
        let from = match &own {
            Some(own) => From::Own(Arc::as_ptr(own)),
            None => From::Listed(pending.request),
        };
        let origin = request.origin.as_ref().map(|origin| &origin.url);
        let to = origin.map(|url| location::resolve(url, &redirect.location));
        let leads = match (to, result) {
            (Some(Ok(to)), Some(Ok(target))) => {
                written(self.spec, request, redirect.status, to, target)
            }
            (Some(Ok(to)), None) => Err(text(&writer::timed_out(&to.host))),
            (Some(Err(error)), _) => Err(text(&error)),
            (_, Some(Err(error))) => Err(text(&error)),
            (None, _) => return Ok(false),
        };
        let PendingRedirect {
            status, location, ..
        } = *redirect;
        let way = Way {
            status,
            location,
            leads: leads.clone(),
        };
        following.remember((from, own.as_ref()), way);
        let further = leads?;
        self.learn(further.target);
        self.seats[seat as usize].own = Some(further);
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::LoadOptions;

    #[test]
    fn remembered_redirects_take_bounded_memory() {
        let options = LoadOptions::typed("-c 1 --follow 5");
        let spec = LoadSpec::resolve(Some("http://127.0.0.1:1/"), &options).unwrap();
        let mut following = Following::new(&spec, 1).unwrap();
        for number in 0..50_000_u32 {
            let way = Way {
                status: 302,
                location: vec![b'x'; LOCATION_BYTES_MAX],
                leads: Err(Reason::Text("unused".to_owned())),
            };
            following.remember((From::Listed(number % 1_000), None), way);
            let kept = following.ways.values().flat_map(|ways| &ways.known);
            if number % 1_000 == 0 {
                let bytes: usize = kept.map(Way::bytes).sum();
                assert_eq!(bytes, following.ways_bytes);
                assert!(bytes <= REMEMBERED_BYTES_MAX);
            }
        }
    }
}
