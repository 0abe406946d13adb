//! Results of a check as a table.

use crate::table::Table;

/// One line of a check's table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CheckFigure {
    pub(super) name: String,
    /// Required value.
    pub(super) expected: String,
    /// Measured value.
    pub(super) found: String,
    /// True if the value meets its requirement; `None` if it is only shown.
    pub(super) holds: Option<bool>,
}

impl CheckFigure {
    /// A value that determines whether the check passes.
    pub(super) fn judged(name: &str, expected: String, found: String, holds: bool) -> CheckFigure {
        CheckFigure {
            name: name.to_string(),
            expected,
            found,
            holds: Some(holds),
        }
    }

    /// A value shown for information.
    pub(super) fn shown(name: String, found: String) -> CheckFigure {
        CheckFigure {
            name,
            expected: String::new(),
            found,
            holds: None,
        }
    }
}

/// Formats the figures as a table with aligned columns.
pub(super) fn figures_table(figures: &[CheckFigure]) -> String {
    let mut table = Table::new(&["figure", "expected", "found", ""]);
    for figure in figures {
        let word = match figure.holds {
            Some(true) => "ok",
            Some(false) => "FAILED",
            None => "",
        };
        table.add([&figure.name, &figure.expected, &figure.found, word]);
    }
    table.aligned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_failures_show() {
        let figures = [
            CheckFigure::shown("run 1".to_string(), "quiet".to_string()),
            CheckFigure::judged(
                "p50",
                "0.0 ms ± 2.0".to_string(),
                "0.2 ms".to_string(),
                true,
            ),
            CheckFigure::judged(
                "max",
                "1000.0 ms ± 50.0".to_string(),
                "1090.1 ms".to_string(),
                false,
            ),
        ];
        let expected = "\
figure  expected          found
run 1                     quiet
p50     0.0 ms ± 2.0      0.2 ms     ok
max     1000.0 ms ± 50.0  1090.1 ms  FAILED
";
        assert_eq!(figures_table(&figures), expected);
    }
}
