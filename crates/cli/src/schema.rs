//! The descriptors of a gRPC method, in a file that agents, plans and probes can read.

use std::io::Write;
use std::time::Duration;

use prony_load::{LoadSettings, SpecError, compiled_schema, needs_reflection, reflected_schema};
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

/// Reader of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchemaReader {
    /// This process, which can read the user's files.
    Here,
    /// An agent or a plan, which gets a copy of each file.
    Elsewhere,
}

/// Asks the server for descriptors if the settings name none. For a reader elsewhere, also compiles
/// a .proto file, which may import others.
pub(crate) fn described(
    settings: &LoadSettings,
    url: Option<&str>,
    reader: SchemaReader,
) -> Result<DescribedSettings, Failure> {
    let descriptors = if needs_reflection(settings) {
        let reflected = reflected_schema(settings, url, REFLECTION_TIMEOUT);
        Some(reflected.map_err(failure_of)?)
    } else if settings.proto.is_some() && reader == SchemaReader::Elsewhere {
        Some(compiled_schema(settings).map_err(Failure::wrong)?)
    } else {
        None
    };
    let mut settings = settings.clone();
    let file = descriptors.map(|descriptors| {
        let mut file = NamedTempFile::with_suffix(".binpb")?;
        file.write_all(&descriptors)?;
        settings.protoset = Some(file.path().to_owned());
        (settings.proto, settings.proto_path) = (None, None);
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
