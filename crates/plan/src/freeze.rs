//! The copy of a plan in its experiment's folder: the plan's text and all files that it names, as
//! they were when the experiment started.
//!
//! In the copy, the key `folder` names the plan's original folder (for working directories and
//! programs), and `includes` names the folder of the copied files. An experiment can therefore be
//! resumed after the originals have changed. Private keys are not copied, and neither are files to
//! which a list of URLs refers by absolute path.
//!
//! The text of the copy has placeholders for credentials. Until the experiment is complete, the
//! credentials are in a separate file that only the user can read.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use prony_record::{read_stored, redact};

use super::diagnostic::{DiagnosticKind, PlanError};
use super::model::{INCLUDES, Plan};
use super::syntax::without_keys;

/// Name of the file in an experiment's folder that contains the credentials of its plan.
const SECRETS_FILE: &str = "secrets.json";

/// Permissions of the file with credentials: only its owner can read or write it.
const SECRETS_MODE: u32 = 0o600;

impl Plan {
    /// Returns the plan's text for the copy in an experiment's folder. The text refers to the
    /// copied files.
    pub fn frozen_text(&self) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let folder = quoted(&self.folder.base.to_string_lossy());
        let includes = quoted(INCLUDES);
        let written = self.text.strip_prefix('\u{feff}').unwrap_or(&self.text);
        format!(
            "# Copy of the plan as it ran; the files that it names are in the includes folder.\n\
             folder = {folder}\nincludes = {includes}\n\n{}",
            without_keys(written, &["folder", "includes"])
        )
    }

    /// Returns the paths of the copied files, relative to the experiment's folder.
    pub fn frozen_names(&self) -> Vec<PathBuf> {
        let files = self.frozen_files.iter().filter(|file| !file.is_folder());
        files.map(|file| file.to.clone()).collect()
    }

    /// Writes `plan.toml` and the files that it names to an experiment's folder, which must exist.
    /// [`Plan::read`] reads that copy.
    ///
    /// # Errors
    /// A file can't be read or written.
    pub fn freeze(&self, experiment: &Path) -> io::Result<()> {
        for file in &self.frozen_files {
            let to = experiment.join(&file.to);
            if file.is_folder() {
                fs::create_dir_all(to)?;
                continue;
            }
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::copy(&file.from, to).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", file.from.display()))
            })?;
        }
        fs::write(experiment.join("plan.toml"), self.stored_text())?;
        self.keep_secrets(experiment)
    }

    /// Returns the plan's text as stored in an experiment's folder: [`Plan::frozen_text`] without
    /// credentials.
    pub fn stored_text(&self) -> String {
        redact::split(&self.frozen_text()).text
    }

    /// Writes the plan's credentials, if it has any, to an experiment's folder.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn keep_secrets(&self, experiment: &Path) -> io::Result<()> {
        let secrets = redact::split(&self.frozen_text()).secrets;
        if secrets.is_empty() {
            return Ok(());
        }
        // An existing file would keep its permissions, so remove it first.
        forget_secrets(experiment)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(SECRETS_MODE)
            .open(experiment.join(SECRETS_FILE))?;
        file.write_all(serde_json::to_string(&secrets)?.as_bytes())
    }
}

/// Removes the credentials from an experiment's folder.
///
/// # Errors
/// The file exists and can't be removed.
pub fn forget_secrets(experiment: &Path) -> io::Result<()> {
    match fs::remove_file(experiment.join(SECRETS_FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Inserts the credentials into a stored plan's text.
///
/// # Errors
/// The file with the credentials can't be read, or was removed because the experiment is complete.
pub(super) fn with_secrets(text: String, plan: &Path) -> Result<String, PlanError> {
    if !redact::is_redacted(&text) {
        return Ok(text);
    }
    let path = plan.with_file_name(SECRETS_FILE);
    let error = |message: String| PlanError::new(DiagnosticKind::File, plan, 0, message);
    let json = match read_stored(&path) {
        Ok(json) => json,
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
            let message = "the credentials of this plan were removed when its experiment ended";
            let hint = "pass the original plan too (prony compare PLAN --resume DIR), or run it \
                again";
            return Err(error(message.to_owned()).with_hint(hint));
        }
        Err(unreadable) => return Err(error(format!("{}: {unreadable}", path.display()))),
    };
    let secrets: Vec<String> = serde_json::from_str(&json)
        .map_err(|invalid| error(format!("{}: {invalid}", path.display())))?;
    Ok(redact::restore(&text, &secrets))
}
