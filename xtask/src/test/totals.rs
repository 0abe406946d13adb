//! Adds up the results of the test programs.

/// Test results, summed over all test programs of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Number of tests that passed.
    pub(crate) passed: u64,
    /// Number of tests that failed.
    pub(crate) failed: u64,
}

impl Totals {
    /// Processes one line of output. Only a summary has an effect:
    /// `test result: ok. 3 passed; 0 failed; 0 ignored; …`.
    pub(crate) fn take(&mut self, line: &str) {
        let Some(counts) = line.trim_start().strip_prefix("test result: ") else {
            return;
        };
        let Some((_, counts)) = counts.split_once(". ") else {
            return;
        };
        for part in counts.split(';') {
            let mut words = part.split_whitespace();
            let Some(Ok(number)) = words.next().map(str::parse::<u64>) else {
                continue;
            };
            match words.next() {
                Some("passed") => self.passed += number,
                Some("failed") => self.failed += number,
                _ => {}
            }
        }
    }
}

impl Totals {
    /// Adds the results in `more` to the sum.
    pub(crate) fn add(&mut self, more: Totals) {
        self.passed += more.passed;
        self.failed += more.failed;
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(output: &str) -> Totals {
        let mut totals = Totals::default();
        output.lines().for_each(|l| totals.take(l));
        totals
    }

    #[test]
    fn adds_up_every_programs_summary() {
        let totals = sum("\
running 3 tests
test a ... ok
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1.20s
test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
");
        assert_eq!(
            totals,
            Totals {
                passed: 13,
                failed: 2
            }
        );
        assert_eq!(totals.to_string(), "13 passed, 2 failed");
    }

    #[test]
    fn lines_that_only_resemble_a_summary_are_ignored() {
        assert_eq!(
            sum("4 passed; 1 failed\ntest result ok\ntest result: \n"),
            Totals::default()
        );
    }

    #[test]
    fn a_run_without_tests_says_zero() {
        assert_eq!(sum("").to_string(), "0 passed, 0 failed");
    }
}
