//! Streams of events on a known schedule: the responses of `/events/N`.

use std::future::Future;
use std::io::{self, Write};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::alarm::Alarm;

/// The stream that a path requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventPlan {
    /// Number of events.
    pub(crate) count: u32,
    /// Time from the request to the first event.
    pub(crate) after: Duration,
    /// Time from each event to the next.
    pub(crate) every: Duration,
    pub(crate) form: EventForm,
    pub(crate) ending: StreamEnding,
    /// True if the body is encoded with gzip.
    pub(crate) is_gzip: bool,
}

/// Form of the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventForm {
    /// Server-sent events, each preceded by a comment.
    ServerSent,
    /// Lines of JSON.
    Lines,
}

/// End of a stream after its last event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnding {
    /// The end of the response.
    Plain,
    /// The event `[DONE]`, then the end of the response.
    Done,
    /// Nothing; the response doesn't end.
    Stall,
    /// The beginning of another event, then the end of the response.
    Half,
    /// When the next event would be due, the end of the connection or stream, in the middle of the
    /// response.
    Cut,
}

impl EventForm {
    pub(crate) fn parse(text: &str) -> Option<EventForm> {
        Some(match text {
            "sse" => EventForm::ServerSent,
            "lines" => EventForm::Lines,
            _ => return None,
        })
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            EventForm::ServerSent => "text/event-stream",
            EventForm::Lines => "application/jsonl",
        }
    }
}

impl StreamEnding {
    pub(crate) fn parse(text: &str) -> Option<StreamEnding> {
        Some(match text {
            "plain" => StreamEnding::Plain,
            "done" => StreamEnding::Done,
            "stall" => StreamEnding::Stall,
            "half" => StreamEnding::Half,
            "cut" => StreamEnding::Cut,
            _ => return None,
        })
    }
}

/// The body of a stream. Each event is a frame of its own.
pub(crate) struct Events {
    plan: EventPlan,
    begun: Instant,
    /// Number of events that have been sent.
    sent: u32,
    stage: StreamStage,
    gzip: Option<GzEncoder<Vec<u8>>>,
    alarm: Rc<Alarm>,
    pause: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamStage {
    Events,
    Ending,
    /// The end of the content coding follows, if there is one.
    Last,
    Over,
}

impl Events {
    pub(crate) fn new(plan: EventPlan, alarm: Rc<Alarm>) -> Events {
        Events {
            gzip: plan
                .is_gzip
                .then(|| GzEncoder::new(Vec::new(), Compression::fast())),
            plan,
            begun: Instant::now(),
            sent: 0,
            stage: StreamStage::Events,
            alarm,
            pause: None,
        }
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            match self.stage {
                StreamStage::Events if self.sent < self.plan.count => {
                    ready!(self.poll_due(cx));
                    let number = self.sent;
                    self.sent += 1;
                    return Poll::Ready(Some(Ok(self.encoded(&self.event(number)))));
                }
                StreamStage::Events => self.stage = StreamStage::Ending,
                StreamStage::Ending => {
                    let last = match (self.plan.ending, self.plan.form) {
                        (StreamEnding::Stall, _) => return Poll::Pending,
                        (StreamEnding::Plain, _) => "",
                        (StreamEnding::Done, EventForm::ServerSent) => "data: [DONE]\n\n",
                        (StreamEnding::Done, EventForm::Lines) => "[DONE]\n",
                        (StreamEnding::Half, _) => "data: {\"n\":",
                        (StreamEnding::Cut, _) => {
                            // Without a pause, the last event might be lost.
                            ready!(self.poll_due(cx));
                            let cut = io::ErrorKind::ConnectionAborted;
                            return Poll::Ready(Some(Err(cut.into())));
                        }
                    };
                    self.stage = StreamStage::Last;
                    if !last.is_empty() {
                        return Poll::Ready(Some(Ok(self.encoded(last))));
                    }
                }
                StreamStage::Last => {
                    self.stage = StreamStage::Over;
                    // Writing to memory can't fail.
                    let rest = self.gzip.take().and_then(|gzip| gzip.finish().ok());
                    if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
                        return Poll::Ready(Some(Ok(rest.into())));
                    }
                }
                StreamStage::Over => return Poll::Ready(None),
            }
        }
    }

    /// Waits until the next event is due, or would be due after the last one.
    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let pause = match &mut self.pause {
            Some(pause) => pause,
            None => {
                let due = self.begun + self.plan.after + self.plan.every * self.sent;
                let alarm = Rc::clone(&self.alarm);
                self.pause
                    .insert(Box::pin(async move { alarm.until(due).await }))
            }
        };
        ready!(pause.as_mut().poll(cx));
        self.pause = None;
        Poll::Ready(())
    }

    fn event(&self, number: u32) -> String {
        let json = format!("{{\"n\":{number},\"text\":\"event {number}\"}}");
        match self.plan.form {
            EventForm::ServerSent => format!(": comment\n\nid: {number}\ndata: {json}\n\n"),
            EventForm::Lines => json + "\n",
        }
    }

    /// Returns the text, with the body's content coding.
    fn encoded(&mut self, text: &str) -> Bytes {
        let Some(gzip) = &mut self.gzip else {
            return Bytes::copy_from_slice(text.as_bytes());
        };
        // Writing to memory can't fail.
        let _ = gzip.write_all(text.as_bytes()).and_then(|()| gzip.flush());
        std::mem::take(gzip.get_mut()).into()
    }
}
