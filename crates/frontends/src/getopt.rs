//! Parses options as C programs do: bundled short options, values attached or in the next argument,
//! unambiguous abbreviations of long options, options after other arguments, and `--` as the end of
//! options.

use std::fmt;

/// An option that the program accepts. An option without a short form is identified by a character
/// that isn't accepted as a short option.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OptionSpec {
    pub(crate) name: Option<&'static str>,
    pub(crate) letter: char,
    pub(crate) is_short: bool,
    pub(crate) argument: OptionArgument,
}

/// The kind of value that an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionArgument {
    /// No value.
    None,
    /// A required value: attached (`-n5`, `--name=5`), or in the next argument.
    Required,
    /// An optional value, which must be attached.
    Optional,
}

/// Positions at which options are recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionPlacement {
    /// Options are recognized anywhere, as in glibc.
    Anywhere,
    /// Options are recognized only before the first argument that is not an option.
    First,
}

/// Error in the use of an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OptionError {
    NoSuchLetter(char),
    LetterLacksValue(char),
    NoSuchName(String),
    /// Option as typed, and the long names that begin with it.
    Ambiguous(String, Vec<&'static str>),
    NameLacksValue(&'static str),
    NameTakesNothing(&'static str),
}

impl fmt::Display for OptionError {
    /// Formats the error with the same text as glibc.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionError::NoSuchLetter(letter) => write!(f, "invalid option -- '{letter}'"),
            OptionError::LetterLacksValue(letter) => {
                write!(f, "option requires an argument -- '{letter}'")
            }
            OptionError::NoSuchName(text) => write!(f, "unrecognized option '--{text}'"),
            OptionError::Ambiguous(text, names) => {
                let names: String = names.iter().map(|name| format!(" '--{name}'")).collect();
                write!(f, "option '--{text}' is ambiguous; possibilities:{names}")
            }
            OptionError::NameLacksValue(name) => {
                write!(f, "option '--{name}' requires an argument")
            }
            OptionError::NameTakesNothing(name) => {
                write!(f, "option '--{name}' doesn't allow an argument")
            }
        }
    }
}

/// Parses options one at a time and collects the other arguments.
pub(crate) struct Options<'a> {
    known: &'a [OptionSpec],
    placing: OptionPlacement,
    words: std::slice::Iter<'a, String>,
    /// Remaining letters in a bundle of short options.
    letters: &'a str,
    others: Vec<&'a str>,
}

/// Letter of a parsed option, with the option's value, if any.
pub(crate) type ReadOption<'a> = Result<(char, Option<&'a str>), OptionError>;

impl<'a> Options<'a> {
    pub(crate) fn new(
        known: &'a [OptionSpec],
        placing: OptionPlacement,
        words: &'a [String],
    ) -> Options<'a> {
        Options {
            known,
            placing,
            words: words.iter(),
            letters: "",
            others: Vec::new(),
        }
    }

    /// Adds an argument that is not an option.
    pub(crate) fn keep(&mut self, word: &'a str) {
        self.others.push(word);
    }

    /// Returns the arguments that are not options, in order. Must be called after the last option
    /// has been parsed.
    pub(crate) fn others(self) -> Vec<&'a str> {
        self.others
    }

    fn letter(&mut self) -> Option<ReadOption<'a>> {
        let mut chars = self.letters.chars();
        let letter = chars.next()?;
        let rest = chars.as_str();
        self.letters = rest;
        let known = |known: &&OptionSpec| known.is_short && known.letter == letter;
        let Some(known) = self.known.iter().find(known) else {
            return Some(Err(OptionError::NoSuchLetter(letter)));
        };
        if known.argument == OptionArgument::None {
            return Some(Ok((letter, None)));
        }
        self.letters = "";
        let value = match (rest, known.argument) {
            ("", OptionArgument::Required) => self.words.next().map(String::as_str),
            (joined, _) => Some(joined).filter(|joined| !joined.is_empty()),
        };
        if value.is_none() && known.argument == OptionArgument::Required {
            return Some(Err(OptionError::LetterLacksValue(letter)));
        }
        Some(Ok((letter, value)))
    }

    fn long(&mut self, text: &'a str) -> ReadOption<'a> {
        let (name, attached) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let known = self.named(name)?;
        let full = known.name.unwrap_or_default();
        let value = match known.argument {
            OptionArgument::None if attached.is_some() => {
                return Err(OptionError::NameTakesNothing(full));
            }
            OptionArgument::Required => {
                let value = attached.or_else(|| self.words.next().map(String::as_str));
                Some(value.ok_or(OptionError::NameLacksValue(full))?)
            }
            OptionArgument::None | OptionArgument::Optional => attached,
        };
        Ok((known.letter, value))
    }

    /// Finds the option with this name, or the only one whose name begins with it.
    fn named(&self, text: &str) -> Result<&'a OptionSpec, OptionError> {
        let names = || {
            let named = self.known.iter();
            named.filter_map(|known| known.name.map(|name| (name, known)))
        };
        if let Some((_, exact)) = names().find(|(name, _)| *name == text) {
            return Ok(exact);
        }
        let candidates: Vec<_> = names().filter(|(name, _)| name.starts_with(text)).collect();
        match candidates.as_slice() {
            [] => Err(OptionError::NoSuchName(text.to_owned())),
            [(_, first), rest @ ..] if rest.iter().all(|(_, it)| it.letter == first.letter) => {
                Ok(first)
            }
            several => {
                let names = several.iter().map(|(name, _)| *name).collect();
                Err(OptionError::Ambiguous(text.to_owned(), names))
            }
        }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = ReadOption<'a>;

    fn next(&mut self) -> Option<ReadOption<'a>> {
        loop {
            if let Some(read) = self.letter() {
                return Some(read);
            }
            let word = self.words.next()?;
            match word.strip_prefix('-') {
                Some("-") => self.others.extend(self.words.by_ref().map(String::as_str)),
                Some(name) if name.starts_with('-') => return Some(self.long(&name[1..])),
                Some(letters) if !letters.is_empty() => self.letters = letters,
                _ => {
                    self.others.push(word);
                    if self.placing == OptionPlacement::First {
                        self.others.extend(self.words.by_ref().map(String::as_str));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn known(
        name: &'static str,
        letter: char,
        is_short: bool,
        argument: OptionArgument,
    ) -> OptionSpec {
        OptionSpec {
            name: Some(name),
            letter,
            is_short,
            argument,
        }
    }

    const KNOWN: &[OptionSpec] = &[
        known("threads", 't', true, OptionArgument::Required),
        known("timeout", 'T', true, OptionArgument::Required),
        known("latency", 'L', true, OptionArgument::None),
        known("help", 'h', false, OptionArgument::None),
        known("log", 'l', true, OptionArgument::Optional),
        known("agent", 'A', true, OptionArgument::Required),
        known("agents-name", 'A', true, OptionArgument::Required),
    ];

    /// Formats the parsed options with their values, an error after `!` if there is one, and then
    /// the other arguments.
    fn read(words: &str) -> String {
        read_in(OptionPlacement::Anywhere, words)
    }

    fn read_in(placing: OptionPlacement, words: &str) -> String {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let mut options = Options::new(KNOWN, placing, &words);
        let mut seen: Vec<String> = Vec::new();
        for read in options.by_ref() {
            seen.push(match read {
                Ok((letter, None)) => letter.to_string(),
                Ok((letter, Some(value))) => format!("{letter}={value}"),
                Err(slip) => format!("!{slip}"),
            });
        }
        format!("{} | {}", seen.join(" "), options.others().join(" "))
    }

    #[test]
    fn options_are_read_in_all_their_forms() {
        assert_eq!(read("-t 2 url"), "t=2 | url");
        assert_eq!(read("-t2 url"), "t=2 | url");
        assert_eq!(read("url -Lt 2 x"), "L t=2 | url x");
        assert_eq!(read("--threads=2 --threads 3"), "t=2 t=3 | ");
        assert_eq!(read("--thr 2 --lat --h"), "t=2 L h | ");
        assert_eq!(read("-L url -- -t 5 --x"), "L | url -t 5 --x");
        assert_eq!(read("- -t -L"), "t=-L | -");
        assert_eq!(read("-l x -lx -Ll --lo --log=x"), "l l=x L l l l=x | x");
        // Two names of the same option are not ambiguous.
        assert_eq!(read("--ag x"), "A=x | ");
    }

    #[test]
    fn options_may_have_to_come_first() {
        let first = |words| read_in(OptionPlacement::First, words);
        assert_eq!(first("-Lt2 url -L"), "L t=2 | url -L");
        assert_eq!(first("-L -- -L url"), "L | -L url");
        assert_eq!(first("- -L"), " | - -L");
    }

    #[test]
    fn errors_have_the_wording_of_glibc() {
        for (text, expected_text) in [
            ("-z", "!invalid option -- 'z' | "),
            ("-h", "!invalid option -- 'h' | "),
            ("--foo", "!unrecognized option '--foo' | "),
            (
                "--t 1",
                "!option '--t' is ambiguous; possibilities: '--threads' '--timeout' | 1",
            ),
            ("-t", "!option requires an argument -- 't' | "),
            ("--thr", "!option '--threads' requires an argument | "),
            (
                "--lat=x",
                "!option '--latency' doesn't allow an argument | ",
            ),
        ] {
            assert_eq!(read(text), expected_text, "{text}");
        }
    }
}
