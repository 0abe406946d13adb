//! A load's options in the words in which they travel: `--name=value`, or `--name` alone.

/// Options in words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Words(Vec<String>);

impl Words {
    /// Takes words over.
    pub(super) fn new(words: &[String]) -> Words {
        Words(words.to_vec())
    }

    fn is(word: &str, name: &str) -> bool {
        let rest = word.strip_prefix("--").and_then(|it| it.strip_prefix(name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    }

    /// Leaves an option out.
    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|word| !Words::is(word, name));
    }

    /// Gives an option this value in place of any that it has.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.remove(name);
        self.add(name, value);
    }

    /// Gives an option one more value.
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
    fn an_option_is_replaced_and_its_like_are_left() {
        let typed = ["--url=x", "--urls=a", "--urls=b", "--urls-more", "--urls"];
        let mut words = Words(typed.map(str::to_owned).to_vec());
        words.set("urls", "c=d");
        assert_eq!(words.into_words(), ["--url=x", "--urls-more", "--urls=c=d"]);
    }
}
