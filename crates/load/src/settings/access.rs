//! Access to settings by key, with values as text.

use std::path::PathBuf;

use serde_json::Value;

use super::setting::Setting;
use super::table::LoadSettings;

use crate::values::error::SettingsError;

impl Setting {
    /// The setting with a key.
    pub fn find(key: &str) -> Option<&'static Setting> {
        LoadSettings::TABLE
            .iter()
            .find(|setting| setting.key == key)
    }

    /// Checks one value, as text.
    ///
    /// # Errors
    ///
    /// Returns the reason why the value is refused.
    pub fn check(&self, text: &str) -> Result<(), SettingsError> {
        LoadSettings::default().set(self.key, vec![text.to_owned()])
    }
}

impl LoadSettings {
    /// Sets the value of a setting, given as text; several texts are the values of a list.
    ///
    /// # Errors
    ///
    /// Returns the reason why a value is refused. There is no setting with this key.
    pub fn set(&mut self, key: &str, texts: Vec<String>) -> Result<(), SettingsError> {
        match (Setting::find(key), self.field(key)) {
            (Some(setting), Some(field)) => field.set(setting.kind, texts),
            _ => Err(format!("there is no setting \"{key}\"").into()),
        }
    }

    /// Sets a setting whose value is a path, which may not be UTF-8. Other settings don't change.
    pub fn set_path(&mut self, key: &str, path: PathBuf) {
        if let Some(field) = self.field(key) {
            field.set_path(path);
        }
    }

    /// Returns true if a setting was given.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries().any(|(setting, _)| setting.key == key)
    }

    /// The settings that were given, with their values in JSON.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'static Setting, Value)> {
        let fields = LoadSettings::TABLE.iter().zip(self.fields());
        fields.filter_map(|(setting, field)| Some((setting, field.json()?)))
    }
}
