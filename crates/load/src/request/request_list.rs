//! Requests of a load, from the command line or from a list, with their targets.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::ServerName;

use crate::exchange::{CallRules, RequestKind};
use crate::replay::Replay;
use crate::request::draft::{DraftList, RequestDraft, base_url, drafts};
use crate::request::entries::Entries;
use crate::request::journey::Journey;
use crate::request::long_list::LongList;
use crate::request::protocols::Http;
use crate::request::request_template::{RequestTemplate, RequestTemplates};
use crate::request::scope::LoadScope;
use crate::request::websocket::{Upgrade, encode_message};
use crate::request::{Request, encode};
use crate::settings::{AddressOrder, HttpVersion, LoadSettings, RequestOrder};
use crate::socket::Peer;
use crate::target::addresses::NamedAddresses;
use crate::target::http_proxy::ResolvedProxy;
use crate::target::resolve::{FixedAddress, Resolver};
use crate::target::source::Sources;
use crate::target::{Target, TargetIndices};
use crate::values::credentials::Credentials;
use crate::values::error::{SettingsError, SpecError};
use crate::values::status_set::StatusSet;
use crate::values::url::{self, Url};

/// Header that carries the client's credentials.
const AUTHORIZATION: &str = "Authorization";
/// Header that carries the cookies of a user.
const COOKIE: &str = "Cookie";

/// The serialized requests of a load.
pub(crate) struct Requests {
    /// The requests or, if there is a long list, the forms of its lines.
    pub(crate) requests: Vec<Request>,
    pub(crate) long_list: Option<LongList>,
    /// Templates of the requests that differ each time they are sent, if there are any.
    pub(crate) templates: Option<RequestTemplates>,
    /// Weights of the requests, if any request of the list has one.
    pub(crate) weights: Option<Vec<f64>>,
    /// Statuses that count as success, for requests (or forms) that have their own; empty if none
    /// has.
    pub(crate) expected_statuses: Vec<Option<StatusSet>>,
    pub(crate) targets: Vec<Target>,
    /// Index of each target, by address.
    pub(crate) indices: TargetIndices,
    /// URL of the load, or the first one in its list.
    pub(crate) base: Url,
    /// The handshake of WebSockets, if the requests are their messages.
    pub(crate) websocket: Option<Arc<Upgrade>>,
    /// The HTTP proxy, if there is one.
    pub(crate) proxy: Option<ResolvedProxy>,
    /// The journey whose steps the requests are, if the load is one.
    pub(crate) journey: Option<Journey>,
    /// Rules for the responses of gRPC calls, if requests are calls.
    pub(crate) calls: Option<CallRules>,
    /// The log whose requests are sent, if there is one.
    pub(crate) replay: Option<Replay>,
}

impl Requests {
    /// Groups the requests into entries.
    pub(crate) fn entries(&self) -> Entries {
        if let Some(journey) = &self.journey {
            return journey.entries();
        }
        if self.replay.is_some() {
            return Entries::default();
        }
        let forms = self.requests.iter().map(|it| (it.method(), it.url()));
        Entries::of(&Vec::from_iter(forms), self.long_list.as_ref())
    }
}

/// Serializes all requests of a load and determines their targets.
///
/// # Errors
///
/// Returns a [`SpecError`] that names the flag, or the file and line.
pub(crate) fn requests(
    url: Option<&str>,
    settings: &LoadSettings,
    scope: &LoadScope,
    sources: &Sources,
) -> Result<Requests, SpecError> {
    let fixed = FixedAddress::all(&settings.resolve)?;
    let resolver = Resolver {
        fixed: &fixed,
        sources,
        public: settings.public,
        permits: scope.permits.as_ref(),
    };
    let proxy = ResolvedProxy::new(settings, &resolver)?;
    let proxy = proxy.as_ref();
    let mut list = drafts(url, settings, scope.braces)?;
    let authorization = Authorization::new(url, settings)?;
    check_weights(&list, settings)?;
    let rows = list.rows;
    let mut indices = TargetIndices::new();
    let mut base = None;
    let mut targets: Vec<Target> = Vec::new();
    let mut requests = Vec::new();
    let mut templates = Vec::new();
    let mut expected_statuses = Vec::new();
    let mut websocket = None;
    for mut draft in std::mem::take(&mut list.drafts) {
        let address = (draft.url.host.clone(), draft.url.port, draft.url.tls);
        let target = match indices.get(&address) {
            Some(&index) => index,
            None => {
                let new = target_of(&draft.url, settings, &resolver, proxy)?;
                let index = match proxy {
                    // All cleartext targets behind the proxy share their connections.
                    Some(_) => targets.iter().position(|it| it.is_same_clear(&new)),
                    None => None,
                };
                let index = index.unwrap_or_else(|| {
                    targets.push(new);
                    targets.len() - 1
                });
                indices.insert(address, index as u32);
                index as u32
            }
        };
        let own = authorization.as_ref().filter(|it| it.is_for(&draft.url));
        draft.headers.extend(own.map(Authorization::header));
        check_cookies(&draft, settings)?;
        check_early_data(&draft, settings)?;
        if draft.url.is_websocket {
            // A pong or a close frame may follow a message that has not been acknowledged.
            targets[target as usize].nodelay = true;
            if websocket.is_none() {
                websocket = Some(Arc::new(Upgrade::new(&draft, settings)?));
            }
        }
        let is_message = websocket.is_some() && settings.has_messages();
        let (mut request, template) = if is_message {
            let request = encode_message(&draft, target, settings);
            (request, RequestTemplate::of_message(&draft))
        } else {
            let request = encode(&draft, target, settings, proxy)?;
            let template = RequestTemplate::of(&draft, &request, settings, proxy)?;
            (request, template)
        };
        if let (Some(template), None) = (&template, &list.long_list) {
            let seed = settings.seed.unwrap_or(0);
            template.first(requests.len(), rows, seed, &mut request);
        }
        // A request with placeholders or cookies may also need more than one TCP segment.
        targets[target as usize].nodelay |= request.is_long() || template.is_some();
        if let Some(journey) = &list.journey
            && settings.events.is_some()
            && !journey.steps[requests.len()].stream
        {
            request.kind = RequestKind::Unstreamed;
        }
        if list.calls.is_some() {
            request.kind = draft.call.unwrap_or(RequestKind::Unstreamed);
        }
        requests.push(request);
        templates.push(template);
        expected_statuses.push(draft.expect_status);
        base.get_or_insert(draft.url);
    }
    if expected_statuses.iter().all(Option::is_none) {
        expected_statuses.clear();
    } else if list.journey.as_ref().is_some_and(Journey::has_pages) {
        // The parts of pages follow the steps.
        expected_statuses.push(None);
    }
    match base {
        Some(base) => Ok(Requests {
            requests,
            templates: RequestTemplates::new(templates, rows),
            weights: list.weights,
            long_list: list.long_list,
            expected_statuses,
            targets,
            indices,
            base,
            websocket,
            proxy: proxy.cloned(),
            journey: list.journey,
            calls: list.calls,
            replay: list.replay,
        }),
        None => Err(SettingsError::from("there are no requests to send").into()),
    }
}

/// Checks that the method of a request is allowed in early data, which an attacker can replay (RFC
/// 8470 §2.1).
fn check_early_data(draft: &RequestDraft, settings: &LoadSettings) -> Result<(), SettingsError> {
    if !settings.early_data || matches!(draft.method.as_str(), "GET" | "HEAD") {
        return Ok(());
    }
    let error = SettingsError::of("early_data").text(format!(
        " is for GET and HEAD only, because early data can be replayed; this load sends {}",
        draft.method
    ));
    let error = error.hint_in_parentheses("remove ").name("early_data");
    Err(error.at(&draft.place))
}

/// Checks that no header sets the cookies of a request whose user has a cookie jar.
fn check_cookies(draft: &RequestDraft, settings: &LoadSettings) -> Result<(), SettingsError> {
    let is_cookie = |(name, _): &(String, String)| name.trim().eq_ignore_ascii_case(COOKIE);
    if !settings.uses_cookies() || !draft.headers.iter().any(is_cookie) {
        return Ok(());
    }
    let error = SettingsError::of("cookies").text(" and the header ");
    let error = if settings.header.iter().any(|line| {
        let name = line.split(':').next().unwrap_or_default();
        name.trim().eq_ignore_ascii_case(COOKIE)
    }) {
        error.and_value("header", "'Cookie: …'")
    } else {
        error.text("Cookie")
    };
    let error = error.text(" can't be combined, because each user sends its own cookies");
    Err(error.hint("remove one of them").at(&draft.place))
}

/// Checks that the order of a list with weights regards them.
fn check_weights(list: &DraftList, settings: &LoadSettings) -> Result<(), SpecError> {
    if list.weights.is_some()
        && let Some(order) = settings.order
        && order != RequestOrder::Weighted
    {
        let error = SettingsError::about("urls")
            .text("a weight has no effect with ")
            .and_value("order", order)
            .hint("remove one of them")
            .hint("use ")
            .and_value("order", RequestOrder::Weighted);
        return Err(error.at(&list.weight_place).into());
    }
    Ok(())
}

/// Basic authentication and the requests that it applies to.
struct Authorization {
    credentials: Credentials,
    /// Server whose URL contains the credentials; `None` for `--user`, which applies to every
    /// server of the load.
    only: Option<Url>,
}

impl Authorization {
    /// Creates the authorization that the settings or the load's own URL specify. A typed
    /// Authorization header takes precedence over credentials in the URL.
    fn new(url: Option<&str>, settings: &LoadSettings) -> Result<Option<Authorization>, SpecError> {
        let mut names = settings
            .header
            .iter()
            .filter_map(|line| line.split_once(':'));
        let is_typed = names.any(|(name, _)| name.trim().eq_ignore_ascii_case(AUTHORIZATION));
        if let Some(credentials) = &settings.user {
            if is_typed {
                let error = SettingsError::of("user").text(" and ");
                let error = error.and_value("header", "'Authorization: …'");
                let error = error.text(" set the same header");
                return Err(error.hint("remove one of them").into());
            }
            return Ok(Some(Authorization {
                credentials: credentials.clone(),
                only: None,
            }));
        }
        let Some((url, Some(credentials))) = url.map(base_url).transpose()? else {
            return Ok(None);
        };
        Ok((!is_typed).then_some(Authorization {
            credentials,
            only: Some(url),
        }))
    }

    fn is_for(&self, url: &Url) -> bool {
        let Some(own) = &self.only else { return true };
        (own.tls, own.port, &own.host) == (url.tls, url.port, &url.host)
    }

    fn header(&self) -> (String, String) {
        (AUTHORIZATION.to_owned(), self.credentials.basic())
    }
}

/// Determines the target of requests for a URL.
pub(crate) fn target_of(
    url: &Url,
    settings: &LoadSettings,
    resolver: &Resolver,
    proxy: Option<&ResolvedProxy>,
) -> Result<Target, SpecError> {
    let peer = match (&settings.unix, proxy) {
        (Some(path), _) => {
            let name = format!("unix:{}", path.display());
            let permitted = resolver.permits.map_or(Ok(()), |it| it.ask(&name, None));
            permitted?;
            unix_peer(path)?
        }
        (None, Some(proxy)) => {
            proxy.judge(url, resolver)?;
            proxy.peer().clone()
        }
        (None, None) => match Http::of(settings) {
            Http::Three => resolver.quic_peer(url)?,
            Http::One | Http::Two | Http::Agreed => resolver.peer(url)?,
        },
    };
    let tunnel = match proxy {
        Some(proxy) if url.tls => Some(proxy.tunnel(url)?),
        Some(_) if Http::of(settings) == Http::Two => {
            let error = SettingsError::of("proxy").text(" with ");
            let error = error.and_value("http", HttpVersion::Http2);
            let error = error.text(": through a proxy, HTTP/2 needs TLS (a tunnel)");
            let error = error.hint("use https:// URLs");
            return Err(error.hint("remove one of the two settings").into());
        }
        _ => None,
    };
    let sni = settings.sni.as_ref();
    let sni = sni.map(|text| url::ascii_host(text).unwrap_or_else(|| text.clone()));
    let name = sni.as_ref().unwrap_or(&url.host);
    let tls = url
        .tls
        .then(|| ServerName::try_from(name.clone()))
        .transpose()
        .map_err(|_| {
            let error = match settings.sni {
                Some(_) => SettingsError::about("sni"),
                None => SettingsError::from(""),
            };
            error.text(format!("\"{name}\" is not a valid TLS server name"))
        })?;
    let nodelay = tls.is_some() || Http::of(settings) == Http::Two;
    let named = match (&peer, proxy, &settings.unix) {
        (Peer::Tcp(address) | Peer::Quic(address), None, None) if settings.uses_address_book() => {
            Some(Box::new(NamedAddresses {
                url: url.clone(),
                list: match settings.addresses.unwrap_or_default() {
                    AddressOrder::First => vec![*address],
                    AddressOrder::All | AddressOrder::Random => resolver.suited(url)?,
                },
            }))
        }
        _ => None,
    };
    Ok(Target {
        peer,
        named,
        tls,
        tunnel,
        nodelay,
    })
}

fn unix_peer(path: &Path) -> Result<Peer, SpecError> {
    match socket2::SockAddr::unix(path) {
        Ok(_) => Ok(Peer::Unix(path.to_owned())),
        Err(_) => Err(SettingsError::value("unix", path.display())
            .text(": the path of a UNIX socket can have at most 107 bytes")
            .into()),
    }
}
