//! HTTP archives (HAR 1.2), as browsers export them from their developer tools.

use std::time::{Duration, SystemTime};

use prony_load::{
    JourneyStep, SettingsError, StepThink, Table, ThinkDistribution, ThinkTime, literal,
};
use serde::Deserialize;

use super::captures::{PastResponse, find_captures};
use super::parts::{RecordedSteps, is_kept, split_url, take_form};

/// Minimum pause between two requests that becomes a think time.
const THINK_MIN: Duration = Duration::from_millis(500);
/// Maximum pause; a longer one is shortened to it.
const THINK_MAX: Duration = Duration::from_secs(300);
/// Maximum number of steps.
const STEPS_MAX: usize = 100;

#[derive(Deserialize)]
struct Archive {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    #[serde(default)]
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    started_date_time: String,
    /// Duration in milliseconds.
    #[serde(default)]
    time: f64,
    request: Request,
    #[serde(default)]
    response: Response,
    #[serde(default, rename = "_resourceType")]
    resource_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Field>,
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
struct PostData {
    #[serde(default)]
    text: Option<String>,
}

#[derive(Deserialize, Default)]
struct Response {
    #[serde(default)]
    status: i64,
    #[serde(default)]
    headers: Vec<Field>,
    #[serde(default)]
    content: Content,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Content {
    #[serde(default)]
    mime_type: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    encoding: Option<String>,
}

/// Converts an archive.
pub(super) fn steps(text: &str) -> Result<RecordedSteps, SettingsError> {
    let archive: Archive = serde_json::from_str(text).map_err(|error| {
        let error = SettingsError::from(format!("not an HTTP archive (HAR): {error}"));
        error.hint("export one from the Network tab of the browser's developer tools")
    })?;
    let mut recorded = RecordedSteps::default();
    let mut past: Vec<PastResponse> = Vec::new();
    let mut last_end = None;
    // Index of the last step, if it requested a page.
    let mut page: Option<usize> = None;
    for entry in archive.log.entries {
        let (server, path) = split_url(&entry.request.url);
        let is_http = server.starts_with("http://") || server.starts_with("https://");
        let omitted = if !is_http {
            Some("requests that are not HTTP")
        } else if entry.is_part_of_page() {
            Some(
                "images, scripts, styles and other parts of pages (page = true requests those that it names)",
            )
        } else if !recorded.server.is_empty() && server != recorded.server {
            Some("requests to other servers")
        } else if recorded.steps.len() == STEPS_MAX {
            Some("requests beyond the maximum of 100 steps")
        } else {
            None
        };
        if let Some(reason) = omitted {
            // A browser requests the parts of a page after the page itself. A step with `page`
            // requests them, too, so they are not part of the pause after it.
            if server == recorded.server
                && entry.is_fetched_part()
                && let Some(page) = page
            {
                recorded.steps[page].page = true;
                last_end = entry.end().max(last_end);
            }
            match recorded.omitted.iter_mut().find(|(own, _)| own == reason) {
                Some((_, count)) => *count += 1,
                None => recorded.omitted.push((reason.to_owned(), 1)),
            }
            continue;
        }
        if recorded.server.is_empty() {
            recorded.server = server.to_owned();
        }
        let mut step = entry.step(path);
        find_captures(&mut step, &mut recorded.steps, &past);
        let begin = humantime::parse_rfc3339_weak(&entry.started_date_time).ok();
        if let (Some(begin), Some(end), Some(before)) = (begin, last_end, recorded.steps.last_mut())
        {
            let pause = begin.duration_since(end).unwrap_or_default();
            before.think = think(pause);
        }
        last_end = entry.end();
        page = entry.is_document().then_some(recorded.steps.len());
        past.push(entry.past_response());
        recorded.steps.push(step);
    }
    Ok(recorded)
}

/// Returns the think time for a recorded pause, with a precision of 0.1 s.
fn think(pause: Duration) -> Option<StepThink> {
    let pause = Duration::from_millis(pause.min(THINK_MAX).as_millis() as u64 / 100 * 100);
    (pause >= THINK_MIN).then_some(StepThink(Some(ThinkTime {
        mean: pause,
        distribution: ThinkDistribution::Constant,
    })))
}

impl Entry {
    /// Returns true if the response is shown as a part of a page.
    fn is_part_of_page(&self) -> bool {
        let by_type = [
            "image",
            "stylesheet",
            "script",
            "font",
            "media",
            "manifest",
            "ping",
        ];
        if by_type.contains(&self.resource_type.as_str()) {
            return true;
        }
        let mime = self.response.content.mime_type.to_ascii_lowercase();
        let is_code = ["text/css", "javascript", "application/wasm"];
        ["image/", "font/", "audio/", "video/"]
            .iter()
            .any(|prefix| mime.starts_with(prefix))
            || is_code.iter().any(|part| mime.contains(part))
    }

    /// Returns true if the response is a page that may have parts.
    fn is_document(&self) -> bool {
        let mime = self.response.content.mime_type.to_ascii_lowercase();
        let is_html = mime.starts_with("text/html") || mime.starts_with("application/xhtml");
        let is_document = matches!(self.resource_type.as_str(), "" | "document");
        is_document && is_html && self.request.method == "GET" && self.response.status == 200
    }

    /// The end of the response.
    fn end(&self) -> Option<SystemTime> {
        let begin = humantime::parse_rfc3339_weak(&self.started_date_time).ok()?;
        let length = Duration::try_from_secs_f64(self.time / 1e3).unwrap_or_default();
        begin.checked_add(length)
    }

    /// Returns true if a step with `page` would request this part of a page.
    fn is_fetched_part(&self) -> bool {
        let mime = self.response.content.mime_type.to_ascii_lowercase();
        let kind = self.resource_type.as_str();
        self.response.status == 200
            && (["image", "stylesheet", "script"].contains(&kind)
                || kind.is_empty()
                    && (mime.starts_with("image/")
                        || mime.starts_with("text/css")
                        || mime.contains("javascript")))
    }

    fn step(&self, path: &str) -> JourneyStep {
        let fields = self.request.headers.iter();
        let kept = fields.filter(|field| is_kept(&field.name, &field.value));
        let mut headers: Vec<(String, String)> = kept
            .map(|field| (field.name.clone(), literal(&field.value)))
            .collect();
        let body = self.request.post_data.as_ref();
        let body = body.and_then(|data| data.text.clone());
        let body = body.filter(|text| !text.is_empty());
        let body = body.as_deref().map(literal);
        let default = if body.is_some() { "POST" } else { "GET" };
        let status = self.response.status;
        let mut step = JourneyStep {
            url: literal(path),
            method: Some(self.request.method.clone()).filter(|method| method != default),
            body,
            expect_status: (status != 200)
                .then(|| status.to_string().parse().ok())
                .flatten(),
            ..JourneyStep::default()
        };
        take_form(&mut step, &mut headers);
        step.headers = Table(headers);
        step
    }

    fn past_response(self) -> PastResponse {
        let content = self.response.content;
        let is_text = content.encoding.is_none();
        PastResponse {
            headers: self
                .response
                .headers
                .into_iter()
                .map(|field| (field.name, field.value))
                .collect(),
            body: content.text.filter(|_| is_text).unwrap_or_default(),
        }
    }
}
