//! Parser of a file with one request per line: `URL`, `URL POST body`, `URL POST <file`, or a JSON
//! object; `#` begins a comment.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::error::Category;

use crate::values::error::SettingsError;
use crate::values::input_file::{self, DATA_BYTES_MAX};
use crate::values::placeholder::skip_placeholder;
use crate::values::status_set::StatusSet;

/// A request that one line of the list describes. A line without a method gets the method given by
/// flags. If the line has no body either, it also gets the body given by flags.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ListedRequest<'a> {
    /// The URL, absolute or a path on the load's own target.
    pub(crate) url: Cow<'a, str>,
    /// The gRPC method that the line calls, if it calls one. Its URL may then be empty.
    pub(crate) grpc: Option<String>,
    /// The method, if the line has one.
    pub(crate) method: Option<Cow<'a, str>>,
    /// Headers on the line. They replace headers of the same name that are given by flags.
    pub(crate) headers: Vec<(String, String)>,
    /// The body, if the line has one.
    pub(crate) body: ListedBody<'a>,
    /// Weight in the order `weighted`, relative to other requests.
    pub(crate) weight: Option<f64>,
    /// Statuses that count as success, in place of those given by flags.
    pub(crate) expect_status: Option<StatusSet>,
    /// Line number in the file, counted from 1.
    pub(crate) number: usize,
}

/// Body of a request, as written after the method.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ListedBody<'a> {
    None,
    Text(Cow<'a, str>),
    /// Name of the file that contains the body.
    File(&'a str),
}

/// A list that has been read, but not parsed.
pub(crate) struct UrlList {
    text: Cow<'static, str>,
    /// Path of the file, as shown in messages.
    shown: String,
    /// Folder of the list. File names in the list are relative to it.
    folder: PathBuf,
}

impl UrlList {
    /// Reads the file at `path`.
    ///
    /// # Errors
    ///
    /// The file can't be read, is not UTF-8 or contains no request.
    pub(crate) fn read(path: &Path) -> Result<UrlList, SettingsError> {
        let list = UrlList {
            text: read_text(path)?,
            shown: if path == Path::new(STDIN) {
                "standard input".to_owned()
            } else {
                path.display().to_string()
            },
            folder: folder_of(path).to_owned(),
        };
        if let Some(kind) = foreign_format(&list.text) {
            return Err(of_file(path, kind));
        }
        match list.len() {
            0 => Err(of_file(
                path,
                "the file contains no URL; write one per line",
            )),
            _ => Ok(list),
        }
    }

    /// Number of requests in the list.
    pub(crate) fn len(&self) -> usize {
        request_lines(&self.text).count()
    }

    /// Parses the requests one by one.
    pub(crate) fn requests(
        &self,
    ) -> impl Iterator<Item = Result<ListedRequest<'_>, SettingsError>> {
        requests(&self.text).map(|(number, line)| {
            let request = match line {
                Line::Plain(parts) => plain_request(parts, number),
                Line::Json(text) => json_request(text, number),
            };
            request.map_err(|error| self.at_line(number, error))
        })
    }

    /// Reads the file with the body of the request on this line.
    ///
    /// # Errors
    ///
    /// The file can't be read.
    pub(crate) fn read_body(&self, name: &str, number: usize) -> Result<Vec<u8>, SettingsError> {
        let file = self.folder.join(name);
        input_file::read_file(&file, DATA_BYTES_MAX)
            .map_err(|error| self.at_line(number, format!("{}: {error}", file.display())))
    }

    /// A line's place, for messages about it.
    pub(crate) fn place(&self, number: usize) -> String {
        format!("{}:{number}", self.shown)
    }

    /// Adds the place of a line to an error.
    pub(crate) fn at_line(&self, number: usize, error: impl Into<SettingsError>) -> SettingsError {
        let at_line = SettingsError::about("urls").at(self.place(number));
        at_line.append(error.into())
    }
}

/// Returns the paths of the files that contain the bodies of the requests. A relative path in the
/// list is joined to the list's folder.
///
/// # Errors
///
/// Fails like [`UrlList::read`] if the list itself can't be read.
pub(crate) fn bodies(path: &Path) -> Result<Vec<PathBuf>, SettingsError> {
    let text = read_text(path)?;
    let named = requests(&text).filter_map(|(_, line)| match line {
        Line::Plain(LineParts {
            body: ListedBody::File(name),
            ..
        }) => Some(folder_of(path).join(name)),
        _ => None,
    });
    Ok(named.collect())
}

/// Returns the gRPC methods that a list names. A list that can't be read has none.
pub(crate) fn grpc_methods(path: &Path) -> Vec<String> {
    let text = read_text(path).unwrap_or_default();
    let methods = requests(&text).filter_map(|(number, line)| match line {
        Line::Json(text) if text.contains("\"grpc\"") => json_request(text, number).ok()?.grpc,
        Line::Json(_) | Line::Plain(_) => None,
    });
    methods.collect()
}

/// Splits a line `URL METHOD <FILE` before the file's name. Returns `None` for other lines.
pub fn split_body_file(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    match requests(line).next()? {
        (
            _,
            Line::Plain(LineParts {
                body: ListedBody::File(name),
                ..
            }),
        ) => {
            let before = line.strip_suffix(name)?.trim_end().strip_suffix('<')?;
            Some((before, name))
        }
        _ => None,
    }
}

/// Path that stands for standard input.
const STDIN: &str = "-";

/// Reads the text of a list. Standard input is read once, because a list may be needed several
/// times: before a load, for each variant of an experiment, and for agents.
///
/// # Errors
///
/// The file can't be read, or is not UTF-8.
pub fn read_text(path: &Path) -> Result<Cow<'static, str>, SettingsError> {
    static STDIN_TEXT: OnceLock<Result<String, SettingsError>> = OnceLock::new();
    let read = |file: &Path| {
        let bytes = input_file::read_file(file, DATA_BYTES_MAX)
            .map_err(|error| of_file(path, &error.to_string()))?;
        input_file::decode(bytes).map_err(|error| of_file(path, error))
    };
    if path != Path::new(STDIN) {
        return read(path).map(Cow::Owned);
    }
    let text = STDIN_TEXT.get_or_init(|| read(Path::new("/dev/stdin")));
    text.as_deref().map(Cow::Borrowed).map_err(Clone::clone)
}

/// Returns the reason why a file in another program's format can't be used, if it is one.
fn foreign_format(text: &str) -> Option<&'static str> {
    let (_, first) = request_lines(text).next()?;
    let lacks_url = |line: &str| {
        let object: Option<serde_json::Map<String, serde_json::Value>> =
            serde_json::from_str(line).ok();
        object.is_some_and(|object| !["url", "grpc"].iter().any(|key| object.contains_key(*key)))
    };
    let is_cell = |cell: &str| {
        let mut chars = cell.trim_matches('"').chars();
        chars.next().is_some_and(|c| c.is_ascii_alphabetic())
            && chars.all(|c| c.is_ascii_alphanumeric() || "_- ".contains(c))
    };
    match first {
        "{" if text.contains("\"log\"") && text.contains("\"entries\"") => Some(HAR),
        _ if first.starts_with('{') && first.contains("\"log\"") && lacks_url(first) => Some(HAR),
        _ if first.contains("] \"") && first.contains(" HTTP/") => Some(ACCESS_LOG),
        "{" | "[" | "[{" => Some(JSON),
        _ if first.starts_with('[') && first.ends_with(']') => Some(JSON),
        _ if first.starts_with('{') && !first.starts_with("{{") && lacks_url(first) => {
            Some(JSON_LINES)
        }
        _ if first.contains(',') && first.split(',').all(is_cell) => Some(CSV),
        _ => None,
    }
}

const HAR: &str = "this is a HAR file, not a list of URLs; write one URL per line, for example with \
                   jq -r '.log.entries[].request.url', or send its requests with --replay";
const JSON: &str = "this is a JSON document, not a list of URLs; write one URL, or one JSON object \
                    such as {\"url\": \"/a\", \"method\": \"POST\"}, per line";
const ACCESS_LOG: &str =
    "this looks like an access log, not a list of URLs; send its requests with --replay";
const JSON_LINES: &str = "these JSON lines have no \"url\"; write a JSON request like {\"url\": \
                          \"/a\", \"method\": \"POST\"} on each line";
const CSV: &str = "this is a CSV file, not a list of URLs; write one URL per line, or use the \
                   columns as {{ values }} in URLs with --data";

fn of_file(path: &Path, error: &str) -> SettingsError {
    SettingsError::value("urls", path.display()).text(format!(": {error}"))
}

/// Folder of the list. File names in the list are relative to it.
fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

/// A line with a request.
enum Line<'a> {
    Plain(LineParts<'a>),
    Json(&'a str),
}

/// The parts of a plain line.
struct LineParts<'a> {
    url: &'a str,
    method: &'a str,
    body: ListedBody<'a>,
}

/// Returns every line that contains a request, with its line number.
fn requests(text: &str) -> impl Iterator<Item = (usize, Line<'_>)> {
    request_lines(text).map(|(number, text)| {
        if text.starts_with('{') && !text.starts_with("{{") {
            return (number, Line::Json(text));
        }
        let (url, rest) = split_word(text);
        // A comment may follow the URL.
        let rest = if rest.starts_with('#') { "" } else { rest };
        let (method, body) = split_word(rest);
        let body = match (body, body.strip_prefix('<')) {
            (_, Some(file)) => ListedBody::File(file.trim()),
            ("", None) => ListedBody::None,
            (text, None) => ListedBody::Text(Cow::Borrowed(text)),
        };
        (number, Line::Plain(LineParts { url, method, body }))
    })
}

/// Returns the text and number of every line that contains a request.
fn request_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#'))
}

/// Returns true if `text` contains no whitespace, except within `{{ … }}`.
pub fn is_one_word(text: &str) -> bool {
    split_word(text).0 == text
}

/// Splits `text` after its first word. Whitespace within `{{ … }}` doesn't end the word.
fn split_word(text: &str) -> (&str, &str) {
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        if next.is_whitespace() {
            break;
        }
        at += skip_placeholder(&text[at..]).unwrap_or(next.len_utf8());
    }
    (&text[..at], text[at..].trim_start())
}

fn plain_request(parts: LineParts<'_>, number: usize) -> Result<ListedRequest<'_>, SettingsError> {
    if !parts.method.is_empty() && !is_method(parts.method) {
        let error = SettingsError::from(format!("\"{}\" is not a method", parts.method));
        return Err(error.hint(match parts.method {
            // The common log format: address, identity, user, time in brackets.
            "-" => "this looks like an access log, and a list has one URL per line",
            _ => "write URL, URL METHOD or URL METHOD BODY",
        }));
    }
    Ok(ListedRequest {
        url: Cow::Borrowed(parts.url),
        grpc: None,
        method: (!parts.method.is_empty()).then_some(Cow::Borrowed(parts.method)),
        headers: Vec::new(),
        body: parts.body,
        weight: None,
        expect_status: None,
        number,
    })
}

/// Returns true for a token (RFC 9110 §5.6.2) that begins with a letter, as all registered methods
/// do.
fn is_method(word: &str) -> bool {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    word.starts_with(|c: char| c.is_ascii_alphabetic()) && word.chars().all(is_token)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonRequest {
    url: Option<String>,
    method: Option<String>,
    headers: Option<JsonHeaders>,
    body: Option<String>,
    weight: Option<Weight>,
    expect_status: Option<StatusSet>,
    grpc: Option<String>,
}

/// A number in JSON. Unlike that of `f64`, its error message says so in plain words.
struct Weight(f64);

impl<'de> Deserialize<'de> for Weight {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Weight, D::Error> {
        struct WeightVisitor;
        impl Visitor<'_> for WeightVisitor {
            type Value = Weight;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_f64<E>(self, number: f64) -> Result<Weight, E> {
                Ok(Weight(number))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Weight, E> {
                Ok(Weight(number as f64))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Weight, E> {
                Ok(Weight(number as f64))
            }
        }
        deserializer.deserialize_f64(WeightVisitor)
    }
}

/// Headers in JSON: an object of strings.
struct JsonHeaders(Vec<(String, String)>);

impl<'de> Deserialize<'de> for JsonHeaders {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonHeaders, D::Error> {
        struct HeaderVisitor;
        impl<'de> Visitor<'de> for HeaderVisitor {
            type Value = JsonHeaders;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("headers such as {\"Accept\": \"text/html\"}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonHeaders, A::Error> {
                let mut headers: Vec<(String, String)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, String>()? {
                    if headers
                        .iter()
                        .any(|(own, _)| own.eq_ignore_ascii_case(&name))
                    {
                        return Err(A::Error::custom(format!("header {name} is given twice")));
                    }
                    headers.push((name, value));
                }
                Ok(JsonHeaders(headers))
            }
        }
        deserializer.deserialize_map(HeaderVisitor)
    }
}

/// Maximum weight of a request. The limit keeps sums of weights finite.
const WEIGHT_MAX: f64 = 1e9;

fn json_request(text: &str, number: usize) -> Result<ListedRequest<'static>, SettingsError> {
    let request: JsonRequest = serde_json::from_str(text).map_err(|error| json_error(&error))?;
    let weight = request.weight.map(|weight| weight.0);
    let is_weight = |weight: &f64| *weight > 0.0 && *weight <= WEIGHT_MAX;
    if let Some(weight) = weight.filter(|weight| !is_weight(weight)) {
        let cause = format!("\"weight\": {weight}: must be above 0 and at most {WEIGHT_MAX}");
        let error = SettingsError::from(cause);
        return Err(error.hint("to omit a request, begin its line with #"));
    }
    let (url, grpc) = match (request.url, request.grpc) {
        (None, None) => {
            let error = SettingsError::from("the request has neither \"url\" nor \"grpc\"");
            return Err(error.hint("write a JSON request like {\"url\": \"/a\"}"));
        }
        (url, grpc) => (url.unwrap_or_default(), grpc),
    };
    Ok(ListedRequest {
        url: Cow::Owned(url),
        grpc,
        method: request.method.map(Cow::Owned),
        headers: request.headers.map_or_else(Vec::new, |headers| headers.0),
        body: match request.body {
            Some(text) => ListedBody::Text(Cow::Owned(text)),
            None => ListedBody::None,
        },
        weight,
        expect_status: request.expect_status,
        number,
    })
}

/// Returns the message of a JSON error, without its line number: each line is parsed separately, so
/// that number is always 1.
fn json_error(error: &serde_json::Error) -> SettingsError {
    let (text, column) = (error.to_string(), error.column());
    let place = format!(" at line {} column {column}", error.line());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    let error_at = SettingsError::from(format!("column {column}: {text}"));
    match error.classify() {
        Category::Data | Category::Io => error_at,
        Category::Eof => error_at.hint("write a JSON request on one line"),
        Category::Syntax => {
            error_at.hint("write a JSON request like {\"url\": \"/a\", \"method\": \"POST\"}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> UrlList {
        UrlList {
            text: Cow::Owned(text.to_owned()),
            shown: "urls.txt".to_owned(),
            folder: PathBuf::from("/nowhere"),
        }
    }

    fn parsed(text: &UrlList) -> Vec<ListedRequest<'_>> {
        text.requests().map(Result::unwrap).collect()
    }

    fn error(text: &str) -> String {
        let list = list(text);
        let error = list.requests().find_map(Result::err).unwrap();
        error.to_string()
    }

    fn text(body: &str) -> ListedBody<'_> {
        ListedBody::Text(body.into())
    }

    #[test]
    fn every_form_of_a_line_is_parsed() {
        let list =
            list("# pages\n\n/a\nhttp://h/b  POST  name=x y\r\n/c PUT <body.bin\n/d DELETE\n");
        let lines = parsed(&list);
        assert_eq!(list.len(), lines.len());
        let short: Vec<_> = lines
            .iter()
            .map(|line| (line.number, &*line.url, line.method.as_deref()))
            .collect();
        assert_eq!(
            short,
            [
                (3, "/a", None),
                (4, "http://h/b", Some("POST")),
                (5, "/c", Some("PUT")),
                (6, "/d", Some("DELETE"))
            ]
        );
        assert_eq!(lines[1].body, text("name=x y"));
        assert_eq!(lines[2].body, ListedBody::File("body.bin"));
    }

    #[test]
    fn comments_follow_urls_and_logs_are_refused() {
        let list = list("/a # note\n/b#fragment POST x\n");
        let lines = parsed(&list);
        assert_eq!(
            (&*lines[0].url, &lines[0].method, &lines[0].body),
            ("/a", &None, &ListedBody::None)
        );
        assert_eq!(lines[1].method.as_deref(), Some("POST"));
        let log = "127.0.0.1 - - [28/Nov/2026:09:00:00 +0000] \"GET / HTTP/1.1\" 200 2";
        for (line, expected) in [
            (log, "this looks like an access log"),
            ("/a 200", "\"200\" is not a method"),
            ("/a PO(ST", "is not a method; write URL"),
        ] {
            let error = error(line);
            assert!(
                error.starts_with("urls.txt:1: ") && error.contains(expected),
                "{error}"
            );
        }
    }

    #[test]
    fn blanks_in_placeholders_belong_to_the_url() {
        let list = list("/a/{{ id }}?n={{ 'x y' }} POST n={{ seq }}\n/b/{{ id }}\n/c{{ open POST");
        let lines = parsed(&list);
        assert_eq!(lines[0].url, "/a/{{ id }}?n={{ 'x y' }}");
        assert_eq!(lines[0].method.as_deref(), Some("POST"));
        assert_eq!(lines[0].body, text("n={{ seq }}"));
        assert_eq!(lines[1].url, "/b/{{ id }}");
        assert_eq!(lines[2].url, "/c{{");
    }

    #[test]
    fn json_lines_stand_between_plain_ones() {
        let list = list(
            "/a\n  {\"url\": \"/b\", \"method\": \"PUT\", \"headers\": {\"X-A\": \"1\"}, \
                    \"body\": \"<x\", \"weight\": 2.5, \"expect_status\": \"201,404\"}\n/c\n\
                    {\"url\": \"/d\", \"expect_status\": 204}",
        );
        let lines = parsed(&list);
        let json = &lines[1];
        assert_eq!((&*json.url, json.number), ("/b", 2));
        assert_eq!(json.method.as_deref(), Some("PUT"));
        assert_eq!(json.headers, [("X-A".to_owned(), "1".to_owned())]);
        assert_eq!(json.body, text("<x"));
        assert_eq!(json.weight, Some(2.5));
        let statuses = json.expect_status.as_ref().unwrap();
        assert_eq!(statuses.to_string(), "201,404");
        assert_eq!(lines[2].url, "/c");
        let statuses = lines[3].expect_status.as_ref().unwrap();
        assert!(statuses.contains(204) && !statuses.contains(200));
    }

    #[test]
    fn bad_json_names_its_line() {
        for (line, expected) in [
            (
                "{\"url\": \"/\", \"metod\": \"PUT\"}",
                "unknown field `metod`, expected one of `url`, `method`",
            ),
            ("{\"method\": \"PUT\"}", "neither \"url\" nor \"grpc\""),
            ("{\"url\": \"/\"", "on one line"),
            ("{\"url\": \"/\"} x", "trailing characters"),
            ("{url: 1}", "a JSON request like"),
            ("{\"url\": \"/\", \"body\": {}}", "expected a string"),
            (
                "{\"url\": \"/\", \"headers\": [\"A: b\"]}",
                "headers such as",
            ),
            (
                "{\"url\": \"/\", \"headers\": {\"A\": \"1\", \"a\": \"2\"}}",
                "twice",
            ),
            ("{\"url\": \"/\", \"weight\": 0}", "must be above 0"),
            ("{\"url\": \"/\", \"weight\": -1}", "must be above 0"),
            ("{\"url\": \"/\", \"weight\": \"2\"}", "expected a number"),
            (
                "{\"url\": \"/\", \"expect_status\": \"ok\"}",
                "not a list of statuses",
            ),
            ("{\"url\": \"/\", \"url\": \"/\"}", "duplicate field"),
        ] {
            let error = error(&format!("/a\n{line}\n"));
            assert!(error.starts_with("urls.txt:2: "), "{error}");
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn files_of_other_programs_are_recognized() {
        for (text, kind) in [
            ("{\"log\": {\"entries\": []}}", Some(HAR)),
            (
                "{\n  \"log\": {\n \"version\": \"1.2\",\n \"entries\": []}}",
                Some(HAR),
            ),
            ("[\n{\"url\": \"/a\"}]", Some(JSON)),
            ("[\"/a\", \"/b\"]", Some(JSON)),
            ("{\"path\": \"/a\"}\n{\"path\": \"/b\"}", Some(JSON_LINES)),
            ("id,name\n1,x\n", Some(CSV)),
            ("\"id\",\"full name\"\n1,x\n", Some(CSV)),
            (
                "::1 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200 5\n",
                Some(ACCESS_LOG),
            ),
            ("# list\n/a,b\n", None),
            ("localhost\nexample.test/a,b\n", None),
            ("{\"url\": \"/a\"}\n", None),
            ("{\"url\": \"/\", \"metod\": 1}\n", None),
            ("{{ host }}", None),
            ("[::1]:80/a", None),
        ] {
            assert_eq!(foreign_format(text), kind, "{text}");
        }
    }

    #[test]
    fn body_files_are_split_off() {
        assert_eq!(
            split_body_file(" /q POST  <../a "),
            Some(("/q POST  ", "../a"))
        );
        assert_eq!(
            split_body_file("/{{ a }} PUT <b c"),
            Some(("/{{ a }} PUT ", "b c"))
        );
        for line in [
            "# /x POST <n",
            "/t POST x<y",
            "/p",
            "",
            "{\"url\": \"/\", \"body\": \"<x\"}",
        ] {
            assert_eq!(split_body_file(line), None, "{line}");
        }
    }

    #[test]
    fn errors_name_file_and_line() {
        let error = list("").read_body("none", 2).unwrap_err();
        assert!(
            error.to_string().starts_with("urls.txt:2: /nowhere/none: "),
            "{error}"
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("empty.txt");
        std::fs::write(&file, "# nothing\n").unwrap();
        assert!(
            UrlList::read(&file)
                .err()
                .unwrap()
                .to_string()
                .contains("contains no URL")
        );
        std::fs::write(&file, b"\xff\xfe").unwrap();
        let error = UrlList::read(&file).err().unwrap();
        assert!(error.to_string().contains("UTF-8"));
    }
}
