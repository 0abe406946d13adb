//! What a rule reports.

use std::fmt;

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Complaint {
    /// Path of the file, relative to the root.
    pub(super) path: String,
    /// Line number from 1; 0 means the whole file.
    pub(super) line: usize,
    /// The violation, with a hint.
    pub(super) text: String,
}

impl Complaint {
    pub(super) fn new(path: &str, line: usize, text: impl Into<String>) -> Complaint {
        Complaint {
            path: path.to_string(),
            line,
            text: text.into(),
        }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.text),
            line => write!(f, "{}:{line}: {}", self.path, self.text),
        }
    }
}

/// Returns complaints as lines of output, for tests.
#[cfg(test)]
pub(super) fn printed(complaints: &[Complaint]) -> Vec<String> {
    complaints.iter().map(Complaint::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_names_its_file_and_line() {
        assert_eq!(
            Complaint::new("a.rs", 3, "wrong").to_string(),
            "a.rs:3: wrong"
        );
        assert_eq!(
            Complaint::new("a.rs", 0, "wrong").to_string(),
            "a.rs: wrong"
        );
    }
}
