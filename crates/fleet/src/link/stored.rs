//! Data on the server: the buckets of agents and runs, and the stream of results.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, stream};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::{LinkError, NatsLink, NatsMessage, RESPONSE_TIMEOUT};
use crate::names::{AGENTS_BUCKET, RESULTS_STREAM, RUNS_BUCKET};

/// Time after which a registration expires.
pub const REGISTRATION_TTL: Duration = Duration::from_secs(15);
/// Time for which runs and results are kept.
const RUN_RETENTION: Duration = Duration::from_secs(7 * 86_400);
/// Total size of the stored results, in bytes; the oldest are removed first.
const RESULTS_BYTES_MAX: i64 = 4 << 30;
/// Largest result message, in bytes; agents keep to half of it.
const RESULT_BYTES_MAX: i32 = 1 << 20;

/// The limits of a bucket.
struct BucketLimits {
    bucket: &'static str,
    max_age: Duration,
    /// Total size, in bytes.
    bytes: i64,
    /// Size of one entry, in bytes.
    entry_bytes: i32,
    discard: stream::DiscardPolicy,
}

/// Limits of the bucket of agents. An agent can write only its own key, so that a thief of one key
/// can't keep other agents from registering. There is room for 4,000 agents.
const AGENTS_LIMITS: BucketLimits = BucketLimits {
    bucket: AGENTS_BUCKET,
    max_age: REGISTRATION_TTL,
    bytes: 64 << 20,
    entry_bytes: 16 << 10,
    discard: stream::DiscardPolicy::New,
};

/// Limits of the bucket of runs. The oldest entries are removed first.
const RUNS_LIMITS: BucketLimits = BucketLimits {
    bucket: RUNS_BUCKET,
    max_age: RUN_RETENTION,
    bytes: 256 << 20,
    entry_bytes: 1 << 20,
    discard: stream::DiscardPolicy::Old,
};

/// Number of entries read at the same time.
const CONCURRENT_READS: usize = 64;
/// Time for which the server detects duplicates.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);

/// Attempts to create a stream.
const CREATE_ATTEMPTS: u32 = 3;

/// Pause between two attempts to create a stream.
const CREATE_PAUSE: Duration = Duration::from_millis(200);

impl NatsLink {
    /// Creates the buckets and streams of a fleet on the server. Existing ones are left unchanged.
    ///
    /// # Errors
    ///
    /// If the server refuses, for example without JetStream.
    pub fn prepare_server(&self) -> Result<(), LinkError> {
        for limits in [AGENTS_LIMITS, RUNS_LIMITS] {
            let bucket = limits.bucket;
            // A bucket is a stream with certain settings. The client's function for buckets requires
            // information that servers before 2.10 don't report.
            let config = stream::Config {
                name: stream_of(bucket),
                subjects: vec![format!("$KV.{bucket}.>")],
                max_messages_per_subject: 1,
                max_age: limits.max_age,
                max_bytes: limits.bytes,
                max_message_size: limits.entry_bytes,
                discard: limits.discard,
                // With rollup, anyone who may write one key could empty the bucket.
                allow_rollup: false,
                deny_delete: true,
                allow_direct: true,
                num_replicas: 1,
                ..stream::Config::default()
            };
            self.make(config)?;
        }
        let results = stream::Config {
            name: RESULTS_STREAM.to_owned(),
            subjects: vec!["prony.result.>".to_owned()],
            max_age: RUN_RETENTION,
            max_bytes: RESULTS_BYTES_MAX,
            max_message_size: RESULT_BYTES_MAX,
            duplicate_window: DUPLICATE_WINDOW,
            ..stream::Config::default()
        };
        self.make(results)
    }

    /// Creates a stream, or adds limits to one of an earlier version.
    fn make(&self, config: stream::Config) -> Result<(), LinkError> {
        let name = config.name.clone();
        let mut attempt = 1;
        let is = loop {
            let made = self.jetstream.get_or_create_stream(config.clone());
            match self.wait(&name, RESPONSE_TIMEOUT, made) {
                Ok(stream) => break stream.cached_info().config.clone(),
                // Members that join a new server at the same time create the same streams, and the
                // server refuses some of them.
                Err(LinkError::Refused(_)) if attempt < CREATE_ATTEMPTS => {
                    std::thread::sleep(CREATE_PAUSE);
                }
                Err(error) => return Err(error),
            }
            attempt += 1;
        };
        let limits = |config: &stream::Config| (config.max_bytes, config.max_message_size);
        if limits(&is) == limits(&config) {
            return Ok(());
        }
        let limited = stream::Config {
            max_bytes: config.max_bytes,
            max_message_size: config.max_message_size,
            discard: config.discard,
            ..is
        };
        let updated = self.jetstream.update_stream(limited);
        self.wait(&name, RESPONSE_TIMEOUT, updated).map(|_| ())
    }

    /// Stores a message in a stream or bucket, and waits for the confirmation. The server drops a
    /// message with the `number` of an earlier one of this link.
    ///
    /// # Errors
    ///
    /// If there is no confirmation in time. The server may have stored the message nevertheless.
    pub fn store(
        &self,
        subject: &str,
        number: Option<&str>,
        payload: impl Into<Bytes>,
    ) -> Result<(), LinkError> {
        let mut headers = async_nats::HeaderMap::new();
        if let Some(number) = number {
            headers.insert("Nats-Msg-Id", format!("{}.{number}", self.numbers));
        }
        self.store_with(subject, headers, payload.into())
    }

    /// Removes a key of a bucket, by its subject.
    ///
    /// # Errors
    ///
    /// Those of [`NatsLink::store`].
    pub fn remove(&self, subject: &str) -> Result<(), LinkError> {
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("KV-Operation", "DEL");
        self.store_with(subject, headers, Bytes::new())
    }

    fn store_with(
        &self,
        subject: &str,
        headers: async_nats::HeaderMap,
        payload: Bytes,
    ) -> Result<(), LinkError> {
        let stored = async {
            let sent = self
                .jetstream
                .publish_with_headers(subject.to_owned(), headers, payload);
            sent.await?.await
        };
        self.wait(subject, RESPONSE_TIMEOUT, stored).map(|_| ())
    }

    /// Removes the messages of a subject from a stream, and returns their number.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn purge(&self, stream: &str, subject: &str) -> Result<u64, LinkError> {
        let purged = async {
            let stream = self.jetstream.get_stream(stream).await.map_err(boxed)?;
            stream.purge().filter(subject).await.map_err(boxed)
        };
        Ok(self.wait(stream, 2 * RESPONSE_TIMEOUT, purged)?.purged)
    }

    /// All keys of a bucket with their values.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn entries(&self, bucket: &str) -> Result<Vec<(String, Bytes)>, LinkError> {
        let entries = self.read_entries(bucket)?.into_iter();
        Ok(entries.map(|entry| (entry.key, entry.value)).collect())
    }

    /// All keys of a bucket, each with its age and value.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn entries_with_age(
        &self,
        bucket: &str,
    ) -> Result<Vec<(String, Duration, Bytes)>, LinkError> {
        let aged = self.read_entries(bucket)?.into_iter().map(|entry| {
            let written = std::time::SystemTime::from(entry.created);
            // The server's wall clock may be ahead of this machine's.
            (
                entry.key,
                written.elapsed().unwrap_or_default(),
                entry.value,
            )
        });
        Ok(aged.collect())
    }

    /// Reads all entries. The keys come from the stream's information: the client's function lists
    /// keys with a consumer, which hangs if a key is rewritten meanwhile.
    fn read_entries(&self, bucket: &str) -> Result<Vec<jetstream::kv::Entry>, LinkError> {
        let prefix = format!("$KV.{bucket}.");
        let all = async {
            let store = self.jetstream.get_key_value(bucket).await.map_err(boxed)?;
            let info = store.stream.info_with_subjects(format!("{prefix}>"));
            let subjects = info.await.map_err(boxed)?;
            let entries = subjects.map(|subject| async {
                let (subject, _) = subject.map_err(boxed)?;
                let key = subject.strip_prefix(&prefix).unwrap_or_default().to_owned();
                store.entry(key).await.map_err(boxed)
            });
            let mut entries = entries.buffered(CONCURRENT_READS);
            let mut read_entries = Vec::new();
            while let Some(entry) = entries.next().await {
                // The entry may have expired since it was listed.
                read_entries.extend(entry?.filter(is_put));
            }
            Ok::<_, BoxedError>(read_entries)
        };
        self.wait(bucket, 2 * RESPONSE_TIMEOUT, all)
    }

    /// The value of a key, if it exists.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn entry(&self, bucket: &str, key: &str) -> Result<Option<Bytes>, LinkError> {
        let entry = async {
            let store = self.jetstream.get_key_value(bucket).await.map_err(boxed)?;
            store.get(key).await.map_err(boxed)
        };
        self.wait(bucket, RESPONSE_TIMEOUT, entry)
    }

    /// Number of stored result messages by subject.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn stored(&self) -> Result<Vec<(String, u64)>, LinkError> {
        let counted = async {
            let stream = self
                .jetstream
                .get_stream(RESULTS_STREAM)
                .await
                .map_err(boxed)?;
            let mut subjects = stream.info_with_subjects(">").await.map_err(boxed)?;
            let mut counts = Vec::new();
            while let Some(counted) = subjects.next().await {
                let (subject, count) = counted.map_err(boxed)?;
                counts.push((subject, count as u64));
            }
            Ok::<_, BoxedError>(counts)
        };
        self.wait(RESULTS_STREAM, 2 * RESPONSE_TIMEOUT, counted)
    }

    /// Reads the stored results of a subject from the first one on, and then new ones.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn replay(&self, subject: &str) -> Result<StoredMessages, LinkError> {
        let consumer = async {
            let stream = self
                .jetstream
                .get_stream(RESULTS_STREAM)
                .await
                .map_err(boxed)?;
            let config = jetstream::consumer::pull::OrderedConfig {
                filter_subject: subject.to_owned(),
                ..Default::default()
            };
            let consumer = stream.create_consumer(config).await.map_err(boxed)?;
            consumer.messages().await.map_err(boxed)
        };
        let messages = self.wait(RESULTS_STREAM, RESPONSE_TIMEOUT, consumer)?;
        Ok(StoredMessages {
            messages: Box::new(messages),
            runtime: self.runtime.clone(),
        })
    }
}

/// The name of the stream behind a bucket.
pub fn stream_of(bucket: &str) -> String {
    format!("KV_{bucket}")
}

/// Stored messages in order.
pub struct StoredMessages {
    messages: Box<jetstream::consumer::pull::Ordered>,
    runtime: Arc<Runtime>,
}

impl StoredMessages {
    /// The next message; `None` if the time is up. Retries on errors, for example while the server
    /// is away.
    pub fn next(&mut self, within: Duration) -> Option<NatsMessage> {
        let next = async {
            loop {
                match timeout(within, self.messages.next()).await {
                    Ok(Some(Ok(message))) => return Some(message),
                    Ok(Some(Err(_))) => tokio::time::sleep(Duration::from_millis(100)).await,
                    Ok(None) | Err(_) => return None,
                }
            }
        };
        let bounded = async { timeout(within, next).await.ok().flatten() };
        let message = self.runtime.block_on(bounded)?;
        Some(NatsMessage {
            subject: message.subject.to_string(),
            reply: None,
            payload: message.payload.clone(),
        })
    }
}

fn is_put(entry: &jetstream::kv::Entry) -> bool {
    entry.operation == jetstream::kv::Operation::Put
}

/// An error of any type.
#[derive(Debug)]
struct BoxedError(Box<dyn std::error::Error + Send + Sync>);

impl fmt::Display for BoxedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for BoxedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

fn boxed(error: impl std::error::Error + Send + Sync + 'static) -> BoxedError {
    BoxedError(Box::new(error))
}
