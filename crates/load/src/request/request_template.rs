//! Requests that differ each time they are sent, in the values of placeholders or in their cookies.
//!
//! A [`RequestTemplate`] is created once from a serialized request with marks. It contains the
//! fixed bytes and the positions of the values. [`RequestTemplate::render`] writes one request into
//! a [`Request`] whose buffers are reused.

use std::sync::Arc;
use std::time::SystemTime;

use prony_protocol::h1::{RequestError, asks_to_close};
use prony_protocol::h2::RequestScheme;
use prony_protocol::{h2, h3, write_decimal};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::request::draft::RequestDraft;
use crate::request::long_list::LineTexts;
use crate::request::template::{MarkedPiece, Marks, Value, ValueSource, VariableValues};
use crate::request::{Request, RequestParts, SerializedParts};
use crate::settings::LoadSettings;
use crate::target::http_proxy::ResolvedProxy;
use crate::values::cookies::{CookieJar, CookieUrl};
use crate::values::error::{SettingsError, SpecError};

/// The requests of a list that differ each time they are sent.
#[derive(Debug, Default)]
pub(crate) struct RequestTemplates {
    /// Templates by index of the request or form.
    templates: Vec<Option<RequestTemplate>>,
    /// Number of rows in the data file; 1 if there is none.
    rows: usize,
}

impl RequestTemplates {
    /// Creates the templates of a list of requests; `None` if no request of the list has a
    /// template.
    pub(crate) fn new(
        templates: Vec<Option<RequestTemplate>>,
        rows: usize,
    ) -> Option<RequestTemplates> {
        let has_any = templates.iter().any(Option::is_some);
        has_any.then_some(RequestTemplates { templates, rows })
    }

    /// The template of a request or form, if it has one.
    #[inline]
    pub(crate) fn get(&self, form: u32) -> Option<&RequestTemplate> {
        self.templates.get(form as usize)?.as_ref()
    }

    /// Number of rows in the data file; 1 if there is none.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }
}

/// A request with placeholders or cookies.
#[derive(Debug)]
pub(crate) struct RequestTemplate {
    /// The values, each computed once per request.
    values: Vec<Value>,
    /// Head for HTTP/1; empty if only HTTP/2 or HTTP/3 is possible.
    head: Vec<HeadPiece>,
    body: BodyTemplate,
    /// True if placeholders in the Connection header may decide whether the connection closes.
    connection_varies: bool,
    /// Fields for HTTP/2 or 3, if one of them is possible.
    fields: Option<FieldsTemplate>,
    /// The parts of the request that redirects and cookies need, if the load uses either.
    origin: Option<OriginTemplate>,
}

/// Part of an HTTP/1 head.
#[derive(Debug)]
enum HeadPiece {
    Bytes(Box<[u8]>),
    Value(usize),
    /// Length of the body in decimal.
    BodyLength,
    /// Place at which an additional header is inserted.
    Further,
}

#[derive(Debug)]
enum BodyTemplate {
    Fixed {
        body: Vec<u8>,
        /// The body as framed by HTTP/1.
        framed: Vec<u8>,
    },
    Varying(Vec<MarkedPiece>),
}

/// The fields of a request for HTTP/2 or 3.
#[derive(Debug)]
struct FieldsTemplate {
    pattern: FieldsPattern,
    /// Pieces of each varying field's value.
    values: Vec<Vec<MarkedPiece>>,
}

#[derive(Debug)]
enum FieldsPattern {
    Http2(h2::RequestPattern),
    Http3(h3::RequestPattern),
}

/// The parts of a request that redirects and cookies need.
#[derive(Debug)]
struct OriginTemplate {
    marked: Arc<RequestParts>,
    path: Vec<MarkedPiece>,
    headers: Vec<Vec<MarkedPiece>>,
}

/// Buffers that are reused for successive requests.
#[derive(Debug, Default)]
pub(crate) struct RenderBuffers {
    /// The values of the request, concatenated.
    values: Vec<u8>,
    /// End of each value in `values`.
    ends: Vec<usize>,
    body: Vec<u8>,
}

impl RequestTemplate {
    /// Creates the template of a request, if the request has placeholders or the load uses cookies.
    /// `marked` is the serialized request with its marks.
    ///
    /// # Errors
    ///
    /// The request isn't valid for HTTP/2 or 3.
    pub(crate) fn of(
        draft: &RequestDraft,
        marked: &Request,
        settings: &LoadSettings,
        proxy: Option<&ResolvedProxy>,
    ) -> Result<Option<RequestTemplate>, SpecError> {
        let none = Marks::none();
        let marks = match &draft.marks {
            Some(marks) => marks,
            None if settings.uses_cookies() => &none,
            None => return Ok(None),
        };
        let parts = SerializedParts::new(draft, settings, proxy);
        let fields = FieldsTemplate::new(draft, marks, &parts)?;
        let head_bytes = head_bytes(marked.http1());
        let (head, framed) = marked.http1().split_at(head_bytes);
        let body = if draft.body_varies {
            BodyTemplate::Varying(marks.split(&draft.body))
        } else {
            BodyTemplate::Fixed {
                body: draft.body.clone(),
                framed: framed.to_vec(),
            }
        };
        Ok(Some(RequestTemplate {
            values: marks.values().to_vec(),
            head: head_pieces(head, marks, draft.body_varies),
            body,
            connection_varies: draft
                .headers
                .iter()
                .any(|(name, value)| name.eq_ignore_ascii_case("connection") && marks.is_in(value)),
            fields,
            origin: marked.origin.as_ref().map(|parts| OriginTemplate {
                path: marks.split(parts.url.path.as_bytes()),
                headers: parts
                    .headers
                    .iter()
                    .map(|(_, value)| marks.split(value.as_bytes()))
                    .collect(),
                marked: parts.clone(),
            }),
        }))
    }

    /// Creates the template of a message, if it has placeholders.
    pub(crate) fn of_message(draft: &RequestDraft) -> Option<RequestTemplate> {
        let marks = draft.marks.as_ref()?;
        Some(RequestTemplate {
            values: marks.values().to_vec(),
            head: Vec::new(),
            body: BodyTemplate::Varying(marks.split(&draft.body)),
            connection_varies: false,
            fields: None,
            origin: None,
        })
    }

    /// Draws the values of the next request into the buffers.
    pub(crate) fn draw(&self, source: &mut ValueSource<'_>, buffers: &mut RenderBuffers) {
        buffers.values.clear();
        buffers.ends.clear();
        for value in &self.values {
            source.write(value, &mut buffers.values);
            buffers.ends.push(buffers.values.len());
        }
    }

    /// Returns the Cookie header that `jar` sends at `time` with the request whose values were
    /// drawn last.
    pub(crate) fn cookie(
        &self,
        jar: &CookieJar,
        time: SystemTime,
        buffers: &RenderBuffers,
    ) -> Option<String> {
        let origin = self.origin.as_ref().filter(|_| !jar.is_empty())?;
        let url = origin.marked.url.cookie_url();
        let varying = (!self.values.is_empty()).then(|| buffers.text(&origin.path));
        let path = varying.as_deref().unwrap_or(url.path);
        jar.header(CookieUrl { path, ..url }, time)
    }

    /// Renders the request with the values drawn last into `request`, which has this template's
    /// method and target. The buffers are reused. Once they are large enough, nothing is allocated,
    /// unless redirects or cookies need the parts of the request.
    ///
    /// `further` is an optional additional header, with its name in lower case.
    pub(crate) fn render(
        &self,
        further: Option<(&str, &str)>,
        buffers: &mut RenderBuffers,
        request: &mut Request,
    ) {
        let mut varying = std::mem::take(&mut buffers.body);
        let (body, framed) = match &self.body {
            BodyTemplate::Fixed { body, framed } => (&body[..], &framed[..]),
            BodyTemplate::Varying(pieces) => {
                varying.clear();
                buffers.write(pieces, &mut varying);
                (&varying[..], &varying[..])
            }
        };
        if let Some(http1) = request.encodings.http1_mut() {
            http1.clear();
            self.write_head(body.len(), further, buffers, http1);
            http1.extend_from_slice(framed);
            if self.connection_varies {
                request.closes = asks_to_close(http1);
            }
        }
        if let Some(FieldsTemplate { pattern, values }) = &self.fields {
            let write = |number: usize, out: &mut Vec<u8>| buffers.write(&values[number], out);
            match pattern {
                FieldsPattern::Http2(pattern) => {
                    if let Some(http2) = request.encodings.http2_mut() {
                        pattern.encode(body, further, write, http2);
                    }
                }
                FieldsPattern::Http3(pattern) => {
                    if let Some(http3) = request.encodings.http3_mut() {
                        pattern.encode(body, further, write, http3);
                    }
                }
            }
        }
        request.origin = self.origin.as_ref().map(|origin| {
            if self.values.is_empty() {
                origin.marked.clone()
            } else {
                origin.parts(buffers, body)
            }
        });
        buffers.body = varying;
    }

    fn write_head(
        &self,
        body_bytes: usize,
        further: Option<(&str, &str)>,
        buffers: &RenderBuffers,
        out: &mut Vec<u8>,
    ) {
        for piece in &self.head {
            match piece {
                HeadPiece::Bytes(bytes) => out.extend_from_slice(bytes),
                HeadPiece::Value(number) => out.extend_from_slice(buffers.value(*number)),
                HeadPiece::BodyLength => write_decimal(body_bytes as u64, out),
                HeadPiece::Further => {
                    for part in further
                        .into_iter()
                        .flat_map(|(name, value)| [name, ": ", value, "\r\n"])
                    {
                        out.extend_from_slice(part.as_bytes());
                    }
                }
            }
        }
    }

    /// Renders the request that a load sends first if it begins with this entry of the list.
    pub(crate) fn first(&self, entry: usize, rows: usize, seed: u64, request: &mut Request) {
        self.first_at(entry, LineTexts::default(), rows, seed, request);
    }

    /// Like [`RequestTemplate::first`], for a line of a long list.
    pub(crate) fn first_at(
        &self,
        entry: usize,
        line: LineTexts<'_>,
        rows: usize,
        seed: u64,
        request: &mut Request,
    ) {
        let mut source = ValueSource {
            row: entry % rows,
            number: entry as u64,
            random: &mut ChaCha8Rng::seed_from_u64(seed),
            line,
            variables: VariableValues::default(),
        };
        let mut buffers = RenderBuffers::default();
        self.draw(&mut source, &mut buffers);
        self.render(None, &mut buffers, request);
    }
}

impl RenderBuffers {
    #[inline]
    fn value(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.values[start..self.ends[number]]
    }

    #[inline]
    fn write(&self, pieces: &[MarkedPiece], out: &mut Vec<u8>) {
        for piece in pieces {
            match piece {
                MarkedPiece::Bytes(bytes) => out.extend_from_slice(bytes),
                MarkedPiece::Value(number) => out.extend_from_slice(self.value(*number)),
            }
        }
    }

    fn text(&self, pieces: &[MarkedPiece]) -> String {
        let mut bytes = Vec::new();
        self.write(pieces, &mut bytes);
        // All values are UTF-8, so this can't fail.
        String::from_utf8(bytes).unwrap_or_default()
    }
}

impl FieldsTemplate {
    /// Creates the template; `None` if only HTTP/1 is possible.
    fn new(
        draft: &RequestDraft,
        marks: &Marks,
        parts: &SerializedParts<'_>,
    ) -> Result<Option<FieldsTemplate>, SpecError> {
        let is_varying = |value: &str| marks.is_in(value);
        let (spec, body_varies) = (parts.spec(), draft.body_varies);
        let wrong = |error: RequestError| SettingsError::from(error.to_string()).at(&draft.place);
        let split = |value: &str| marks.split(value.as_bytes());
        if parts.is_http3() {
            let scheme = RequestScheme::Https;
            let pattern = h3::RequestPattern::new(&spec, scheme, is_varying, body_varies);
            let pattern = pattern.map_err(wrong)?;
            let values = pattern.varying_values().map(split).collect();
            let pattern = FieldsPattern::Http3(pattern);
            return Ok(Some(FieldsTemplate { pattern, values }));
        }
        let Some(scheme) = parts.scheme() else {
            return Ok(None);
        };
        let pattern =
            h2::RequestPattern::new(&spec, scheme, is_varying, body_varies).map_err(wrong)?;
        let values = pattern.varying_values().map(split).collect();
        let pattern = FieldsPattern::Http2(pattern);
        Ok(Some(FieldsTemplate { pattern, values }))
    }
}

impl OriginTemplate {
    fn parts(&self, buffers: &RenderBuffers, body: &[u8]) -> Arc<RequestParts> {
        let mut url = self.marked.url.clone();
        url.path = buffers.text(&self.path);
        let names = self.marked.headers.iter().map(|(name, _)| name.clone());
        let values = self.headers.iter().map(|pieces| buffers.text(pieces));
        Arc::new(RequestParts {
            url,
            headers: names.zip(values).collect(),
            body: body.to_vec(),
        })
    }
}

/// Bytes that end an HTTP/1 head.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Length of the head of a serialized request.
fn head_bytes(bytes: &[u8]) -> usize {
    position_of(bytes, HEAD_END).map_or(0, |at| at + HEAD_END.len())
}

/// Splits a head at its marks and, if the body varies, at the value of Content-Length.
fn head_pieces(head: &[u8], marks: &Marks, body_varies: bool) -> Vec<HeadPiece> {
    const LENGTH: &[u8] = b"\r\nContent-Length: ";
    let Some((fields, end)) = head.split_at_checked(head.len().wrapping_sub(2)) else {
        return Vec::new();
    };
    let mut pieces = Vec::new();
    let length_at = position_of(fields, LENGTH).filter(|_| body_varies);
    match length_at.map(|at| fields.split_at(at + LENGTH.len())) {
        Some((before, number)) => {
            let digits = number.iter().take_while(|byte| byte.is_ascii_digit());
            let after = &number[digits.count()..];
            push_pieces(before, marks, &mut pieces);
            pieces.push(HeadPiece::BodyLength);
            push_pieces(after, marks, &mut pieces);
        }
        None => push_pieces(fields, marks, &mut pieces),
    }
    pieces.push(HeadPiece::Further);
    pieces.push(HeadPiece::Bytes(end.into()));
    pieces
}

fn push_pieces(bytes: &[u8], marks: &Marks, pieces: &mut Vec<HeadPiece>) {
    pieces.extend(marks.split(bytes).into_iter().map(|piece| match piece {
        MarkedPiece::Bytes(bytes) => HeadPiece::Bytes(bytes),
        MarkedPiece::Value(number) => HeadPiece::Value(number),
    }));
}

/// Returns the position of the first occurrence of `part`.
fn position_of(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

impl Request {
    /// Copies everything except the serialized bytes from another request, without sharing memory.
    pub(crate) fn adopt(&mut self, other: &Request) {
        self.expects = other.expects;
        self.kind = other.kind;
        self.idempotent = other.idempotent;
        self.closes = other.closes;
        self.target = other.target;
        self.name.clone_from(&other.name);
        self.method.clone_from(&other.method);
        self.url.clone_from(&other.url);
        self.encodings.adopt_versions(&other.encodings);
    }
}
