//! A blocking interface to the NATS server.
//!
//! The NATS client is asynchronous. It runs on a separate thread, which no load worker uses.
//! Functions of this module block the calling thread for a limited time.

mod stored;

use std::fmt;
use std::future::Future;
use std::net::{IpAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::jetstream;
use async_nats::rustls::{self, pki_types::CertificateDer, pki_types::pem::PemObject};
use async_nats::{Client, ConnectOptions};
use bytes::Bytes;
use futures_util::{StreamExt, future};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::credentials::{FleetCredentials, KeyFile};
use crate::permissions::Role;
pub use stored::{REGISTRATION_TTL, StoredMessages, stream_of};

/// Timeout for a response from the server.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which a request checks whether it was canceled.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Error of the connection to the NATS server, or reason why the server rejected a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkError {
    /// The credentials can't be used.
    Credentials(String),
    /// The connection failed.
    Connect {
        /// URL of the server.
        server: String,
        /// Reason for the failure.
        why: String,
        /// True if another attempt may succeed. False if the server rejected the credentials or has
        /// a certificate from another authority.
        retryable: bool,
    },
    /// The subject has no subscriber: the agent doesn't exist or is not connected.
    NoResponders(String),
    /// No response arrived in time.
    Timeout {
        /// Subject of the request, or a description of the requested data.
        subject: String,
        /// URL of the server.
        server: String,
    },
    /// The server rejected the request with this message.
    Refused(String),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Credentials(why) => write!(f, "the credentials can't be used: {why}"),
            LinkError::Connect { server, why, .. } => {
                write!(f, "no connection to the NATS server {server}: {why}")
            }
            LinkError::NoResponders(subject) => match subject.strip_prefix("prony.agent.") {
                Some(rest) => {
                    let agent = rest.split('.').next().unwrap_or_default();
                    write!(
                        f,
                        "agent {agent} is not connected (is `prony agent` running on its machine?)"
                    )
                }
                None => write!(f, "no subscriber to {subject}"),
            },
            LinkError::Timeout { subject, server } => {
                write!(
                    f,
                    "{subject}: no response from the NATS server {server} in time"
                )
            }
            LinkError::Refused(why) => write!(f, "the NATS server rejected the request: {why}"),
        }
    }
}

impl std::error::Error for LinkError {}

/// A received message.
#[derive(Debug, Clone)]
pub struct NatsMessage {
    /// Subject of the message.
    pub subject: String,
    /// Subject for the reply, if the sender expects one.
    pub reply: Option<String>,
    /// Content of the message.
    pub payload: Bytes,
}

/// A connection that reconnects automatically.
pub struct NatsLink {
    // The runtime must be dropped last, because the client's tasks run on it.
    client: Client,
    jetstream: jetstream::Context,
    /// URL of the server. If there are several, they are separated by commas.
    server: String,
    /// Secret prefix in the identifiers of stored messages. Anybody who knew it could use an
    /// identifier in advance, and the server would then drop the real message as a duplicate.
    numbers: String,
    /// Time at which the server started to reject the credentials; `None` while it accepts them.
    refused_since: Arc<Mutex<Option<Instant>>>,
    runtime: Arc<Runtime>,
}

/// A subscription to one or more subjects.
pub struct Subscription {
    messages: async_nats::Subscriber,
    runtime: Arc<Runtime>,
}

impl NatsLink {
    /// Connects as `role` to this server or, by default, to those in the credentials.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn connect(
        server: Option<&str>,
        credentials: &FleetCredentials,
        role: &Role,
    ) -> Result<NatsLink, LinkError> {
        if let FleetCredentials::Key(file) = credentials
            && file.role() != *role
        {
            // With the wrong role, the server would silently ignore every message.
            let why = format!("they are for {}, and {role} needs its own", file.role());
            return Err(LinkError::Credentials(why));
        }
        let named = match credentials {
            FleetCredentials::Key(file) => file.servers.join(","),
            FleetCredentials::Jwt(_) => String::new(),
        };
        let server = server.unwrap_or(&named).to_owned();
        if server.is_empty() {
            let why = "they name no server; name one with --nats, such as tls://10.0.0.1:4222";
            return Err(LinkError::Credentials(why.to_owned()));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("nats")
            .enable_all()
            .build()
            .map_err(|error| {
                LinkError::Refused(format!("can't start a thread for NATS: {error}"))
            })?;
        let refused_since = Arc::<Mutex<Option<Instant>>>::default();
        let noted = refused_since.clone();
        let options = options(credentials, role)?.event_callback(move |event| {
            let mut since = noted.lock().unwrap_or_else(PoisonError::into_inner);
            match is_refusal(&event) {
                Some(true) => drop(since.get_or_insert_with(Instant::now)),
                Some(false) => *since = None,
                None => {}
            }
            future::ready(())
        });
        let failed = |why: String, retryable| LinkError::Connect {
            server: server.clone(),
            why,
            retryable,
        };
        let addresses: Vec<&str> = server.split(',').collect();
        let client = runtime
            .block_on(async { timeout(2 * RESPONSE_TIMEOUT, options.connect(addresses)).await })
            .map_err(|_| failed("no response in time".to_owned(), true))?
            .map_err(|error| failed(with_causes(&error), retryable(&error)))?;
        // The context can only be created within the runtime, because it starts a task.
        let entered = runtime.enter();
        let jetstream = jetstream::ContextBuilder::new()
            .timeout(RESPONSE_TIMEOUT)
            .build(client.clone());
        drop(entered);
        Ok(NatsLink {
            client,
            jetstream,
            server,
            numbers: format!("{:032x}", rand::random::<u128>()),
            refused_since,
            runtime: Arc::new(runtime),
        })
    }

    /// Returns true if the connection is up.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }

    /// Returns the URL of the server. If there are several, they are separated by commas.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns true if the server itself responds to a request, which only a coordinator may send.
    /// This distinguishes an unreachable server from a silent agent, even if the connection seems
    /// to be up.
    pub fn server_responds(&self, within: Duration) -> bool {
        self.is_connected() && self.request("$JS.API.INFO", "", within).is_ok()
    }

    fn timeout_error(&self, subject: &str) -> LinkError {
        LinkError::Timeout {
            subject: subject.to_owned(),
            server: self.server.clone(),
        }
    }

    /// Returns how long the server has been rejecting the credentials at every attempt to
    /// reconnect. Returns zero if the server accepts them or is unreachable.
    pub fn refused_for(&self) -> Duration {
        let since = self.refused_since.lock();
        let since = *since.unwrap_or_else(PoisonError::into_inner);
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns the address of this machine as the server sees it, or `None` behind network address
    /// translation.
    pub fn local_address(&self) -> Option<IpAddr> {
        let seen: IpAddr = self.client.server_info().client_ip.parse().ok()?;
        // Binding succeeds only for an address of this machine.
        UdpSocket::bind((seen, 0)).is_ok().then_some(seen)
    }

    fn wait<T, E: std::error::Error>(
        &self,
        what: &str,
        within: Duration,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<T, LinkError> {
        match self
            .runtime
            .block_on(async { timeout(within, future).await })
        {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(LinkError::Refused(format!(
                "{what}: {}",
                with_causes(&error)
            ))),
            Err(_) => Err(self.timeout_error(what)),
        }
    }

    /// Sends a request and waits for the reply.
    ///
    /// # Errors
    ///
    /// If the subject has no subscriber, returns [`LinkError::NoResponders`] immediately. For other
    /// errors, see [`LinkError`].
    pub fn request(
        &self,
        subject: &str,
        payload: impl Into<Bytes>,
        within: Duration,
    ) -> Result<Bytes, LinkError> {
        self.runtime
            .block_on(self.send_request(subject, payload.into(), within))
    }

    async fn send_request(
        &self,
        subject: &str,
        payload: Bytes,
        within: Duration,
    ) -> Result<Bytes, LinkError> {
        let request = async_nats::Request::new()
            .payload(payload)
            .timeout(Some(within));
        match self.client.send_request(subject.to_owned(), request).await {
            Ok(message) => Ok(message.payload),
            Err(error) => Err(match error.kind() {
                async_nats::RequestErrorKind::NoResponders => {
                    LinkError::NoResponders(subject.to_owned())
                }
                async_nats::RequestErrorKind::TimedOut => self.timeout_error(subject),
                _ => LinkError::Refused(format!("{subject}: {}", with_causes(&error))),
            }),
        }
    }

    /// Sends several requests at the same time and waits for all replies, which are returned in the
    /// order of the requests. Request number `i` is canceled when `is_given_up(i)` returns true.
    ///
    /// # Errors
    ///
    /// For each request, the same as [`NatsLink::request`].
    pub fn request_all(
        &self,
        questions: Vec<(String, Bytes)>,
        within: Duration,
        is_given_up: &dyn Fn(usize) -> bool,
    ) -> Vec<Result<Bytes, LinkError>> {
        let replies =
            questions
                .into_iter()
                .enumerate()
                .map(|(number, (subject, payload))| async move {
                    let given_up = async {
                        while !is_given_up(number) {
                            tokio::time::sleep(CANCEL_POLL_INTERVAL).await;
                        }
                    };
                    let asked = Box::pin(self.send_request(&subject, payload, within));
                    match future::select(asked, Box::pin(given_up)).await {
                        future::Either::Left((reply, _)) => reply,
                        future::Either::Right(_) => Err(self.timeout_error(&subject)),
                    }
                });
        self.runtime.block_on(future::join_all(replies))
    }

    /// Publishes a message without waiting for a reply.
    ///
    /// # Errors
    ///
    /// Returns an error if the message can't be sent.
    pub fn publish(&self, subject: &str, payload: impl Into<Bytes>) -> Result<(), LinkError> {
        let published = async {
            self.client
                .publish(subject.to_owned(), payload.into())
                .await?;
            // The client buffers messages, so they must be flushed.
            let _ = self.client.flush().await;
            Ok::<(), async_nats::PublishError>(())
        };
        self.wait(subject, RESPONSE_TIMEOUT, published)
    }

    /// Subscribes to a subject.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is unreachable. If the server rejects the subscription, no
    /// error is returned, but no messages arrive.
    pub fn subscribe(&self, subject: &str) -> Result<Subscription, LinkError> {
        let subscribed = self.client.subscribe(subject.to_owned());
        let messages = self.wait(subject, RESPONSE_TIMEOUT, subscribed)?;
        self.wait(subject, RESPONSE_TIMEOUT, self.client.flush())?;
        Ok(Subscription {
            messages,
            runtime: self.runtime.clone(),
        })
    }
}

impl fmt::Debug for NatsLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsLink")
            .field("is_up", &self.is_connected())
            .finish()
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscription")
    }
}

impl Subscription {
    /// Returns the next message, or `None` after a timeout or when the connection is closed.
    pub fn next(&mut self, within: Duration) -> Option<NatsMessage> {
        let next = self
            .runtime
            .block_on(async { timeout(within, self.messages.next()).await });
        let message = next.ok().flatten()?;
        Some(NatsMessage {
            subject: message.subject.to_string(),
            reply: message.reply.map(|reply| reply.to_string()),
            payload: message.payload,
        })
    }
}

/// Interprets an event: true means that the server rejects the credentials, false that it accepts
/// them. Returns `None` for other events.
fn is_refusal(event: &async_nats::Event) -> Option<bool> {
    match event {
        async_nats::Event::Connected => Some(false),
        // The client reports the reason only as text.
        async_nats::Event::ClientError(error) => {
            Some(error.to_string().contains("authorization violation"))
        }
        _ => None,
    }
}

/// Returns true if another attempt to connect may succeed.
fn retryable(error: &async_nats::ConnectError) -> bool {
    use async_nats::ConnectErrorKind as Kind;
    use std::error::Error;
    let passes = matches!(
        error.kind(),
        Kind::Io | Kind::Dns | Kind::TimedOut | Kind::MaxReconnects
    );
    let mut source = error.source();
    while let Some(error) = source {
        let inner = error.downcast_ref::<std::io::Error>();
        let inner = inner.and_then(std::io::Error::get_ref);
        // Another attempt would receive the same invalid certificate.
        if inner.is_some_and(|inner| inner.is::<rustls::Error>()) {
            return false;
        }
        source = error.source();
    }
    passes
}

/// Formats an error with its causes, each once.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}

fn options(credentials: &FleetCredentials, role: &Role) -> Result<ConnectOptions, LinkError> {
    let options = match credentials {
        FleetCredentials::Key(file) => {
            let options = ConnectOptions::with_nkey(file.seed.reveal().to_owned());
            match &file.authority {
                Some(_) => options.tls_client_config(trusting(file)?).require_tls(true),
                None => options,
            }
        }
        FleetCredentials::Jwt(text) => ConnectOptions::with_credentials(text.reveal())
            .map_err(|error| LinkError::Credentials(error.to_string()))?,
    };
    Ok(options
        .custom_inbox_prefix(role.inbox_prefix())
        .name("prony")
        .connection_timeout(RESPONSE_TIMEOUT)
        .ping_interval(Duration::from_secs(5))
        .max_reconnects(None)
        .reconnect_delay_callback(|tries| Duration::from_millis(100 * (tries as u64).min(10))))
}

/// Creates a TLS configuration that trusts only the authority in the credentials.
fn trusting(file: &KeyFile) -> Result<rustls::ClientConfig, LinkError> {
    let wrong = |why: &dyn fmt::Display| LinkError::Credentials(format!("authority: {why}"));
    let mut roots = rustls::RootCertStore::empty();
    let pem = file.authority.as_deref().unwrap_or_default();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"it has no certificate"));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
