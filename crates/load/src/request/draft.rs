//! The requests that the settings describe, before they are serialized and before any host name is
//! looked up.

mod call;

use crate::exchange::{CallRules, RequestKind};
use crate::replay::Replay;
use crate::request::grpc::CallReader;
use crate::request::journey::{self, Journey};
use crate::request::long_list::{LongList, SERIALIZED_LINES_MAX};
use crate::request::messages::messages;
use crate::request::template::{self, DataTable, Marks, TextPiece, Value, ValueNames, ValuePlace};
use crate::settings::{self, BodyPiece, JourneyStep, LoadSettings};
use crate::values::credentials::{self, Credentials};
use crate::values::error::{SettingsError, SpecError};
use crate::values::input_file::{self, DATA_BYTES_MAX};
use crate::values::reference;
use crate::values::status_set::StatusSet;
use crate::values::url::{self, Url};
use crate::values::url_list::{ListedBody, ListedRequest, UrlList};
use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A request before it is serialized, with marks in place of its placeholders.
pub(crate) struct RequestDraft {
    pub(crate) url: Url,
    pub(crate) method: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Prefix of messages about the request: a file and line, or empty.
    pub(crate) place: String,
    /// Marks in place of the placeholders in URL, headers and body; `None` if there are no
    /// placeholders.
    pub(crate) marks: Option<Marks>,
    /// True if the body has marks.
    pub(crate) body_varies: bool,
    /// Statuses that count as success for this request. They replace the statuses in the settings.
    pub(crate) expect_status: Option<StatusSet>,
    /// The kind of a gRPC call; `None` for any other request.
    pub(crate) call: Option<RequestKind>,
}

impl RequestDraft {
    /// Creates a request without placeholders.
    pub(crate) fn plain(
        method: &str,
        url: Url,
        headers: &[(String, String)],
        body: &[u8],
    ) -> RequestDraft {
        RequestDraft {
            url,
            method: method.to_owned(),
            headers: headers.to_vec(),
            body: body.to_vec(),
            place: String::new(),
            marks: None,
            body_varies: false,
            expect_status: None,
            call: None,
        }
    }

    /// The URL as it was written, with placeholders.
    pub(crate) fn shown_url(&self) -> String {
        let text = self.url.text();
        match &self.marks {
            Some(marks) => marks.unmark(&text),
            None => text,
        }
    }
}

/// Meaning of `{{ … }}` in URLs, headers and bodies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Braces {
    /// A placeholder for a value that differs from request to request.
    #[default]
    Placeholders,
    /// Text that is sent unchanged.
    Literal,
}

/// The requests that settings describe.
#[derive(Default)]
pub(crate) struct DraftList {
    /// The requests or, if there is a long list, the forms of its lines.
    pub(crate) drafts: Vec<RequestDraft>,
    pub(crate) long_list: Option<LongList>,
    /// Weights of the requests, if any request has one. A request without a weight has weight 1.
    pub(crate) weights: Option<Vec<f64>>,
    /// Prefix of messages about the first request with a weight.
    pub(crate) weight_place: String,
    /// Number of rows in the data file; 1 if there is none.
    pub(crate) rows: usize,
    /// The journey whose steps the requests are, if the load is one.
    pub(crate) journey: Option<Journey>,
    /// Rules for the responses of gRPC calls, if requests are calls.
    pub(crate) calls: Option<CallRules>,
    /// The log whose requests are sent, if there is one. The long list has a line for each of its
    /// forms.
    pub(crate) replay: Option<Replay>,
}

/// Reads the requests that the settings describe.
///
/// # Errors
///
/// An error that names the flag, or the file and line.
pub(crate) fn drafts(
    url: Option<&str>,
    settings: &LoadSettings,
    braces: Braces,
) -> Result<DraftList, SpecError> {
    let calls = CallReader::of(settings)?;
    let list = read_drafts(url, settings, braces, calls.as_ref())?;
    let kinds = || list.drafts.iter().filter_map(|draft| draft.call);
    let rules = calls.filter(|_| kinds().next().is_some());
    if let (Some(_), Some(format)) = (&rules, settings.events) {
        let error = SettingsError::value("events", format.name());
        return Err(error.text(" can't be combined with gRPC calls").into());
    }
    let rules = rules.map(|calls| calls.rules(kinds().any(RequestKind::may_stream)));
    Ok(DraftList {
        calls: rules,
        ..list
    })
}

fn read_drafts(
    url: Option<&str>,
    settings: &LoadSettings,
    braces: Braces,
    calls: Option<&CallReader<'_>>,
) -> Result<DraftList, SpecError> {
    let data = settings.data.as_deref().map(DataTable::read).transpose()?;
    let drafter = Drafter {
        names: ValueNames {
            data: data.as_ref(),
            ..ValueNames::default()
        },
        braces,
        path_as_is: settings.path_as_is,
        calls,
    };
    let rows = data.as_ref().map_or(1, DataTable::row_count);
    let headers = headers(settings)?;
    if let Some(method) = &settings.grpc {
        let url = url.ok_or_else(|| SettingsError::from("a URL is needed"))?;
        let (server, _) = credentials::split_url(url)?;
        let (body, _) = body(settings, &[])?;
        let source = DraftSource {
            url: &server,
            base: None,
            method: "",
            headers,
            body: &body,
            place: String::new(),
            varying: VaryingParts::default(),
        };
        return Ok(DraftList {
            drafts: vec![drafter.call(method, source)?],
            rows,
            ..DraftList::default()
        });
    }
    let is_grpc = |url: &&str| url.starts_with("grpc://") || url.starts_with("grpcs://");
    if let (Some(url), None) = (url.filter(is_grpc), calls) {
        let error = SettingsError::from(format!("\"{url}\" is the URL of a gRPC server"));
        let error = error.hint("name the method to call with ");
        return Err(error.and_value("grpc", "SERVICE/METHOD").into());
    }
    if let Some(replay) = Replay::resolve(settings)? {
        let url = url.ok_or_else(|| SettingsError::from("a URL is needed: that of the target"))?;
        return drafter.replay(replay, &base_url(url)?.0, &headers, settings);
    }
    if settings.has_steps() {
        let steps = settings.journey_steps()?;
        let columns = data.as_ref().map_or(&[][..], DataTable::columns);
        let reader = StepReader {
            steps: &steps,
            variables: journey::variables(&steps, columns)?,
            base: url.map(base_url).transpose()?.map(|(base, _)| base),
            headers,
            seed: settings.seed.unwrap_or(0),
        };
        let drafts = reader.drafts(&drafter)?;
        let mut journey = Journey::new(&steps, settings, columns)?;
        if let Some(journey) = &mut journey {
            journey.decode_calls(&steps, calls)?;
            for (step, draft) in drafts.iter().enumerate() {
                let marks = draft.marks.iter();
                journey.note_uses(step, marks.flat_map(|marks| marks.values()));
            }
        }
        return Ok(DraftList {
            drafts,
            rows,
            journey,
            ..DraftList::default()
        });
    }
    if settings.has_messages() {
        let url = url.ok_or_else(|| SettingsError::from("a URL is needed"))?;
        let (server, _) = credentials::split_url(url)?;
        let messages = messages(settings)?;
        return Ok(DraftList {
            drafts: drafter.messages(&messages, &server, &headers)?,
            rows,
            ..DraftList::default()
        });
    }
    let (body, form_header) = body(settings, &headers)?;
    let Some(file) = &settings.urls else {
        let text = url.ok_or_else(|| {
            let error = SettingsError::from("a URL is needed, or ");
            error.and_value("urls", "FILE")
        })?;
        let (url, _) = credentials::split_url(text)?;
        let source = DraftSource {
            url: &url,
            base: None,
            method: settings.method(),
            headers: merged(&headers, form_header.into_iter().collect()),
            body: &body,
            place: String::new(),
            varying: VaryingParts::default(),
        };
        return Ok(DraftList {
            drafts: vec![drafter.draft(source)?],
            rows,
            ..DraftList::default()
        });
    };
    let list = UrlList::read(file)?;
    let reader = ListReader {
        drafter,
        list: &list,
        base: url.map(base_url).transpose()?.map(|(base, _)| base),
        method: settings.method(),
        headers,
        body,
        form_header,
    };
    let read = if list.len() > SERIALIZED_LINES_MAX {
        reader.long()?
    } else {
        reader.short()?
    };
    Ok(DraftList { rows, ..read })
}

/// Creates drafts from the lines of a list.
struct ListReader<'a> {
    drafter: Drafter<'a>,
    list: &'a UrlList,
    base: Option<Url>,
    /// Method given by flags.
    method: &'a str,
    headers: Vec<HeaderPair>,
    /// Body given by flags, and the header that it needs.
    body: Vec<BodyPiece>,
    form_header: Option<HeaderPair>,
}

impl ListReader<'_> {
    /// Creates one draft for each line.
    fn short(&self) -> Result<DraftList, SettingsError> {
        let mut read = DraftList::default();
        for (index, line) in self.list.requests().enumerate() {
            let line = line?;
            self.add_weight(&mut read, &line, index);
            read.drafts
                .push(self.draft(&line, VaryingParts::default())?);
        }
        Ok(read)
    }

    /// Creates the forms of a long list.
    fn long(&self) -> Result<DraftList, SettingsError> {
        let mut read = DraftList::default();
        let mut lines = LongList::default();
        let mut forms = FormIndex::default();
        for (index, line) in self.list.requests().enumerate() {
            let line = line?;
            self.add_weight(&mut read, &line, index);
            let new = read.drafts.len() as u32;
            if line.grpc.is_some() || self.drafter.has_placeholders(&line) {
                read.drafts
                    .push(self.draft(&line, VaryingParts::default())?);
                lines.push(new, "", "");
                continue;
            }
            let origin_bytes = url::origin_bytes(&line.url);
            let body = match &line.body {
                ListedBody::Text(text) if !self.sets_framing(&line) => &**text,
                _ => "",
            };
            let varying = VaryingParts {
                path: true,
                body: !body.is_empty(),
            };
            let form = forms
                .find(&line, origin_bytes, varying.body, new)
                .or_else(|new| {
                    read.drafts.push(self.draft(&line, varying)?);
                    Ok::<_, SettingsError>(new)
                })?;
            let path = &line.url[origin_bytes..];
            if url::is_plain_path(path) {
                lines.push(form, path, body)
            } else {
                lines.push(form, &self.url(&line)?.path, body)
            }
        }
        read.long_list = Some(lines);
        Ok(read)
    }

    fn add_weight(&self, read: &mut DraftList, line: &ListedRequest<'_>, index: usize) {
        if line.weight.is_some() && read.weights.is_none() {
            read.weights = Some(vec![1.0; index]);
            read.weight_place = self.list.place(line.number);
        }
        if let Some(weights) = &mut read.weights {
            weights.push(line.weight.unwrap_or(1.0));
        }
    }

    /// Returns true if headers determine the length of a line's body.
    fn sets_framing(&self, line: &ListedRequest<'_>) -> bool {
        let headers = self.headers.iter().chain(&line.headers);
        check_framing(headers).is_err()
    }

    /// Checks that a line without a scheme isn't for another host than the base URL's. It may be a
    /// word of a file that is not a list.
    fn check_host(&self, line: &ListedRequest<'_>, url: &Url) -> Result<(), SettingsError> {
        let Some(base) = &self.base else {
            return Ok(());
        };
        let is_foreign = !line.url.starts_with('/')
            && !url::has_scheme(&line.url)
            && !line.url.is_empty()
            && (&url.host, url.port) != (&base.host, base.port);
        if !is_foreign {
            return Ok(());
        }
        let host = url.host_header();
        let text = format!(
            "\"{}\" is on another server ({host}) than the load's URL; if that is intended, write \
             http://{0}; for a path, write /{0}",
            line.url,
        );
        Err(self.list.at_line(line.number, text))
    }

    /// Parses the URL of a line.
    fn url(&self, line: &ListedRequest<'_>) -> Result<Url, SettingsError> {
        let url = Url::parse(&line.url, self.base.as_ref())
            .map_err(|error| self.list.at_line(line.number, error))?;
        Ok(self.drafter.normalized(url))
    }

    fn draft(
        &self,
        line: &ListedRequest<'_>,
        varying: VaryingParts,
    ) -> Result<RequestDraft, SettingsError> {
        let own = match &line.body {
            ListedBody::None => None,
            ListedBody::Text(text) => Some(BodyPiece {
                bytes: text.as_bytes().to_vec(),
                is_from_file: false,
            }),
            ListedBody::File(name) => Some(BodyPiece {
                bytes: self.list.read_body(name, line.number)?,
                is_from_file: true,
            }),
        };
        // A line with a method is complete, so the body given by flags doesn't apply to it.
        let (body, body_header) = match (&own, &line.method) {
            (None, None) => (self.body.as_slice(), self.form_header.clone()),
            (own, _) => (own.as_slice(), None),
        };
        let own_headers = merged(&Vec::from_iter(body_header), line.headers.clone());
        let source = DraftSource {
            url: &line.url,
            base: self.base.as_ref(),
            method: line.method.as_deref().unwrap_or(self.method),
            headers: merged(&self.headers, own_headers),
            body,
            place: self.list.place(line.number),
            varying,
        };
        let draft = match &line.grpc {
            Some(name) => self.call(name, line, source)?,
            None => self.drafter.draft(source)?,
        };
        self.check_host(line, &draft.url)?;
        Ok(RequestDraft {
            expect_status: line.expect_status.clone(),
            ..draft
        })
    }
}

/// Creates drafts from the steps of a journey.
struct StepReader<'a> {
    steps: &'a [JourneyStep],
    /// The variables of the journey.
    variables: Vec<String>,
    base: Option<Url>,
    /// Headers of all steps.
    headers: Vec<HeaderPair>,
    seed: u64,
}

impl StepReader<'_> {
    fn drafts(&self, drafter: &Drafter<'_>) -> Result<Vec<RequestDraft>, SettingsError> {
        let drafts = self.steps.iter().enumerate().map(|(index, step)| {
            let drafter = Drafter {
                names: ValueNames {
                    variables: &self.variables,
                    captured: journey::variables_before(self.steps, index),
                    ..drafter.names
                },
                ..*drafter
            };
            let draft = self.draft(step, &drafter);
            draft.map_err(|error| journey::in_step(step, index, error))
        });
        drafts.collect()
    }

    fn draft(
        &self,
        step: &JourneyStep,
        drafter: &Drafter<'_>,
    ) -> Result<RequestDraft, SettingsError> {
        if step.url.is_empty() && step.grpc.is_none() {
            let error = SettingsError::from("url is missing");
            return Err(error.hint("write a path such as url = \"/login\""));
        }
        let own = merged(&self.headers, step.headers.0.clone());
        let (body, header) = self.body(step, &own)?;
        let source = DraftSource {
            url: &step.url,
            base: self.base.as_ref(),
            method: step.method(),
            headers: merged(&own, header.into_iter().collect()),
            body: &body,
            place: String::new(),
            varying: VaryingParts::default(),
        };
        let draft = match &step.grpc {
            Some(method) => self.call(method, step, (drafter, source))?,
            // The names of settings don't apply to the parts of a step.
            None => drafter
                .draft(source)
                .map_err(SettingsError::without_names)?,
        };
        Ok(RequestDraft {
            expect_status: step.expect_status.clone(),
            ..draft
        })
    }

    /// Returns the body of a step, and the header that it needs.
    fn body(
        &self,
        step: &JourneyStep,
        headers: &[HeaderPair],
    ) -> Result<(Vec<BodyPiece>, Option<HeaderPair>), SettingsError> {
        let given = [
            ("body", step.body.is_some()),
            ("body_file", step.body_file.is_some()),
            ("form", !step.form.0.is_empty()),
            ("multipart", !step.multipart.is_empty()),
        ];
        let given: Vec<&str> = given.iter().filter(|it| it.1).map(|it| it.0).collect();
        if let [one, other, ..] = given[..] {
            let error = SettingsError::from(format!("{one} can't be combined with {other}"));
            return Err(error.hint("remove one of them"));
        }
        let content_type = |value: String| Some(("Content-Type".to_owned(), value));
        let is_typed = headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let piece = |bytes, is_from_file| {
            vec![BodyPiece {
                bytes,
                is_from_file,
            }]
        };
        if let Some(text) = &step.body {
            return Ok((piece(text.clone().into_bytes(), false), None));
        }
        if let Some(file) = &step.body_file {
            let bytes = input_file::read_file(file, DATA_BYTES_MAX)
                .map_err(|error| format!("body_file: {}: {error}", file.display()))?;
            return Ok((piece(bytes, true), None));
        }
        if !step.multipart.is_empty() {
            if is_typed {
                let text =
                    "the header Content-Type can't be combined with multipart, which sets it";
                return Err(SettingsError::from(text).hint("remove the header"));
            }
            let form = settings::encode_form(&step.multipart, self.seed)?;
            let header = content_type(format!("multipart/form-data; boundary={}", form.boundary));
            return Ok((form.pieces, header));
        }
        if step.form.0.is_empty() {
            return Ok((Vec::new(), None));
        }
        let mut text = String::new();
        for (name, value) in &step.form.0 {
            let separator = if text.is_empty() { "" } else { "&" };
            text += separator;
            text += &template::form_field(name, value).map_err(|error| error.0)?;
        }
        let header = content_type("application/x-www-form-urlencoded".to_owned());
        Ok((
            piece(text.into_bytes(), false),
            header.filter(|_| !is_typed),
        ))
    }
}

/// Finds the forms of lines while a long list is read.
#[derive(Default)]
struct FormIndex<'a> {
    forms: HashMap<FormKey<'a>, u32>,
}

/// Everything that the lines of one form have in common.
#[derive(PartialEq, Eq, Hash)]
struct FormKey<'a> {
    /// Beginning of the URL, up to the path.
    origin: Cow<'a, str>,
    method: Option<Cow<'a, str>>,
    headers: Vec<(String, String)>,
    /// The body, except for a text that differs from line to line.
    body: ListedBody<'a>,
    /// True if the lines have such a text.
    body_varies: bool,
    expect_status: Option<StatusSet>,
}

impl<'a> FormIndex<'a> {
    /// Returns the index of a line's form, or `Err` with the index of the form to create: `next`.
    fn find(
        &mut self,
        line: &ListedRequest<'a>,
        origin_bytes: usize,
        body_varies: bool,
        next: u32,
    ) -> Result<u32, u32> {
        let origin = match &line.url {
            Cow::Borrowed(url) => Cow::Borrowed(&url[..origin_bytes]),
            Cow::Owned(url) => Cow::Owned(url[..origin_bytes].to_owned()),
        };
        let key = FormKey {
            origin,
            method: line.method.clone(),
            headers: line.headers.clone(),
            body: if body_varies {
                ListedBody::None
            } else {
                line.body.clone()
            },
            body_varies,
            expect_status: line.expect_status.clone(),
        };
        match self.forms.entry(key) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(new) => Err(*new.insert(next)),
        }
    }
}

/// Parses the load's own URL, which may contain credentials. Placeholders can only be in its path
/// and query, and are treated as ordinary text.
pub(crate) fn base_url(input: &str) -> Result<(Url, Option<Credentials>), SpecError> {
    let (url, credentials) = credentials::split_url(input)?;
    let pieces = template::parse_pieces(&url).unwrap_or_default();
    let texts = pieces.iter().map(|piece| match piece {
        TextPiece::Literal(text) => text.as_str(),
        TextPiece::Placeholder(_) => "x",
    });
    let plain: String = texts.collect();
    let url = if plain.is_empty() { url } else { plain };
    Ok((Url::parse(&url, None)?, credentials))
}

/// Parses the header lines in the settings.
fn headers(settings: &LoadSettings) -> Result<Vec<(String, String)>, SpecError> {
    settings
        .header
        .iter()
        .map(|text| match text.split_once(':') {
            Some((name, value)) => Ok((name.to_owned(), value.trim().to_owned())),
            None => Err(SettingsError::value("header", format!("\"{text}\""))
                .text(": write it like 'Accept: text/html'")
                .into()),
        })
        .collect()
}

/// Name and value of a header.
type HeaderPair = (String, String);

/// Reads the body in the settings. Returns it with the header that it needs.
fn body(
    settings: &LoadSettings,
    headers: &[HeaderPair],
) -> Result<(Vec<BodyPiece>, Option<HeaderPair>), SettingsError> {
    let piece = |bytes, is_from_file| BodyPiece {
        bytes,
        is_from_file,
    };
    if settings.form.is_empty() {
        let piece = match (&settings.body, &settings.body_file) {
            (Some(text), _) => piece(text.clone().into_bytes(), false),
            (None, Some(file)) => {
                let bytes = input_file::read_file(file, DATA_BYTES_MAX).map_err(|error| {
                    SettingsError::value("body_file", file.display()).text(format!(": {error}"))
                })?;
                piece(bytes, true)
            }
            (None, None) => return Ok((Vec::new(), None)),
        };
        return Ok((vec![piece], None));
    }
    let form = settings::encode_form(&settings.form, settings.seed.unwrap_or(0))?;
    let mut given = headers.iter();
    let given = given.find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let media_type = match given {
        None => "multipart/form-data",
        Some((_, value)) if value.starts_with("multipart/") && !value.contains("boundary=") => {
            value
        }
        Some((name, value)) => {
            return Err(
                SettingsError::value("header", format!("\"{name}: {value}\""))
                    .text(" can't be combined with ")
                    .name("form")
                    .text(", which sets this header")
                    .hint("remove one of them"),
            );
        }
    };
    let content_type = format!("{media_type}; boundary={}", form.boundary);
    let header = ("Content-Type".to_owned(), content_type);
    Ok((form.pieces, Some(header)))
}

/// Combines the headers in the settings with the headers on a line. A header on the line replaces a
/// header of the same name.
fn merged(all: &[(String, String)], own: Vec<(String, String)>) -> Vec<(String, String)> {
    let is_replaced = |name: &str| own.iter().any(|(it, _)| it.eq_ignore_ascii_case(name));
    let kept = all.iter().filter(|(name, _)| !is_replaced(name)).cloned();
    let kept: Vec<_> = kept.collect();
    kept.into_iter().chain(own).collect()
}

/// The parts of a request as written in the settings, before placeholders are parsed.
struct DraftSource<'a> {
    url: &'a str,
    base: Option<&'a Url>,
    method: &'a str,
    headers: Vec<(String, String)>,
    body: &'a [BodyPiece],
    place: String,
    varying: VaryingParts,
}

/// The parts of a request that differ between the lines of a long list with the same form. A form
/// contains marks in place of them.
#[derive(Debug, Clone, Copy, Default)]
struct VaryingParts {
    path: bool,
    body: bool,
}

/// Creates a [`RequestDraft`] from each [`DraftSource`].
#[derive(Clone, Copy)]
struct Drafter<'a> {
    names: ValueNames<'a>,
    braces: Braces,
    path_as_is: bool,
    /// Creates gRPC calls, if the load has a description of their methods.
    calls: Option<&'a CallReader<'a>>,
}

impl Drafter<'_> {
    /// Creates the forms of a log's requests, with marks in place of path and body.
    fn replay(
        &self,
        replay: Replay,
        base: &Url,
        headers: &[HeaderPair],
        settings: &LoadSettings,
    ) -> Result<DraftList, SpecError> {
        let (_, first_path) = replay.first();
        let mut list = DraftList {
            rows: 1,
            ..DraftList::default()
        };
        let mut lines = LongList::default();
        for (form, (method, was_refused)) in replay.forms().enumerate() {
            let draft = self.draft(DraftSource {
                url: "/",
                base: Some(base),
                method,
                headers: headers.to_vec(),
                body: &[],
                place: String::new(),
                varying: VaryingParts {
                    path: true,
                    body: !matches!(method, "GET" | "HEAD"),
                },
            })?;
            // A client error that the log has, too, is no failure.
            let expects_refusal = was_refused && settings.expect_status.is_none();
            list.drafts.push(RequestDraft {
                expect_status: expects_refusal.then(StatusSet::below_500),
                ..draft
            });
            lines.push(form as u32, first_path, "");
        }
        list.long_list = Some(lines);
        list.replay = Some(replay);
        Ok(list)
    }

    fn draft(&self, source: DraftSource<'_>) -> Result<RequestDraft, SettingsError> {
        let in_body = source
            .body
            .iter()
            .any(|piece| self.template(piece).is_some());
        let in_headers = source.headers.iter().any(|(_, value)| has_braces(value));
        let has_template = self.braces == Braces::Placeholders
            && (has_braces(source.url) || in_headers || in_body);
        if !has_template && !source.varying.path {
            let url = Url::parse(source.url, source.base)
                .map_err(|error| source.within("urls", error))?;
            let url = self.normalized(url);
            // A single piece, which may be large, is not copied.
            let body: Cow<'_, [u8]> = match source.body {
                [piece] => Cow::Borrowed(&piece.bytes),
                pieces => {
                    let pieces = pieces.iter().map(|piece| piece.bytes.as_slice());
                    Cow::Owned(pieces.collect::<Vec<_>>().concat())
                }
            };
            let draft = RequestDraft::plain(source.method, url, &source.headers, &body);
            return Ok(RequestDraft {
                place: source.place,
                ..draft
            });
        }
        let mut marks = Marks::new(source.texts());
        let url = self
            .marked_url(&source, &mut marks)
            .map_err(|error| source.within("urls", error))?;
        let mut headers = Vec::with_capacity(source.headers.len());
        for (name, value) in &source.headers {
            let place = if name.eq_ignore_ascii_case("host") {
                ValuePlace::Host
            } else {
                ValuePlace::Header
            };
            let marked = self.marked(value, place, &mut marks);
            let marked = marked.map_err(|error| source.within("header", error))?;
            headers.push((name.clone(), marked));
        }
        let (mut body, mut body_varies) = (Vec::new(), false);
        if source.varying.body {
            body.extend_from_slice(marks.mark_listed(Value::ListedBody).as_bytes());
            body_varies = true;
        }
        let pieces = if source.varying.body {
            &[]
        } else {
            source.body
        };
        for piece in pieces {
            let Some(text) = self.template(piece) else {
                body.extend_from_slice(&piece.bytes);
                continue;
            };
            let marked = self.marked(text, ValuePlace::Body, &mut marks);
            let marked = marked.map_err(|error| source.within("body", error))?;
            body_varies |= marks.is_in(&marked);
            body.extend_from_slice(marked.as_bytes());
        }
        if body_varies {
            check_framing(headers.iter()).map_err(|error| source.within("header", error))?;
        }
        Ok(RequestDraft {
            url,
            method: source.method.to_owned(),
            headers,
            body,
            place: source.place,
            marks: (!marks.is_empty()).then_some(marks),
            body_varies,
            expect_status: None,
            call: None,
        })
    }

    /// Creates the drafts of messages of WebSockets. The URL and the headers belong to the handshake.
    fn messages(
        &self,
        messages: &[BodyPiece],
        server: &str,
        headers: &[HeaderPair],
    ) -> Result<Vec<RequestDraft>, SettingsError> {
        let varies = has_braces(server) || headers.iter().any(|(_, value)| has_braces(value));
        if varies && self.braces == Braces::Placeholders {
            let error = "placeholders of a WebSocket load can be in its messages only";
            let error = SettingsError::from(error);
            return Err(error.hint("remove them from the URL and the headers"));
        }
        let drafts = messages.iter().map(|message| {
            let source = DraftSource {
                url: server,
                base: None,
                method: "GET",
                headers: headers.to_vec(),
                body: std::slice::from_ref(message),
                place: String::new(),
                varying: VaryingParts::default(),
            };
            self.draft(source)
        });
        drafts.collect()
    }

    /// Returns a piece of a body if it may contain placeholders. A file's content is sent unchanged
    /// unless there is a data file, because it may be binary.
    fn template<'p>(&self, piece: &'p BodyPiece) -> Option<&'p str> {
        if piece.is_from_file && self.names.data.is_none() {
            return None;
        }
        let text = std::str::from_utf8(&piece.bytes).ok();
        text.filter(|text| has_braces(text))
    }

    /// Removes dot segments from a URL's path, as curl and browsers do.
    fn normalized(&self, url: Url) -> Url {
        if self.path_as_is {
            url
        } else {
            Url {
                path: reference::without_dots(&url.path),
                ..url
            }
        }
    }

    /// Returns true if a line has placeholders of its own.
    fn has_placeholders(&self, line: &ListedRequest<'_>) -> bool {
        let in_body = || match &line.body {
            ListedBody::Text(text) => has_braces(text),
            ListedBody::None | ListedBody::File(_) => false,
        };
        self.braces == Braces::Placeholders && (has_braces(&line.url) || in_body())
    }

    fn marked(
        &self,
        text: &str,
        place: ValuePlace,
        marks: &mut Marks,
    ) -> Result<String, SettingsError> {
        let pieces = template::parse_pieces(text).map_err(|error| SettingsError::from(error.0))?;
        marks.mark(pieces, place, &self.names)
    }

    fn marked_url(
        &self,
        source: &DraftSource<'_>,
        marks: &mut Marks,
    ) -> Result<Url, SettingsError> {
        if source.varying.path {
            let url = Url::parse(source.url, source.base)?;
            let path = format!("/{}", marks.mark_listed(Value::ListedPath));
            return Ok(Url { path, ..url });
        }
        let pieces =
            template::parse_pieces(source.url).map_err(|error| SettingsError::from(error.0))?;
        let before = match pieces.first() {
            Some(TextPiece::Literal(text)) => text.as_str(),
            Some(TextPiece::Placeholder(_)) | None => "",
        };
        if pieces.len() > 1 && !url::has_path(before) || pieces.len() == 1 && before.is_empty() {
            return Err(SettingsError::from(format!(
                "\"{}\": a placeholder can be used only in the path and query of a URL; for \
                 several servers, write a list with one line per server",
                source.url
            )));
        }
        let marked = marks.mark(pieces, ValuePlace::Url, &self.names)?;
        Url::parse(&marked, source.base)
            .map(|url| self.normalized(url))
            .map_err(|error| error.map_cause(|text| marks.unmark(text)))
    }
}

impl DraftSource<'_> {
    /// Returns all parts of the request that may contain placeholders.
    fn texts(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let headers = self.headers.iter();
        let headers = headers.flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
        let base = self.base.map_or("", |base| base.host.as_str());
        let others = [self.url.as_bytes(), self.method.as_bytes(), base.as_bytes()];
        let bodies = self.body.iter().map(|piece| piece.bytes.as_slice());
        headers.chain(others).chain(bodies)
    }

    /// Prefixes an error with the file and line, or with the flag that contains the invalid text.
    fn within(&self, setting: &'static str, error: SettingsError) -> SettingsError {
        let outer = match (self.place.as_str(), setting) {
            ("", "urls") => return error,
            ("", "body") if self.body.len() > 1 => SettingsError::of("form").text(": "),
            ("", "body") if self.body.iter().any(|piece| piece.is_from_file) => {
                SettingsError::of("body_file").text(": ")
            }
            ("", setting) => SettingsError::of(setting).text(": "),
            (place, _) => SettingsError::about("urls").at(place),
        };
        outer.append(error)
    }
}

fn has_braces(text: &str) -> bool {
    text.contains("{{")
}

/// Checks that no header sets the length of the body if that length varies.
fn check_framing<'h>(
    mut headers: impl Iterator<Item = &'h HeaderPair>,
) -> Result<(), SettingsError> {
    let sets_framing = |name: &str| {
        name.eq_ignore_ascii_case("content-length")
            || name.eq_ignore_ascii_case("transfer-encoding")
    };
    match headers.find(|(name, _)| sets_framing(name)) {
        Some((name, _)) => Err(SettingsError::from(format!(
            "the header {name} can't be set for a body with placeholders"
        ))
        .hint_in_parentheses("remove the header; prony sends the correct Content-Length")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::LoadSettings;

    #[test]
    fn lines_without_a_scheme_stay_on_the_server_of_the_load() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        let settings = LoadSettings::from_flags(&format!("--urls {}", path.display()));
        let resolved = |list: &str, url: Option<&str>| {
            std::fs::write(&path, list).unwrap();
            let spec = settings.resolve(url);
            spec.map(drop).map_err(|error| error.to_string())
        };
        let base = Some("http://127.0.0.1:9");
        for count in [1, 5_000] {
            let list = |line: &str| "/a\n".repeat(count) + line;
            assert_eq!(resolved(&list("127.0.0.1:9/b"), base), Ok(()));
            assert_eq!(resolved(&list("http://127.0.0.2:9/b"), base), Ok(()));
            for (line, host) in [("127.0.0.2:9/b", "127.0.0.2:9"), ("127.0.0.1", "127.0.0.1")] {
                let error = resolved(&list(line), base).unwrap_err();
                let expected = format!(
                    "list:{}: \"{line}\" is on another server ({host}) than the load's URL; if \
                     that is intended, write http://{line}; for a path, write /{line}",
                    count + 1
                );
                assert!(error.ends_with(&expected), "{error}");
            }
        }
        assert_eq!(resolved("127.0.0.1:9/a\n127.0.0.2:9/b\n", None), Ok(()));
    }
}
