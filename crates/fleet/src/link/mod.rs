//! The connection to the NATS server, for threads that wait.
//!
//! NATS's client is asynchronous; what uses it here is not. One thread of its own runs the client, so
//! that no load worker ever meets it, and each call here waits on the calling thread, for a bounded
//! time.

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

use crate::credentials::{Credentials, KeyFile};
use crate::permissions::Role;
pub use stored::{AGENT_LEASE, Replay, stream_of};

/// How long the server may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How often it is looked whether an answer is still wanted.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Why the server can't be talked to, or didn't do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkError {
    /// The credentials can't be used.
    Credentials(String),
    /// No connection came about.
    Connect {
        /// The server.
        server: String,
        /// Why.
        why: String,
        /// Whether it may be otherwise in a moment: not where the server refused the credentials, nor
        /// where its certificate is another's.
        may_pass: bool,
    },
    /// Nobody answers there: no such agent, or it is gone.
    NobodyThere(String),
    /// No response came in time.
    Silent {
        /// The subject or store that was asked.
        subject: String,
        /// The NATS server.
        server: String,
    },
    /// The server refused, in its own words.
    Refused(String),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Credentials(why) => write!(f, "the credentials can't be used: {why}"),
            LinkError::Connect { server, why, .. } => {
                write!(f, "no connection to the NATS server {server}: {why}")
            }
            LinkError::NobodyThere(subject) => match subject.strip_prefix("prony.agent.") {
                Some(rest) => {
                    let agent = rest.split('.').next().unwrap_or_default();
                    write!(
                        f,
                        "agent {agent} is not there (`prony agent` has to run on its machine)"
                    )
                }
                None => write!(f, "nobody listens at {subject}"),
            },
            LinkError::Silent { subject, server } => {
                write!(
                    f,
                    "{subject}: no response from the NATS server {server} in time"
                )
            }
            LinkError::Refused(why) => write!(f, "the NATS server refused: {why}"),
        }
    }
}

impl std::error::Error for LinkError {}

/// A message that came.
#[derive(Debug, Clone)]
pub struct Message {
    /// Where it came.
    pub subject: String,
    /// Where its sender waits for an answer.
    pub reply: Option<String>,
    /// What it says.
    pub payload: Bytes,
}

/// A connection; it comes back by itself after the server was away.
pub struct Link {
    // Dropped last: the client's tasks run on it.
    client: Client,
    jetstream: jetstream::Context,
    /// The server's URL, or several separated by commas.
    server: String,
    /// Stands before the numbers of what is stored, known to nobody else: who knew it could use a
    /// number first, and the server would pass over what comes under it.
    numbers: String,
    /// Since when the server has refused the credentials.
    refused_since: Arc<Mutex<Option<Instant>>>,
    runtime: Arc<Runtime>,
}

/// Messages of one subject, or of several, as they come.
pub struct Subscription {
    messages: async_nats::Subscriber,
    runtime: Arc<Runtime>,
}

impl Link {
    /// Connects as `role`: to this server, or else to those that the credentials name.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn connect(
        server: Option<&str>,
        credentials: &Credentials,
        role: &Role,
    ) -> Result<Link, LinkError> {
        if let Credentials::Key(file) = credentials
            && file.role() != *role
        {
            // The server would refuse each thing by itself, with silence.
            let why = format!("they are {}'s, and {role}'s are wanted", file.role());
            return Err(LinkError::Credentials(why));
        }
        let named = match credentials {
            Credentials::Key(file) => file.servers.join(","),
            Credentials::Jwt(_) => String::new(),
        };
        let server = server.unwrap_or(&named).to_owned();
        if server.is_empty() {
            let why = "no server is named; give one with --nats, such as tls://10.0.0.1:4222";
            return Err(LinkError::Credentials(why.to_owned()));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("nats")
            .enable_all()
            .build()
            .map_err(|error| LinkError::Refused(format!("a thread for NATS: {error}")))?;
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
        let failed = |why: String, may_pass| LinkError::Connect {
            server: server.clone(),
            why,
            may_pass,
        };
        let addresses: Vec<&str> = server.split(',').collect();
        let client = runtime
            .block_on(async { timeout(2 * ANSWER, options.connect(addresses)).await })
            .map_err(|_| failed("no answer in time".to_owned(), true))?
            .map_err(|error| failed(in_full(&error), may_pass(&error)))?;
        // It begins a task of its own.
        let entered = runtime.enter();
        let jetstream = jetstream::ContextBuilder::new()
            .timeout(ANSWER)
            .build(client.clone());
        drop(entered);
        Ok(Link {
            client,
            jetstream,
            server,
            numbers: format!("{:032x}", rand::random::<u128>()),
            refused_since,
            runtime: Arc::new(runtime),
        })
    }

    /// Whether the connection stands now.
    pub fn is_up(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }

    /// The server's URL; several are separated by commas.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Sends the server a request that only the server itself responds to. A coordinator's link alone
    /// has the permission. It tells a server that is away from an agent that is silent, also where
    /// the connection still seems to stand.
    pub fn responds(&self, within: Duration) -> bool {
        self.is_up() && self.ask("$JS.API.INFO", "", within).is_ok()
    }

    fn silent(&self, subject: &str) -> LinkError {
        LinkError::Silent {
            subject: subject.to_owned(),
            server: self.server.clone(),
        }
    }

    /// How long the server has refused the credentials in every attempt to reconnect; zero while it
    /// accepts them, or can't be reached.
    pub fn refused_for(&self) -> Duration {
        let since = self.refused_since.lock();
        let since = *since.unwrap_or_else(PoisonError::into_inner);
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// The address of this machine that the server sees; none where it sees another, as behind a
    /// translation of addresses.
    pub fn address(&self) -> Option<IpAddr> {
        let seen: IpAddr = self.client.server_info().client_ip.parse().ok()?;
        // Only a machine's own addresses can be bound.
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
            Ok(Err(error)) => Err(LinkError::Refused(format!("{what}: {}", in_full(&error)))),
            Err(_) => Err(self.silent(what)),
        }
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    ///
    /// [`LinkError::NobodyThere`] at once where nobody listens; otherwise see [`LinkError`].
    pub fn ask(
        &self,
        subject: &str,
        payload: impl Into<Bytes>,
        within: Duration,
    ) -> Result<Bytes, LinkError> {
        self.runtime
            .block_on(self.answer(subject, payload.into(), within))
    }

    async fn answer(
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
                    LinkError::NobodyThere(subject.to_owned())
                }
                async_nats::RequestErrorKind::TimedOut => self.silent(subject),
                _ => LinkError::Refused(format!("{subject}: {}", in_full(&error))),
            }),
        }
    }

    /// Asks many at once, each at its subject, and waits for all answers, which come in the order of the
    /// questions. One whose number `is_given_up` is waited for no longer.
    ///
    /// # Errors
    ///
    /// Each as [`Link::ask`].
    pub fn ask_all(
        &self,
        questions: Vec<(String, Bytes)>,
        within: Duration,
        is_given_up: &dyn Fn(usize) -> bool,
    ) -> Vec<Result<Bytes, LinkError>> {
        let answers =
            questions
                .into_iter()
                .enumerate()
                .map(|(number, (subject, payload))| async move {
                    let given_up = async {
                        while !is_given_up(number) {
                            tokio::time::sleep(LOOK_UP).await;
                        }
                    };
                    let asked = Box::pin(self.answer(&subject, payload, within));
                    match future::select(asked, Box::pin(given_up)).await {
                        future::Either::Left((answer, _)) => answer,
                        future::Either::Right(_) => Err(self.silent(&subject)),
                    }
                });
        self.runtime.block_on(future::join_all(answers))
    }

    /// Says something and waits for nothing.
    ///
    /// # Errors
    ///
    /// Where it can't be sent.
    pub fn say(&self, subject: &str, payload: impl Into<Bytes>) -> Result<(), LinkError> {
        let said = async {
            self.client
                .publish(subject.to_owned(), payload.into())
                .await?;
            // The client gathers what is said; what nobody waits for must not wait for more.
            let _ = self.client.flush().await;
            Ok::<(), async_nats::PublishError>(())
        };
        self.wait(subject, ANSWER, said)
    }

    /// Hears what is said at a subject from now on.
    ///
    /// # Errors
    ///
    /// Where the server can't be asked; that it refuses shows later, as silence.
    pub fn subscribe(&self, subject: &str) -> Result<Subscription, LinkError> {
        let subscribed = self.client.subscribe(subject.to_owned());
        let messages = self.wait(subject, ANSWER, subscribed)?;
        self.wait(subject, ANSWER, self.client.flush())?;
        Ok(Subscription {
            messages,
            runtime: self.runtime.clone(),
        })
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("is_up", &self.is_up())
            .finish()
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscription")
    }
}

impl Subscription {
    /// The next message; none where the time is up first, or where the connection is gone for good.
    pub fn next(&mut self, within: Duration) -> Option<Message> {
        let next = self
            .runtime
            .block_on(async { timeout(within, self.messages.next()).await });
        let message = next.ok().flatten()?;
        Some(Message {
            subject: message.subject.to_string(),
            reply: message.reply.map(|reply| reply.to_string()),
            payload: message.payload,
        })
    }
}

/// Whether an event says that the server refuses the credentials, or that it is not that; none for
/// events that say neither.
fn is_refusal(event: &async_nats::Event) -> Option<bool> {
    match event {
        async_nats::Event::Connected => Some(false),
        // The client passes on the reason why it could not reconnect as text only.
        async_nats::Event::ClientError(error) => {
            Some(error.to_string().contains("authorization violation"))
        }
        _ => None,
    }
}

/// Whether what keeps a connection from being made may be gone in a moment.
fn may_pass(error: &async_nats::ConnectError) -> bool {
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
        // Whose certificate doesn't do today is no other's tomorrow.
        if inner.is_some_and(|inner| inner.is::<rustls::Error>()) {
            return false;
        }
        source = error.source();
    }
    passes
}

/// An error with what it comes from, each said once.
fn in_full(error: &dyn std::error::Error) -> String {
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

fn options(credentials: &Credentials, role: &Role) -> Result<ConnectOptions, LinkError> {
    let options = match credentials {
        Credentials::Key(file) => {
            let options = ConnectOptions::with_nkey(file.seed.reveal().to_owned());
            match &file.authority {
                Some(_) => options.tls_client_config(trusting(file)?).require_tls(true),
                None => options,
            }
        }
        Credentials::Jwt(text) => ConnectOptions::with_credentials(text.reveal())
            .map_err(|error| LinkError::Credentials(error.to_string()))?,
    };
    Ok(options
        .custom_inbox_prefix(role.inbox())
        .name("prony")
        .connection_timeout(ANSWER)
        .ping_interval(Duration::from_secs(5))
        .max_reconnects(None)
        .reconnect_delay_callback(|tries| Duration::from_millis(100 * (tries as u64).min(10))))
}

/// TLS that believes the credentials' own authority alone.
fn trusting(file: &KeyFile) -> Result<rustls::ClientConfig, LinkError> {
    let wrong = |why: &dyn fmt::Display| LinkError::Credentials(format!("authority: {why}"));
    let mut roots = rustls::RootCertStore::empty();
    let pem = file.authority.as_deref().unwrap_or_default();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"there is no certificate in it"));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
