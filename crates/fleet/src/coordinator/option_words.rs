//! A load's options as words: `--name=value`, or `--name` alone.

/// Options as words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct OptionWords(Vec<String>);

impl OptionWords {
    /// Copies the words.
    pub(super) fn new(words: &[String]) -> OptionWords {
        OptionWords(words.to_vec())
    }

    fn is(word: &str, name: &str) -> bool {
        let rest = word.strip_prefix("--").and_then(|it| it.strip_prefix(name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    }

    /// Removes an option.
    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|word| !OptionWords::is(word, name));
    }

    /// Replaces all values of an option.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.remove(name);
        self.add(name, value);
    }

    /// Adds a value to an option.
    pub(super) fn add(&mut self, name: &str, value: &str) {
        self.0.push(format!("--{name}={value}"));
    }

    /// The words.
    pub(super) fn into_words(self) -> Vec<String> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_an_option_leaves_similar_ones_alone() {
        let typed = ["--url=x", "--urls=a", "--urls=b", "--urls-more", "--urls"];
        let mut words = OptionWords(typed.map(str::to_owned).to_vec());
        words.set("urls", "c=d");
        assert_eq!(words.into_words(), ["--url=x", "--urls-more", "--urls=c=d"]);
    }
}
