//! Data stored on the server: the buckets of agents and runs, and the stream of results.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, stream};
use bytes::Bytes;
use futures_util::{StreamExt, TryFutureExt, TryStreamExt};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::{LinkError, NatsLink, NatsMessage, RESPONSE_TIMEOUT};
use crate::names::{AGENTS_BUCKET, RESULTS_STREAM, RUNS_BUCKET};

/// Time after which a registration expires.
pub const REGISTRATION_TTL: Duration = Duration::from_secs(15);
/// Time for which runs and results are stored.
const RUN_RETENTION: Duration = Duration::from_secs(7 * 86_400);
/// Maximum total size of the stored results, in bytes. The oldest results are removed first.
const RESULTS_BYTES_MAX: i64 = 4 << 30;
/// Maximum size of a result message, in bytes. Agents use at most half of it.
const RESULT_BYTES_MAX: i32 = 1 << 20;

/// Storage on the server that is enough for the buckets and the stream, in GiB.
const STORED_GIB_MAX: u32 = 5;
/// Part of the server's message if a stream would reserve more storage than there is.
const NO_SPACE: &str = "insufficient storage";

struct BucketLimits {
    bucket: &'static str,
    max_age: Duration,
    /// Maximum total size of the bucket, in bytes.
    bytes: i64,
    /// Maximum size of an entry in the bucket, in bytes.
    entry_bytes: i32,
    discard: stream::DiscardPolicy,
}

/// Limits of the bucket that stores agents. An agent can write only its own entry, so stolen
/// credentials can't be used to prevent other agents from registering. The bucket has room for
/// 4,000 agents.
const AGENTS_LIMITS: BucketLimits = BucketLimits {
    bucket: AGENTS_BUCKET,
    max_age: REGISTRATION_TTL,
    bytes: 64 << 20,
    entry_bytes: 16 << 10,
    discard: stream::DiscardPolicy::New,
};

/// Limits of the bucket that stores runs. The oldest entries are removed first.
const RUNS_LIMITS: BucketLimits = BucketLimits {
    bucket: RUNS_BUCKET,
    max_age: RUN_RETENTION,
    bytes: 256 << 20,
    entry_bytes: 1 << 20,
    discard: stream::DiscardPolicy::Old,
};

/// Maximum number of entries that are read at the same time.
const CONCURRENT_READS: usize = 64;
/// Period during which the server detects duplicates of a message.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);

/// Maximum number of attempts if the server rejects a request.
const ATTEMPTS_MAX: u32 = 4;

/// Pause between these attempts.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(200);

impl NatsLink {
    /// Creates the buckets and streams of a fleet on the server. Keeps existing ones.
    ///
    /// # Errors
    ///
    /// Returns an error if the server rejects the request, for example because it runs without
    /// JetStream.
    pub fn prepare_server(&self) -> Result<(), LinkError> {
        for limits in [AGENTS_LIMITS, RUNS_LIMITS] {
            let bucket = limits.bucket;
            // A bucket is a stream with certain settings. It is created as a stream, because the
            // client's function for buckets requires information that servers before 2.10 don't
            // report.
            let config = stream::Config {
                name: stream_of(bucket),
                subjects: vec![format!("$KV.{bucket}.>")],
                max_messages_per_subject: 1,
                max_age: limits.max_age,
                max_bytes: limits.bytes,
                max_message_size: limits.entry_bytes,
                discard: limits.discard,
                // With rollup, anyone who may write one key could delete all other keys.
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

    /// Creates a stream, or adds limits to a stream that an earlier version created.
    fn make(&self, config: stream::Config) -> Result<(), LinkError> {
        let name = config.name.clone();
        let made = retried(|| {
            let made = self.jetstream.get_or_create_stream(config.clone());
            self.wait(&name, RESPONSE_TIMEOUT, made)
        });
        let is = match made {
            Ok(stream) => stream.cached_info().config.clone(),
            Err(LinkError::Refused(why)) if why.contains(NO_SPACE) => {
                return Err(LinkError::Refused(format!(
                    "{why}; a fleet reserves {STORED_GIB_MAX} GiB of its JetStream storage, so set \
                     `max_file_store` to at least that (by default, it is 75% of the free disk \
                     space)"
                )));
            }
            Err(error) => return Err(error),
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

    /// Stores a message in a stream or bucket, and waits for the acknowledgement. The server drops
    /// a message if an earlier one from this link had the same `number`.
    ///
    /// # Errors
    ///
    /// Returns an error if no acknowledgement arrived in time. The server may still have stored the
    /// message.
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

    /// Removes a key from a bucket. `subject` is the key's subject.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`NatsLink::store`].
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

    /// Removes all messages on a subject from a stream, and returns their number.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn purge(&self, stream: &str, subject: &str) -> Result<u64, LinkError> {
        let purged = retried(|| {
            let purged = async {
                let stream = self.jetstream.get_stream(stream).await.map_err(boxed)?;
                stream.purge().filter(subject).await.map_err(boxed)
            };
            self.wait(stream, 2 * RESPONSE_TIMEOUT, purged)
        });
        Ok(purged?.purged)
    }

    /// Returns all keys of a bucket with their values.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn entries(&self, bucket: &str) -> Result<Vec<(String, Bytes)>, LinkError> {
        let entries = self.read_entries(bucket)?.into_iter();
        Ok(entries.map(|entry| (entry.key, entry.value)).collect())
    }

    /// Returns all keys of a bucket with their ages and values.
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
            // The age is zero if the server's wall clock is ahead of this machine's.
            (
                entry.key,
                written.elapsed().unwrap_or_default(),
                entry.value,
            )
        });
        Ok(aged.collect())
    }

    /// Reads all entries. The keys are taken from information about the stream, because the
    /// client's function lists keys with a consumer, which hangs if a key is rewritten at the same
    /// time.
    fn read_entries(&self, bucket: &str) -> Result<Vec<jetstream::kv::Entry>, LinkError> {
        let prefix = format!("$KV.{bucket}.");
        retried(|| {
            let all = async {
                let store = self.jetstream.get_key_value(bucket).await.map_err(boxed)?;
                let info = store.stream.info_with_subjects(format!("{prefix}>"));
                let subjects = info.await.map_err(boxed)?;
                let entries = subjects.map_err(boxed).map_ok(|(subject, _)| {
                    let key = subject.strip_prefix(&prefix).unwrap_or_default().to_owned();
                    store.entry(key).map_err(boxed)
                });
                // The list of subjects panics if it is polled after an error. `try_buffered` ends at
                // the first error without polling again.
                let mut entries = entries.try_buffered(CONCURRENT_READS);
                let mut read_entries = Vec::new();
                while let Some(entry) = entries.try_next().await? {
                    // The entry may have expired after its key was listed.
                    read_entries.extend(entry.filter(is_put));
                }
                Ok::<_, BoxedError>(read_entries)
            };
            self.wait(bucket, 2 * RESPONSE_TIMEOUT, all)
        })
    }

    /// Returns the value of a key, if it exists.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn entry(&self, bucket: &str, key: &str) -> Result<Option<Bytes>, LinkError> {
        retried(|| {
            let entry = async {
                let store = self.jetstream.get_key_value(bucket).await.map_err(boxed)?;
                store.get(key).await.map_err(boxed)
            };
            self.wait(bucket, RESPONSE_TIMEOUT, entry)
        })
    }

    /// Returns the number of stored result messages for each subject.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn stored(&self) -> Result<Vec<(String, u64)>, LinkError> {
        retried(|| {
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
        })
    }

    /// Reads the stored results of a subject from the beginning, and then new ones.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn replay(&self, subject: &str) -> Result<StoredMessages, LinkError> {
        let messages = retried(|| {
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
            self.wait(RESULTS_STREAM, RESPONSE_TIMEOUT, consumer)
        })?;
        Ok(StoredMessages {
            messages: Box::new(messages),
            runtime: self.runtime.clone(),
        })
    }
}

/// Repeats a call that the server rejects. It also rejects valid requests for a moment: if several
/// processes create the same streams at the same time, and while it reloads its configuration, as it
/// does whenever an agent enrolls. Messages are not stored again here: an agent reports that it was
/// disconnected when it can't store one.
fn retried<T>(mut call: impl FnMut() -> Result<T, LinkError>) -> Result<T, LinkError> {
    for _ in 1..ATTEMPTS_MAX {
        match call() {
            Err(LinkError::Refused(_)) => std::thread::sleep(ATTEMPT_PAUSE),
            ended => return ended,
        }
    }
    call()
}

/// Returns the name of the stream that implements a bucket.
pub fn stream_of(bucket: &str) -> String {
    format!("KV_{bucket}")
}

/// Reader of stored messages in the order in which they were stored.
pub struct StoredMessages {
    messages: Box<jetstream::consumer::pull::Ordered>,
    runtime: Arc<Runtime>,
}

impl StoredMessages {
    /// Returns the next message, or `None` after a timeout. Retries after errors, for example while
    /// the server is unreachable.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> LinkError {
        LinkError::Refused("prony_agents: no responders".to_owned())
    }

    #[test]
    fn a_rejected_call_is_repeated_and_a_lost_connection_is_reported_at_once() {
        let mut rejections = vec![refused(), refused()];
        let mut calls = 0;
        let ended = retried(|| {
            calls += 1;
            rejections.pop().map_or(Ok(calls), Err)
        });
        assert_eq!(ended.unwrap(), 3);

        let mut calls = 0;
        let rejected = retried(|| {
            calls += 1;
            Err::<(), _>(refused())
        });
        assert!(matches!(rejected, Err(LinkError::Refused(_))));
        assert_eq!(calls, ATTEMPTS_MAX);

        let mut calls = 0;
        let missing = retried(|| {
            calls += 1;
            Err::<(), _>(LinkError::NoResponders("prony.agent".to_owned()))
        });
        assert!(matches!(missing, Err(LinkError::NoResponders(_))));
        assert_eq!(calls, 1);
    }
}
