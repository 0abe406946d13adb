//! Loads that open connections at a rate and send several requests on each: journeys of one step,
//! which is repeated.

use crate::settings::{JourneyStep, LoadSettings, Repeat};
use crate::values::credentials;
use crate::values::error::SpecError;

/// Returns the settings of the journey; `None` for any other load. Each journey takes as many steps
/// as a connection carries requests, so each begins on a new connection.
///
/// # Errors
///
/// The URL is not valid, or the settings contradict each other.
pub(crate) fn settings_for(
    url: Option<&str>,
    settings: &LoadSettings,
) -> Result<Option<LoadSettings>, SpecError> {
    let (Some(_), Some(url), Some(requests @ 2..)) = (
        settings.connection_rate,
        url,
        settings.requests_per_connection,
    ) else {
        return Ok(None);
    };
    settings.check()?;
    let times = u32::try_from(requests).unwrap_or(u32::MAX);
    let (url, _) = credentials::split_url(url)?;
    let is_call = settings.grpc.is_some();
    let step = JourneyStep {
        name: Some("request".to_owned()),
        url,
        grpc: settings.grpc.clone(),
        method: settings.method.clone().filter(|_| !is_call),
        body: settings.body.clone(),
        body_file: settings.body_file.clone(),
        multipart: settings.form.clone(),
        repeat: Some(Repeat {
            min: times,
            max: times,
        }),
        ..JourneyStep::default()
    };
    Ok(Some(LoadSettings {
        step: vec![step],
        rate: settings.connection_rate,
        connection_rate: None,
        grpc: None,
        method: None,
        body: None,
        body_file: None,
        form: Vec::new(),
        ..settings.clone()
    }))
}
