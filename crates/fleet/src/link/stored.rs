//! What is kept on the server: buckets of agents and runs, and the stream of results.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, stream};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::{ANSWER, Link, LinkError, Message};
use crate::names::{AGENTS, RESULTS, RUNS};

/// How long an agent counts as there after its last sign of life.
pub const AGENT_LEASE: Duration = Duration::from_secs(15);
/// How long runs and results are kept.
const KEPT: Duration = Duration::from_secs(7 * 86_400);
/// Bytes of results that are kept at most; the oldest go first.
const MOST_RESULTS: i64 = 4 << 30;
/// The longest message of results, which agents cut to half of that.
const RESULT_BYTES_MAX: i32 = 1 << 20;

/// What a bucket may hold.
struct Limits {
    bucket: &'static str,
    max_age: Duration,
    /// All entries together.
    bytes: i64,
    /// One entry.
    entry_bytes: i32,
    discard: stream::DiscardPolicy,
}

/// An agent can only write its own key, so that a stolen key's entry keeps nobody else from registering:
/// there is room for 4,000 agents.
const AGENTS_LIMITS: Limits = Limits {
    bucket: AGENTS,
    max_age: AGENT_LEASE,
    bytes: 64 << 20,
    entry_bytes: 16 << 10,
    discard: stream::DiscardPolicy::New,
};

/// Of runs the oldest go first.
const RUNS_LIMITS: Limits = Limits {
    bucket: RUNS,
    max_age: KEPT,
    bytes: 256 << 20,
    entry_bytes: 1 << 20,
    discard: stream::DiscardPolicy::Old,
};

/// Keys that are asked for at once.
const AT_ONCE: usize = 64;
/// How long the server remembers a message's number, to pass over what is sent twice.
const REMEMBERED: Duration = Duration::from_secs(120);

impl Link {
    /// Makes what the fleet keeps on the server: its buckets and the stream of results. What is there
    /// already is left as it is.
    ///
    /// # Errors
    ///
    /// Where the server refuses, as without JetStream.
    pub fn prepare_server(&self) -> Result<(), LinkError> {
        for limits in [AGENTS_LIMITS, RUNS_LIMITS] {
            let bucket = limits.bucket;
            // A bucket is a stream with certain settings. The client's own way to make one asks the
            // server for what servers before 2.10 don't tell.
            let config = stream::Config {
                name: stream_of(bucket),
                subjects: vec![format!("$KV.{bucket}.>")],
                max_messages_per_subject: 1,
                max_age: limits.max_age,
                max_bytes: limits.bytes,
                max_message_size: limits.entry_bytes,
                discard: limits.discard,
                // With that, whoever may write one key could empty the bucket.
                allow_rollup: false,
                deny_delete: true,
                allow_direct: true,
                num_replicas: 1,
                ..stream::Config::default()
            };
            self.make(config)?;
        }
        let results = stream::Config {
            name: RESULTS.to_owned(),
            subjects: vec!["prony.result.>".to_owned()],
            max_age: KEPT,
            max_bytes: MOST_RESULTS,
            max_message_size: RESULT_BYTES_MAX,
            duplicate_window: REMEMBERED,
            ..stream::Config::default()
        };
        self.make(results)
    }

    /// Makes a stream, or gives one that an earlier version made the limits that it lacks.
    fn make(&self, config: stream::Config) -> Result<(), LinkError> {
        let name = config.name.clone();
        let made = self.jetstream.get_or_create_stream(config.clone());
        let is = self.wait(&name, ANSWER, made)?.cached_info().config.clone();
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
        self.wait(&name, ANSWER, updated).map(|_| ())
    }

    /// Stores a message in a stream or bucket and waits until the server has it. One that bears the
    /// `number` of an earlier one of this link is passed over.
    ///
    /// # Errors
    ///
    /// Where the server doesn't say in time that it has it; it may have it even so.
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

    /// Removes a bucket's key, by its subject.
    ///
    /// # Errors
    ///
    /// As [`Link::store`].
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
        self.wait(subject, ANSWER, stored).map(|_| ())
    }

    /// Removes the messages of a stream at a subject; gives their number.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn purge(&self, stream: &str, subject: &str) -> Result<u64, LinkError> {
        let purged = async {
            let stream = self.jetstream.get_stream(stream).await.map_err(boxed)?;
            stream.purge().filter(subject).await.map_err(boxed)
        };
        Ok(self.wait(stream, 2 * ANSWER, purged)?.purged)
    }

    /// All keys of a bucket with their values.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn entries(&self, bucket: &str) -> Result<Vec<(String, Bytes)>, LinkError> {
        let entries = self.kept(bucket)?.into_iter();
        Ok(entries.map(|entry| (entry.key, entry.value)).collect())
    }

    /// All keys of a bucket, each with the time since it was last written and its value.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn aged_entries(&self, bucket: &str) -> Result<Vec<(String, Duration, Bytes)>, LinkError> {
        let aged = self.kept(bucket)?.into_iter().map(|entry| {
            let written = std::time::SystemTime::from(entry.created);
            // The server's calendar may be ahead of this machine's.
            (
                entry.key,
                written.elapsed().unwrap_or_default(),
                entry.value,
            )
        });
        Ok(aged.collect())
    }

    /// What a bucket has. Its keys are those that the server counts: a consumer that lists them, as the
    /// client's own way does, waits in vain for one that is written anew meanwhile.
    fn kept(&self, bucket: &str) -> Result<Vec<jetstream::kv::Entry>, LinkError> {
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
            let mut entries = entries.buffered(AT_ONCE);
            let mut kept = Vec::new();
            while let Some(entry) = entries.next().await {
                // It may have run out since it was listed.
                kept.extend(entry?.filter(is_put));
            }
            Ok::<_, Failed>(kept)
        };
        self.wait(bucket, 2 * ANSWER, all)
    }

    /// The value of a key, if it is there.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn entry(&self, bucket: &str, key: &str) -> Result<Option<Bytes>, LinkError> {
        let entry = async {
            let store = self.jetstream.get_key_value(bucket).await.map_err(boxed)?;
            store.get(key).await.map_err(boxed)
        };
        self.wait(bucket, ANSWER, entry)
    }

    /// How many messages the stream of results has at each subject.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn stored(&self) -> Result<Vec<(String, u64)>, LinkError> {
        let counted = async {
            let stream = self.jetstream.get_stream(RESULTS).await.map_err(boxed)?;
            let mut subjects = stream.info_with_subjects(">").await.map_err(boxed)?;
            let mut counts = Vec::new();
            while let Some(counted) = subjects.next().await {
                let (subject, count) = counted.map_err(boxed)?;
                counts.push((subject, count as u64));
            }
            Ok::<_, Failed>(counts)
        };
        self.wait(RESULTS, 2 * ANSWER, counted)
    }

    /// Hears what was stored in the stream of results at these subjects from its first message on, and
    /// then what comes.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn replay(&self, subject: &str) -> Result<Replay, LinkError> {
        let consumer = async {
            let stream = self.jetstream.get_stream(RESULTS).await.map_err(boxed)?;
            let config = jetstream::consumer::pull::OrderedConfig {
                filter_subject: subject.to_owned(),
                ..Default::default()
            };
            let consumer = stream.create_consumer(config).await.map_err(boxed)?;
            consumer.messages().await.map_err(boxed)
        };
        let messages = self.wait(RESULTS, ANSWER, consumer)?;
        Ok(Replay {
            messages: Box::new(messages),
            runtime: self.runtime.clone(),
        })
    }
}

/// The stream that holds a bucket.
pub fn stream_of(bucket: &str) -> String {
    format!("KV_{bucket}")
}

/// What was stored, in its order.
pub struct Replay {
    messages: Box<jetstream::consumer::pull::Ordered>,
    runtime: Arc<Runtime>,
}

impl Replay {
    /// The next message; none where the time is up first. What the server says against it, as while it
    /// is away, is waited out.
    pub fn next(&mut self, within: Duration) -> Option<Message> {
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
        Some(Message {
            subject: message.subject.to_string(),
            reply: None,
            payload: message.payload.clone(),
        })
    }
}

fn is_put(entry: &jetstream::kv::Entry) -> bool {
    entry.operation == jetstream::kv::Operation::Put
}

/// Errors of many types as one.
#[derive(Debug)]
struct Failed(Box<dyn std::error::Error + Send + Sync>);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Failed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

fn boxed(error: impl std::error::Error + Send + Sync + 'static) -> Failed {
    Failed(Box::new(error))
}
