//! Logs in JSON: one object per line, or a HAR file.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::rc::Rc;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};

use super::logged::{LoggedRequest, SkipReason};
use super::stamp::Stamp;

/// Maximum size of an entry of a HAR file, in bytes.
const ENTRY_BYTES_MAX: usize = 32 << 20;

const TIMES: &[&str] = &[
    "msec",
    "ts",
    "time",
    "timestamp",
    "@timestamp",
    "time_iso8601",
    "time_local",
    "StartUTC",
    "date",
];
const CLIENTS: &[&str] = &[
    "remote_addr",
    "client_ip",
    "remote_ip",
    "client",
    "clientip",
    "ClientHost",
    "ip",
    "addr",
];
const METHODS: &[&str] = &["method", "request_method", "RequestMethod", "verb"];
const TARGETS: &[&str] = &["request_uri", "uri", "url", "path", "RequestPath", "target"];
const QUERIES: &[&str] = &["args", "query_string", "query"];
const STATUSES: &[&str] = &["status", "status_code", "DownstreamStatus", "code"];

/// Reads a line with a JSON object. Fields are found by their usual names, at the top or in
/// `request`, as Caddy nests them.
pub(super) fn read_line(line: &[u8], to: &mut LoggedRequest) -> Result<(), SkipReason> {
    to.clear();
    let object: Map<String, Value> =
        serde_json::from_slice(line).map_err(|_| SkipReason::Format)?;
    let nested = object.get("request").and_then(Value::as_object);
    let text = |names: &[&str]| {
        let mut objects = [Some(&object), nested].into_iter().flatten();
        let value = objects.find_map(|object| names.iter().find_map(|name| object.get(*name)))?;
        match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    };
    let client = text(CLIENTS);
    to.set_client(client.as_deref().unwrap_or_default().as_bytes());
    to.stamp = text(TIMES).and_then(|text| Stamp::parse(text.as_bytes()));
    to.set_status(text(STATUSES).unwrap_or_default().as_bytes());
    to.body
        .extend_from_slice(text(&["body"]).unwrap_or_default().as_bytes());
    if let Some(line) = object.get("request").and_then(Value::as_str) {
        return to.set_request_line(line.as_bytes());
    }
    let mut target = text(TARGETS).ok_or(SkipReason::NoRequest)?;
    if !target.contains('?')
        && let Some(query) = text(QUERIES).filter(|it| !it.is_empty())
    {
        target.push('?');
        target.push_str(query.trim_start_matches('?'));
    }
    to.set_method(text(METHODS).as_deref().unwrap_or("GET").as_bytes())?;
    to.set_target(target.as_bytes())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HarEntry {
    started_date_time: Option<String>,
    request: Option<HarRequest>,
    response: Option<HarResponse>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HarRequest {
    method: String,
    url: String,
    post_data: Option<HarBody>,
}

#[derive(Deserialize)]
struct HarBody {
    text: Option<String>,
}

#[derive(Deserialize)]
struct HarResponse {
    status: Option<i64>,
}

impl HarEntry {
    fn read(self, to: &mut LoggedRequest) -> Result<(), SkipReason> {
        to.clear();
        let request = self.request.ok_or(SkipReason::NoRequest)?;
        let time = self.started_date_time.unwrap_or_default();
        to.stamp = Stamp::parse(time.as_bytes());
        let status = self.response.and_then(|it| it.status).unwrap_or(0);
        to.set_status(status.to_string().as_bytes());
        to.set_client(b"har");
        let body = request.post_data.and_then(|it| it.text);
        to.body
            .extend_from_slice(body.unwrap_or_default().as_bytes());
        to.set_method(request.method.as_bytes())?;
        to.set_target(request.url.as_bytes())
    }
}

/// Receives each entry with its number, from 1.
pub(super) type EntrySink<'a> =
    &'a mut dyn FnMut(u64, Result<&LoggedRequest, SkipReason>) -> ControlFlow<()>;

/// Reads the entries of a HAR file one by one.
///
/// # Errors
///
/// The file can't be read, or is no HAR file.
pub(super) fn read_har(source: impl Read, sink: EntrySink<'_>) -> io::Result<()> {
    let left = Rc::new(Cell::new(ENTRY_BYTES_MAX));
    let limited = EntryLimit {
        source: io::BufReader::new(source),
        left: left.clone(),
    };
    let mut is_ended = false;
    let file = HarFile {
        sink,
        left,
        is_ended: &mut is_ended,
        path: &["log", "entries"],
    };
    let mut from = serde_json::Deserializer::from_reader(limited);
    match file.deserialize(&mut from) {
        Err(_) if is_ended => Ok(()),
        Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        Ok(()) => Ok(()),
    }
}

/// Ends the input if a single entry is too long.
struct EntryLimit<R> {
    source: R,
    left: Rc<Cell<usize>>,
}

impl<R: Read> Read for EntryLimit<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(to)?;
        let left = self.left.get().checked_sub(count);
        self.left
            .set(left.ok_or_else(|| io::Error::other("an entry is longer than 32 MiB"))?);
        Ok(count)
    }
}

/// The part of a HAR file that contains the entries, below these keys.
struct HarFile<'a, 's> {
    sink: EntrySink<'s>,
    left: Rc<Cell<usize>>,
    is_ended: &'a mut bool,
    path: &'static [&'static str],
}

impl<'de> DeserializeSeed<'de> for HarFile<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        if self.path.is_empty() {
            from.deserialize_seq(self)
        } else {
            from.deserialize_map(self)
        }
    }
}

impl<'de> Visitor<'de> for HarFile<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a HAR file with log.entries")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut found = false;
        while let Some(key) = map.next_key::<String>()? {
            self.left.set(ENTRY_BYTES_MAX);
            if key == self.path[0] {
                found = true;
                map.next_value_seed(HarFile {
                    sink: &mut *self.sink,
                    left: self.left.clone(),
                    is_ended: &mut *self.is_ended,
                    path: &self.path[1..],
                })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if found {
            Ok(())
        } else {
            Err(A::Error::custom(format!(
                "no \"{}\" in the file",
                self.path[0]
            )))
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut request = LoggedRequest::default();
        for number in 1.. {
            self.left.set(ENTRY_BYTES_MAX);
            let Some(entry) = entries.next_element::<HarEntry>()? else {
                break;
            };
            let read = entry.read(&mut request).map(|()| &request);
            if (self.sink)(number, read).is_break() {
                *self.is_ended = true;
                return Err(A::Error::custom("the load has ended"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_line(line: &str) -> Result<(String, String, i64, u16), SkipReason> {
        let mut request = LoggedRequest::default();
        read_line(line.as_bytes(), &mut request)?;
        let path = String::from_utf8(request.path).unwrap();
        let ms = request.stamp.map_or(-1, |stamp| stamp.ns / 1_000_000);
        Ok((request.method, path, ms, request.status))
    }

    #[test]
    fn lines_of_several_programs_are_read() {
        for (line, expected) in [
            (
                r#"{"ts":1646861401.524,"request":{"remote_ip":"::1","method":"HEAD","uri":"/a?b"},"status":200}"#,
                ("HEAD", "/a?b", 1_646_861_401_524, 200),
            ),
            (
                r#"{"time":"2024-01-02T03:04:05Z","request":"GET /x HTTP/1.1","status":"404"}"#,
                ("GET", "/x", 1_704_164_645_000, 404),
            ),
            (
                r#"{"@timestamp":1646861401524,"verb":"GET","path":"/p","query":"q=1"}"#,
                ("GET", "/p?q=1", 1_646_861_401_524, 0),
            ),
        ] {
            let expected = (
                expected.0.to_owned(),
                expected.1.to_owned(),
                expected.2,
                expected.3,
            );
            assert_eq!(of_line(line), Ok(expected), "{line}");
        }
        assert_eq!(of_line("{\"a\":"), Err(SkipReason::Format));
        assert_eq!(of_line("{\"a\":1}"), Err(SkipReason::NoRequest));
    }

    #[test]
    fn har_files_are_read_entry_by_entry() {
        let text = r#"{"x":[1],"log":{"version":"1.2","entries":[
            {"startedDateTime":"2024-01-02T03:04:05.5Z","request":{"method":"GET","url":"https://h.test/a?b"},
             "response":{"status":200,"content":{"text":"long"}}},
            {"request":{"method":"POST","url":"https://h.test/f","postData":{"text":"x=1"}}},
            {"response":{}}],"pages":[]}}"#;
        let mut seen = Vec::new();
        read_har(text.as_bytes(), &mut |number, read| {
            let shown = |it: &LoggedRequest| {
                format!(
                    "{} {} {:?}",
                    it.method,
                    String::from_utf8_lossy(&it.path),
                    it.body
                )
            };
            seen.push((number, read.map(shown)));
            ControlFlow::Continue(())
        })
        .unwrap();
        let expected = [
            (1, Ok("GET /a?b []".to_owned())),
            (2, Ok("POST /f [120, 61, 49]".to_owned())),
            (3, Err(SkipReason::NoRequest)),
        ];
        assert_eq!(seen, expected);
        for text in [
            "",
            "{}",
            "[]",
            "{\"log\":{\"entries\":{}}}",
            "{\"log\":{\"entries\":[{}",
        ] {
            let result = read_har(text.as_bytes(), &mut |_, _| ControlFlow::Continue(()));
            assert!(result.is_err(), "{text}");
        }
        let stopped = read_har(text.as_bytes(), &mut |_, _| ControlFlow::Break(()));
        assert!(stopped.is_ok());
    }
}
