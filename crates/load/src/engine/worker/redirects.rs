//! Follows redirects. A redirect chain counts as one request, whose clock keeps running.
//!
//! A redirect to a new host waits for the name lookup, which runs on another thread. In the
//! meantime, the request is deferred, and its connection is idle.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use prony_record::Nanos;

use super::Worker;
use super::cookies::UserJar;
use super::dispatcher::RequestSlot;
use crate::carrier::{Carrier, Reason, Transport};
use crate::request::Request;
use crate::request::writer::{self, TargetLookup, TargetState};
use crate::socket::Sockets;
use crate::spec::LoadSpec;
use crate::values::location::{self, LOCATION_BYTES_MAX, further, location_of};
use crate::values::lookup::LOOKUP_TIMEOUT;
use crate::values::url::Url;

/// Maximum number of requests whose redirects are cached. When it is exceeded, the cache is
/// emptied.
const CACHED_REQUESTS_MAX: usize = 4096;
/// Maximum number of cached redirects per request.
const CACHED_PER_REQUEST_MAX: usize = 16;
/// Approximate maximum size of a worker's cached redirects in bytes.
const CACHED_BYTES_MAX: usize = 16 << 20;
/// Approximate size of a cached redirect in bytes, excluding its strings.
const CACHED_OVERHEAD_BYTES: usize = 1024;
/// Maximum number of new hosts to which a worker follows redirects.
const NEW_HOSTS_MAX: u32 = 32;
/// Time between two polls of unfinished lookups.
pub(super) const LOOKUP_POLL_INTERVAL: Nanos = Nanos::from_millis(2);

/// Totals of a request's earlier hops in a redirect chain.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PastHops {
    count: u64,
    pub(super) bytes_in: u64,
    pub(super) body_bytes_in: u64,
}

#[derive(Default)]
struct SlotRedirects {
    past: PastHops,
    /// The name lookup that the slot's request is waiting for.
    lookup: Option<Box<PendingRedirect>>,
}

/// State of a worker that follows redirects.
pub(super) struct Redirects {
    hops_max: u64,
    fails_beyond_max: bool,
    slots: Vec<SlotRedirects>,
    cache: HashMap<RequestId, CachedRedirects>,
    cached_bytes: usize,
    new_hosts: u32,
    /// True if a request waits for a lookup.
    pub(super) is_looking_up: bool,
}

/// Identifies a redirected request by its index in the load's list or by its memory address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum RequestId {
    Listed(u32),
    Own(*const Request),
}

/// The identifier of a redirected request, and the request itself unless it is in the load's list.
type Redirected<'a> = (RequestId, Option<&'a Arc<Request>>);

/// Cached redirects of one request.
#[derive(Default)]
struct CachedRedirects {
    /// The request, unless it is in the load's list. The `Weak` shows whether the request still
    /// exists: the key is its memory address, which a later request may reuse.
    of: Weak<Request>,
    list: Vec<CachedRedirect>,
}

struct CachedRedirect {
    status: u16,
    location: Vec<u8>,
    next: Result<Arc<Request>, Reason>,
}

impl CachedRedirect {
    fn bytes(&self) -> usize {
        let request = self
            .next
            .as_ref()
            .map_or(0, |request| request.encodings.len());
        // The request's body is stored twice, because the next redirect needs it.
        CACHED_OVERHEAD_BYTES + self.location.len() + 2 * request
    }
}

/// A redirect to a host whose name is being looked up.
struct PendingRedirect {
    lookup: TargetLookup,
    deadline: Nanos,
    status: u16,
    location: Vec<u8>,
}

/// The result of a redirect.
enum Redirect {
    /// The request that follows the redirect, or the reason why there is none.
    Next(Result<Arc<Request>, Reason>),
    /// A name lookup must finish before the result is known.
    LookingUp(TargetLookup),
    /// The request fails because too many lookups are in progress.
    Busy(Reason),
}

/// The consequence of a response for its request.
pub(super) enum RedirectStep {
    /// The response is not a redirect that the load follows.
    NotFollowed,
    /// The request goes on.
    Followed,
    /// The redirect can't be followed, for this reason.
    Failed(Reason),
}

impl Redirects {
    /// Creates the state of a worker with this number of slots. Returns `None` if the load follows
    /// no redirects.
    pub(super) fn new(spec: &LoadSpec, slots: usize) -> Option<Redirects> {
        (spec.responses.follow > 0).then(|| Redirects {
            hops_max: spec.responses.follow,
            fails_beyond_max: spec.responses.fails_beyond_follow,
            slots: (0..slots).map(|_| SlotRedirects::default()).collect(),
            cache: HashMap::new(),
            cached_bytes: 0,
            new_hosts: 0,
            is_looking_up: false,
        })
    }

    /// Removes and returns the totals of a request that ends, and drops its lookup.
    pub(super) fn take_hops(&mut self, slot: u32) -> PastHops {
        std::mem::take(&mut self.slots[slot as usize]).past
    }

    /// Returns true if a slot's request waits for a lookup.
    #[cfg(test)]
    pub(super) fn is_slot_looking_up(&self, slot: u32) -> bool {
        self.slots[slot as usize].lookup.is_some()
    }

    /// Returns the cached result of a redirect, if there is one.
    fn cached(
        &mut self,
        (id, own): Redirected<'_>,
        status: u16,
        location: &[u8],
    ) -> Option<Result<Arc<Request>, Reason>> {
        let cached = self.cache.get(&id)?;
        if own.is_some() && cached.of.strong_count() == 0 {
            self.cache.remove(&id);
            return None;
        }
        let mut list = cached.list.iter();
        let known = list.find(|known| known.status == status && known.location == location)?;
        Some(known.next.clone())
    }

    fn cache(&mut self, (id, own): Redirected<'_>, redirect: CachedRedirect) {
        let bytes = redirect.bytes();
        let is_full = self.cache.len() >= CACHED_REQUESTS_MAX;
        if is_full || self.cached_bytes + bytes > CACHED_BYTES_MAX {
            self.cache.clear();
            self.cached_bytes = 0;
        }
        let cached = self.cache.entry(id).or_default();
        if let Some(own) = own {
            cached.of = Arc::downgrade(own);
        }
        if cached.list.len() >= CACHED_PER_REQUEST_MAX {
            let dropped: usize = cached.list.iter().map(CachedRedirect::bytes).sum();
            self.cached_bytes -= dropped;
            cached.list.clear();
        }
        self.cached_bytes += bytes;
        cached.list.push(redirect);
    }

    /// Resolves a redirect. Returns `None` if the redirect is not followed.
    fn resolve(
        &mut self,
        spec: &LoadSpec,
        from: &Request,
        status: u16,
        location: &[u8],
        jar: Option<UserJar<'_>>,
    ) -> Option<Redirect> {
        // A raw request is not redirected.
        let origin = from.origin.as_ref()?;
        let to = match location::resolve(&origin.url, location) {
            Ok(to) => to,
            Err(error) => return Some(Redirect::Next(Err(text_reason(&error)))),
        };
        if !spec.writer.is_known(&to) {
            if self.new_hosts == NEW_HOSTS_MAX {
                let many = format!("redirects lead to more than {NEW_HOSTS_MAX} new hosts");
                return Some(Redirect::Next(Err(Reason::Text(many))));
            }
            self.new_hosts += 1;
        }
        Some(match spec.writer.find_target(&to) {
            Ok(TargetState::Known(target)) => {
                Redirect::Next(next_request(spec, from, status, (to, target), jar))
            }
            Ok(TargetState::LookingUp(lookup)) => Redirect::LookingUp(lookup),
            Ok(TargetState::Busy) => Redirect::Busy(text_reason(&writer::busy(&to.host))),
            Err(error) => Redirect::Next(Err(text_reason(&error))),
        })
    }
}

fn text_reason(error: &dyn std::fmt::Display) -> Reason {
    Reason::Text(error.to_string())
}

/// Returns the identifier of a slot's pending request.
fn redirected(slot: &RequestSlot) -> Option<Redirected<'_>> {
    let pending = slot.pending()?;
    let id = match &slot.own {
        Some(own) => RequestId::Own(Arc::as_ptr(own)),
        None => RequestId::Listed(pending.request),
    };
    Some((id, slot.own.as_ref()))
}

/// Creates the request that follows a redirect. `jar` contains the cookies of the request's user,
/// if the load has cookies.
fn next_request(
    spec: &LoadSpec,
    from: &Request,
    status: u16,
    (to, target): (Url, u32),
    jar: Option<UserJar<'_>>,
) -> Result<Arc<Request>, Reason> {
    let Some(origin) = from.origin.as_ref() else {
        return Err(Reason::Text("a raw request can't be redirected".to_owned()));
    };
    let mut further = further(status, &from.method, &origin.headers, (&origin.url, &to));
    if let Some(jar) = jar {
        let is_cookie = |name: &str| name.eq_ignore_ascii_case("cookie");
        further.headers.retain(|(name, _)| !is_cookie(name));
        let cookie = jar.jar.header(to.cookie_url(), jar.time);
        let cookie = cookie.map(|value| ("Cookie".to_owned(), value));
        further.headers.extend(cookie);
    }
    let body = if further.has_body {
        &origin.body[..]
    } else {
        &[]
    };
    let written = spec
        .writer
        .write_to(target, further.method, to, &further.headers, body);
    written.map_err(|error| text_reason(&error))
}

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Follows the redirect in the response to a slot's request, if the load follows it.
    pub(super) fn follow_redirect(&mut self, slot: u32, now: Nanos) -> RedirectStep {
        match self.redirect_of(slot) {
            None => RedirectStep::NotFollowed,
            Some(Redirect::Next(Ok(next))) => {
                self.redirect(slot, next, now);
                RedirectStep::Followed
            }
            Some(Redirect::LookingUp(lookup)) => {
                self.wait_for_lookup(slot, lookup, now);
                RedirectStep::Followed
            }
            Some(Redirect::Next(Err(reason)) | Redirect::Busy(reason)) => {
                RedirectStep::Failed(reason)
            }
        }
    }

    /// Returns the redirect in the response to a slot's request, if the load follows it.
    fn redirect_of(&mut self, slot: u32) -> Option<Redirect> {
        let redirects = self.redirects.as_mut()?;
        let taken = self.dispatcher.slot(slot);
        let carrier = &self.connections[taken.connection].session()?.carrier;
        let status = carrier.received(taken.stream()).status?;
        if !location::is_redirect(status) {
            return None;
        }
        let location = location_of(carrier.captured(taken.stream())?.head())?;
        if redirects.slots[slot as usize].past.count >= redirects.hops_max {
            let max = redirects.hops_max;
            return redirects
                .fails_beyond_max
                .then_some(Redirect::Next(Err(Reason::RedirectLimit(max))));
        }
        let from = redirected(taken)?;
        let now = self.transport.sockets().cached_now();
        let jar = self.cookies.as_ref().map(|cookies| cookies.of(slot, now));
        // With cookies, the same redirect leads to different requests.
        if jar.is_none()
            && let Some(next) = redirects.cached(from, status, location)
        {
            return Some(Redirect::Next(next));
        }
        let request = taken.request(&self.spec.requests)?;
        let redirect = redirects.resolve(self.spec, request, status, location, jar)?;
        if let Redirect::Next(next) = &redirect
            && jar.is_none()
            && location.len() <= LOCATION_BYTES_MAX
        {
            let cached = CachedRedirect {
                status,
                location: location.to_vec(),
                next: next.clone(),
            };
            redirects.cache(from, cached);
        }
        Some(redirect)
    }

    /// Removes a redirected request from its connection.
    fn end_hop(&mut self, slot: u32, now: Nanos) {
        self.take_back_unsent(slot);
        let taken = self.dispatcher.slot(slot);
        let session = self.connections[taken.connection].session();
        let (Some(session), Some(redirects)) = (session, &mut self.redirects) else {
            return;
        };
        let received = session.carrier.received(taken.stream());
        let past = &mut redirects.slots[slot as usize].past;
        past.count += 1;
        past.bytes_in += received.bytes;
        past.body_bytes_in += received.body_bytes;
        self.dispatcher.requeue(slot, false);
        self.sink.recorder.redirected(now);
    }

    /// Replaces a slot's request with `next`.
    fn redirect(&mut self, slot: u32, next: Arc<Request>, now: Nanos) {
        self.learn_target(next.target);
        self.end_hop(slot, now);
        let taken = self.dispatcher.slot_mut(slot);
        let has_other_target = next.target != self.connections[taken.connection].target;
        taken.own = Some(next);
        if has_other_target {
            self.dispatcher.defer_until_idle(slot);
        }
    }

    /// Defers a slot's request until the host of its redirect is looked up.
    fn wait_for_lookup(&mut self, slot: u32, lookup: TargetLookup, now: Nanos) {
        let taken = self.dispatcher.slot(slot);
        let session = self.connections[taken.connection].session();
        let (Some(session), Some(redirects)) = (session, &mut self.redirects) else {
            return;
        };
        let captured = session.carrier.captured(taken.stream());
        let location = captured.and_then(|captured| location_of(captured.head()));
        let received = session.carrier.received(taken.stream());
        redirects.slots[slot as usize].lookup = Some(Box::new(PendingRedirect {
            lookup,
            deadline: now + Nanos::from(LOOKUP_TIMEOUT),
            status: received.status.unwrap_or(0),
            location: location.unwrap_or_default().to_vec(),
        }));
        self.end_hop(slot, now);
        self.dispatcher.defer_until_idle(slot);
    }

    /// Continues a deferred request if its lookup is done. Returns true if it still has to wait.
    ///
    /// # Errors
    ///
    /// Returns the reason why the request fails.
    pub(super) fn poll_lookup(&mut self, slot: u32, now: Nanos) -> Result<bool, Reason> {
        let Some(redirects) = &mut self.redirects else {
            return Ok(false);
        };
        let lookup = &mut redirects.slots[slot as usize].lookup;
        let result = match lookup {
            None => return Ok(false),
            Some(pending) => pending.lookup.result(),
        };
        let is_over =
            |pending: &mut Box<PendingRedirect>| result.is_some() || now >= pending.deadline;
        let Some(pending) = lookup.take_if(is_over) else {
            return Ok(true);
        };
        let taken = self.dispatcher.slot(slot);
        let (Some(request), Some(from)) = (taken.request(&self.spec.requests), redirected(taken))
        else {
            return Ok(false);
        };
        let PendingRedirect {
            status, location, ..
        } = *pending;
        let origin = request.origin.as_ref().map(|origin| &origin.url);
        let to = origin.map(|url| location::resolve(url, &location));
        let now = self.transport.sockets().cached_now();
        let jar = self.cookies.as_ref().map(|cookies| cookies.of(slot, now));
        let next = match (to, result) {
            (Some(Ok(to)), Some(Ok(target))) => {
                next_request(self.spec, request, status, (to, target), jar)
            }
            (Some(Ok(to)), None) => Err(text_reason(&writer::timed_out(&to.host))),
            (Some(Err(error)), _) => Err(text_reason(&error)),
            (_, Some(Err(error))) => Err(text_reason(&error)),
            (None, _) => return Ok(false),
        };
        if jar.is_none() {
            let cached = CachedRedirect {
                status,
                location,
                next: next.clone(),
            };
            redirects.cache(from, cached);
        }
        let next = next?;
        self.learn_target(next.target);
        self.dispatcher.slot_mut(slot).own = Some(next);
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::LoadSettings;

    #[test]
    fn cached_redirects_take_bounded_memory() {
        let options = LoadSettings::from_flags("-c 1 --follow 5");
        let spec = options.resolve(Some("http://127.0.0.1:1/")).unwrap();
        let mut redirects = Redirects::new(&spec, 1).unwrap();
        for number in 0..50_000_u32 {
            let redirect = CachedRedirect {
                status: 302,
                location: vec![b'x'; LOCATION_BYTES_MAX],
                next: Err(Reason::Text("unused".to_owned())),
            };
            redirects.cache((RequestId::Listed(number % 1_000), None), redirect);
            if number % 1_000 == 0 {
                let cached = redirects.cache.values().flat_map(|cached| &cached.list);
                let bytes: usize = cached.map(CachedRedirect::bytes).sum();
                assert_eq!(bytes, redirects.cached_bytes);
                assert!(bytes <= CACHED_BYTES_MAX);
            }
        }
    }
}
