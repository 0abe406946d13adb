//! A choice of levels, for some factors or for all.

use serde::ser::{Serialize, SerializeMap, Serializer};

/// A level for each of some factors, by name, in the plan's order of factors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LevelSelection(pub(super) Vec<(String, String)>);

impl LevelSelection {
    /// The selected level of a factor; `None` if the selection leaves the factor open.
    pub fn get(&self, factor: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(name, _)| name == factor)
            .map(|(_, level)| level.as_str())
    }

    /// The pairs of factor and level in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(factor, level)| (factor.as_str(), level.as_str()))
    }

    /// The number of factors that have a selected level.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if no factor has a selected level.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, String)> for LevelSelection {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl Serialize for LevelSelection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (factor, level) in &self.0 {
            map.serialize_entry(factor, level)?;
        }
        map.end()
    }
}
