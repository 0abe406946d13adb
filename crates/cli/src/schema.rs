//! The descriptors of a gRPC method, in a file that agents, plans and probes can read.

use std::io::Write;
use std::time::Duration;

use prony_load::{LoadSettings, SpecError, needs_reflection, reflected_schema};
use tempfile::NamedTempFile;

use crate::ending::Failure;

/// Time limit of each request to a reflection service.
const REFLECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings whose gRPC method, if they have one, is described by a file.
pub(crate) struct DescribedSettings {
    pub(crate) settings: LoadSettings,
    /// The file, which is removed with this.
    _file: Option<NamedTempFile>,
}

/// Asks the server for descriptors if the settings name none.
pub(crate) fn described(
    settings: &LoadSettings,
    url: Option<&str>,
) -> Result<DescribedSettings, Failure> {
    let reflected = needs_reflection(settings)
        .then(|| reflected_schema(settings, url, REFLECTION_TIMEOUT).map_err(failure_of));
    let descriptors = reflected.transpose()?;
    let mut settings = settings.clone();
    let file = descriptors.map(|descriptors| {
        let mut file = NamedTempFile::with_suffix(".binpb")?;
        file.write_all(&descriptors)?;
        settings.protoset = Some(file.path().to_owned());
        Ok::<_, std::io::Error>(file)
    });
    let file = file.transpose().map_err(Failure::refused)?;
    Ok(DescribedSettings {
        settings,
        _file: file,
    })
}

/// Converts an error in settings into an exit status and a message.
pub(crate) fn failure_of(error: SpecError) -> Failure {
    match error {
        SpecError::Environment(_) => Failure::refused(error),
        SpecError::Settings(_) | SpecError::Name { .. } => Failure::wrong(error),
    }
}
