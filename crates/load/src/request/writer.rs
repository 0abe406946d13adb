//! Requests that are created before or during the load.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use prony_protocol::h1::{self, Expects};
use prony_record::number;

use crate::exchange::RequestKind;
use crate::request::draft::RequestDraft;
use crate::request::encodings::Encodings;
use crate::request::protocols::Http;
use crate::request::request_list::{Requests, target_of};
use crate::request::{Request, encode};
use crate::settings::{AddressOrder, LoadSettings};
use crate::target::http_proxy::ResolvedProxy;
use crate::target::resolve::{FixedAddress, Resolver};
use crate::target::source::Sources;
use crate::target::{Address, Target, TargetIndices};
use crate::tls;
use crate::values::error::SpecError;
use crate::values::lookup::{LOOKUP_TIMEOUT, Lookup, LookupPool};
use crate::values::permits::Permits;
use crate::values::url::Url;

/// Maximum number of failed lookups that are cached.
const FAILURES_MAX: usize = 1024;

/// A lookup that yields the index of a target.
pub(crate) type TargetLookup = Lookup<Result<u32, SpecError>>;

/// The target of a URL, as far as it can be determined without waiting.
pub(crate) enum TargetState {
    /// Index of the target.
    Known(u32),
    /// The host is being looked up.
    LookingUp(TargetLookup),
    /// Too many other hosts are being looked up.
    Busy,
}

/// Serializes requests for a load, before and while it runs; see
/// [`LoadSpec::writer`](crate::LoadSpec::writer). Clones share their targets and lookups.
#[derive(Clone)]
pub struct Writer(Arc<Inner>);

struct Inner {
    settings: LoadSettings,
    permits: Option<Permits>,
    /// URL of the load, or the first one in its list.
    base: Url,
    fixed: Vec<FixedAddress>,
    sources: Sources,
    proxy: Option<ResolvedProxy>,
    known: Mutex<KnownTargets>,
    tls: OnceLock<Result<Arc<tls::TlsSettings>, SpecError>>,
    pool: LookupPool,
}

/// Known targets and lookups; targets are only ever added.
struct KnownTargets {
    targets: Vec<Arc<Target>>,
    indices: TargetIndices,
    /// Lookups that have not finished.
    lookups: HashMap<Address, TargetLookup>,
    /// Errors of failed lookups. These lookups are not repeated.
    failures: HashMap<Address, SpecError>,
}

impl Writer {
    /// Creates a writer for a load with these targets.
    pub(crate) fn new(
        settings: &LoadSettings,
        permits: Option<Permits>,
        sources: Sources,
        requests: &Requests,
    ) -> Result<Writer, SpecError> {
        Ok(Writer(Arc::new(Inner {
            settings: settings.clone(),
            permits,
            base: requests.base.clone(),
            fixed: FixedAddress::all(&settings.resolve)?,
            sources,
            proxy: requests.proxy.clone(),
            known: Mutex::new(KnownTargets {
                targets: requests.targets.iter().cloned().map(Arc::new).collect(),
                indices: requests.indices.clone(),
                lookups: HashMap::new(),
                failures: HashMap::new(),
            }),
            tls: OnceLock::new(),
            pool: LookupPool::default(),
        })))
    }

    pub(crate) fn settings(&self) -> &LoadSettings {
        &self.0.settings
    }

    /// Serializes a request with only these headers: those in the load's settings are not added.
    /// Host, User-Agent, Accept and the length of a body are added unless `headers` contains them.
    ///
    /// The URL may be a path that begins with `/`, on the host of the load's own URL. A host that
    /// is new to the load is looked up once, which blocks the calling thread for up to five
    /// seconds.
    ///
    /// # Errors
    ///
    /// Fails if the URL is invalid, if its host has no address, if the address is public and
    /// `--public` is not set, or if method, headers or body are not valid HTTP.
    pub fn request(
        &self,
        method: &str,
        url: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Result<Arc<Request>, SpecError> {
        let url = Url::parse(url, Some(&self.0.base))?;
        self.write(method, url, headers, body)
    }

    /// Like [`Writer::request`], for a parsed URL.
    pub(crate) fn write(
        &self,
        method: &str,
        url: Url,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Result<Arc<Request>, SpecError> {
        let target = self.target_of(&url)?;
        self.write_to(target, method, url, headers, body)
    }

    /// Like [`Writer::write`], for a known target.
    pub(crate) fn write_to(
        &self,
        target: u32,
        method: &str,
        url: Url,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Result<Arc<Request>, SpecError> {
        let draft = RequestDraft::plain(method, url, headers, body);
        let proxy = self.0.proxy.as_ref();
        encode(&draft, target, &self.0.settings, proxy).map(Arc::new)
    }

    /// Creates a request from bytes for HTTP/1, for the target of the load's own URL. The bytes are
    /// sent unchanged. `method` determines whether a body is expected in the response, and whether
    /// the request may be sent again. Over HTTP/2, the request fails with the outcome `protocol`.
    pub fn raw(&self, method: &str, bytes: Vec<u8>) -> Arc<Request> {
        self.raw_at(method, &self.0.base, 0, bytes)
    }

    /// Like [`Writer::raw`], but sends to the target of another URL. As with [`Writer::request`], the
    /// load need not have used that target before. The path of the URL appears only in results.
    ///
    /// # Errors
    ///
    /// Fails like [`Writer::request`] if the URL can't be used.
    pub fn raw_to(
        &self,
        url: &str,
        method: &str,
        bytes: Vec<u8>,
    ) -> Result<Arc<Request>, SpecError> {
        let url = Url::parse(url, Some(&self.0.base))?;
        let target = self.target_of(&url)?;
        Ok(self.raw_at(method, &url, target, bytes))
    }

    /// Starts to look up the host of a URL, unless it is known. Returns true if the result is
    /// known, even if the lookup failed. Until then, writing a request to the host blocks.
    ///
    /// # Errors
    ///
    /// Fails if the URL is invalid.
    pub fn look_up(&self, url: &str) -> Result<bool, SpecError> {
        let url = Url::parse(url, Some(&self.0.base))?;
        Ok(match self.find_target(&url) {
            // A failed lookup is reported when a request to the host is written.
            Ok(TargetState::Known(_)) | Err(_) => true,
            Ok(TargetState::LookingUp(_) | TargetState::Busy) => false,
        })
    }

    /// Turns raw bytes into a batch of `count` pipelined requests. The requests must all have the
    /// same method, or all of their responses must have bodies. They are sent together, and their
    /// responses arrive in order on the same connection. The load counts the batch as one request,
    /// from the first byte sent to the end of the last response. A script receives each response
    /// when it arrives.
    pub fn batch(&self, request: Arc<Request>, count: u32) -> Arc<Request> {
        let request = Arc::unwrap_or_clone(request);
        // A later request of the batch may be the one that asks for the close. A blank line ends a
        // head, so the next head follows it or a body.
        let bytes = request.http1();
        let closes = (4..bytes.len())
            .filter(|&start| bytes[..start].ends_with(b"\r\n\r\n"))
            .any(|start| h1::asks_to_close(&bytes[start..]));
        Arc::new(Request {
            closes: request.closes || closes,
            kind: if count > 1 {
                RequestKind::Batch(count)
            } else {
                RequestKind::Single
            },
            ..request
        })
    }

    fn raw_at(&self, method: &str, url: &Url, target: u32, bytes: Vec<u8>) -> Arc<Request> {
        Arc::new(Request {
            closes: h1::asks_to_close(&bytes),
            encodings: Encodings::Http1(bytes),
            expects: match method {
                "CONNECT" => Expects::Connect,
                _ => Request::expects(method),
            },
            ..Request::unwritten(method, &url.text(), target)
        })
    }

    fn known(&self) -> MutexGuard<'_, KnownTargets> {
        // The lock can't be poisoned: no code that panics runs while it is held.
        self.0
            .known
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the index of a URL's target. Waits for the lookup of its host, but not longer than
    /// [`LOOKUP_TIMEOUT`].
    fn target_of(&self, url: &Url) -> Result<u32, SpecError> {
        match self.find_target(url)? {
            TargetState::Known(index) => Ok(index),
            TargetState::LookingUp(lookup) => {
                lookup.wait().unwrap_or_else(|| Err(timed_out(&url.host)))
            }
            TargetState::Busy => Err(busy(&url.host)),
        }
    }

    /// Finds the target of a URL. A host that is new to the load is looked up on a separate thread.
    ///
    /// # Errors
    ///
    /// Fails like [`Writer::request`] if the URL can't be used.
    pub(crate) fn find_target(&self, url: &Url) -> Result<TargetState, SpecError> {
        let base = &self.0.base;
        if (url.tls, url.port) == (base.tls, base.port) && url.host == base.host {
            return Ok(TargetState::Known(0));
        }
        let address = (url.host.clone(), url.port, url.tls);
        let mut known = self.known();
        if let Some(&index) = known.indices.get(&address) {
            return Ok(TargetState::Known(index));
        }
        if let Some(lookup) = known.lookups.get(&address) {
            return Ok(TargetState::LookingUp(lookup.clone()));
        }
        if let Some(error) = known.failures.get(&address) {
            return Err(error.clone());
        }
        if !self.needs_lookup(url) {
            drop(known);
            return self.add_target(url).map(TargetState::Known);
        }
        let (writer, requested) = (self.clone(), url.clone());
        // The lookup can't finish before it is added to `lookups`, because the lock is held.
        let lookup = self.0.pool.start(move || {
            let found = writer.add_target(&requested);
            let address = (requested.host, requested.port, requested.tls);
            let mut known = writer.known();
            known.lookups.remove(&address);
            if let Err(error) = &found {
                if known.failures.len() >= FAILURES_MAX {
                    known.failures.clear();
                }
                known.failures.insert(address, error.clone());
            }
            drop(known);
            found
        });
        let Some(lookup) = lookup else {
            return Ok(TargetState::Busy);
        };
        known.lookups.insert(address, lookup.clone());
        Ok(TargetState::LookingUp(lookup))
    }

    /// Returns true if a URL's host may need a lookup.
    fn needs_lookup(&self, url: &Url) -> bool {
        let is_address = url.host.parse::<IpAddr>().is_ok();
        let is_fixed = self.0.fixed.iter().any(|fixed| fixed.is_for(url));
        !is_address && !is_fixed && self.0.settings.unix.is_none()
    }

    /// Resolves a URL's host and adds it to the targets.
    fn add_target(&self, url: &Url) -> Result<u32, SpecError> {
        let address = (url.host.clone(), url.port, url.tls);
        // The lock is not held during the lookup; another thread may add the target first.
        let new = self.new_target(url)?;
        let mut known = self.known();
        let next = known.targets.len() as u32;
        let same = match self.0.proxy {
            Some(_) => known.targets.iter().position(|it| it.is_same_clear(&new)),
            None => None,
        };
        let new_index = same.map_or(next, |same| same as u32);
        let index = *known.indices.entry(address).or_insert(new_index);
        if index == next {
            known.targets.push(Arc::new(new));
        }
        Ok(index)
    }

    /// Returns true if a URL's host has been looked up or is being looked up.
    pub(crate) fn is_known(&self, url: &Url) -> bool {
        let address = (url.host.clone(), url.port, url.tls);
        let known = self.known();
        known.indices.contains_key(&address) || known.lookups.contains_key(&address)
    }

    fn new_target(&self, url: &Url) -> Result<Target, SpecError> {
        let proxy = self.0.proxy.as_ref();
        let target = target_of(url, &self.0.settings, &self.resolver(), proxy)?;
        if url.tls {
            self.tls()?;
        }
        Ok(target)
    }

    fn resolver(&self) -> Resolver<'_> {
        Resolver {
            fixed: &self.0.fixed,
            sources: &self.0.sources,
            public: self.0.settings.public,
            permits: self.0.permits.as_ref(),
        }
    }

    /// Looks up the addresses of a URL's host that connections use, if these are found and allowed.
    /// `in_use` contains the current ones.
    pub(crate) fn addresses_again(
        &self,
        url: &Url,
        in_use: &[SocketAddr],
    ) -> Option<Vec<SocketAddr>> {
        let resolver = self.resolver();
        let found = resolver.suited(url).ok()?;
        match self.0.settings.addresses.unwrap_or_default() {
            AddressOrder::All | AddressOrder::Random => Some(found),
            AddressOrder::First if in_use.iter().any(|it| found.contains(it)) => {
                Some(in_use.to_vec())
            }
            AddressOrder::First => {
                let peer = match Http::of(&self.0.settings) {
                    Http::Three => resolver.quic_peer(url),
                    Http::One | Http::Two | Http::Agreed => resolver.peer(url),
                };
                Some(vec![peer.ok()?.address()?])
            }
        }
    }

    /// Appends the targets that `targets` doesn't contain yet.
    pub(crate) fn append_new_targets(&self, targets: &mut Vec<Arc<Target>>) {
        let known = self.known();
        let new = known.targets.get(targets.len()..).unwrap_or_default();
        targets.extend_from_slice(new);
    }

    /// TLS settings for the targets that use TLS.
    pub(crate) fn tls(&self) -> Result<Arc<tls::TlsSettings>, SpecError> {
        let settings = || tls::TlsSettings::resolve(&self.0.settings).map(Arc::new);
        self.0.tls.get_or_init(settings).clone()
    }
}

/// Returns the error for a name whose lookup takes too long.
pub(crate) fn timed_out(host: &str) -> SpecError {
    SpecError::Name {
        host: host.to_owned(),
        error: format!(
            "the name server did not respond within {}",
            number::span(LOOKUP_TIMEOUT.as_secs_f64())
        ),
    }
}

/// Returns the error for a name that can't be looked up now because too many lookups are in
/// progress.
pub(crate) fn busy(host: &str) -> SpecError {
    SpecError::Name {
        host: host.to_owned(),
        error: "too many other names are being looked up".to_owned(),
    }
}
