//! Options as glibc's getopt_long reads them: short ones together, long ones shortened to what tells
//! them apart, options behind other arguments, `--` as their end. Its messages are glibc's, too.

/// An option: its long name, its letter, and whether it has a value. A letter may have no name and a
/// name may stand for a letter that can't be typed alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) name: Option<&'static str>,
    pub(super) letter: char,
    pub(super) is_short: bool,
    pub(super) has_value: bool,
}

/// Reads options one by one; what is none of them is kept aside.
pub(super) struct Options<'a> {
    program: &'static str,
    known: &'a [Known],
    words: std::slice::Iter<'a, String>,
    /// Letters of a word that are still to be read.
    letters: &'a str,
    others: Vec<&'a str>,
}

/// An option with its value, or a message about what is none.
pub(super) type Read<'a> = Result<(char, &'a str), String>;

impl<'a> Options<'a> {
    pub(super) fn new(
        program: &'static str,
        known: &'a [Known],
        words: &'a [String],
    ) -> Options<'a> {
        Options {
            program,
            known,
            words: words.iter(),
            letters: "",
            others: Vec::new(),
        }
    }

    /// What is no option, in order; complete when there are no more options.
    pub(super) fn others(self) -> Vec<&'a str> {
        self.others
    }

    fn letter(&mut self) -> Option<Read<'a>> {
        let mut chars = self.letters.chars();
        let letter = chars.next()?;
        let rest = chars.as_str();
        self.letters = rest;
        let known = |known: &&Known| known.is_short && known.letter == letter;
        let Some(known) = self.known.iter().find(known) else {
            return Some(Err(format!(
                "{}: invalid option -- '{letter}'",
                self.program
            )));
        };
        if !known.has_value {
            return Some(Ok((letter, "")));
        }
        self.letters = "";
        let value = match rest {
            "" => self.words.next().map(String::as_str),
            joined => Some(joined),
        };
        let lacks = || {
            format!(
                "{}: option requires an argument -- '{letter}'",
                self.program
            )
        };
        Some(value.map(|value| (letter, value)).ok_or_else(lacks))
    }

    fn long(&mut self, typed: &'a str) -> Read<'a> {
        let program = self.program;
        let (name, value) = match typed.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (typed, None),
        };
        let known = self.named(name)?;
        let full = known.name.unwrap_or_default();
        match (known.has_value, value) {
            (false, None) => Ok((known.letter, "")),
            (false, Some(_)) => Err(format!(
                "{program}: option '--{full}' doesn't allow an argument"
            )),
            (true, Some(value)) => Ok((known.letter, value)),
            (true, None) => match self.words.next() {
                Some(value) => Ok((known.letter, value)),
                None => Err(format!("{program}: option '--{full}' requires an argument")),
            },
        }
    }

    /// The option of that name, or the only one whose name begins so.
    fn named(&self, typed: &str) -> Result<&'a Known, String> {
        let program = self.program;
        let names = || {
            let named = self.known.iter();
            named.filter_map(|known| known.name.map(|name| (name, known)))
        };
        if let Some((_, exact)) = names().find(|(name, _)| *name == typed) {
            return Ok(exact);
        }
        let candidates: Vec<_> = names()
            .filter(|(name, _)| name.starts_with(typed))
            .collect();
        match candidates.as_slice() {
            [(_, only)] => Ok(only),
            [] => Err(format!("{program}: unrecognized option '--{typed}'")),
            several => {
                let all: String = several
                    .iter()
                    .map(|(name, _)| format!(" '--{name}'"))
                    .collect();
                Err(format!(
                    "{program}: option '--{typed}' is ambiguous; possibilities:{all}"
                ))
            }
        }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Read<'a>;

    fn next(&mut self) -> Option<Read<'a>> {
        loop {
            if let Some(read) = self.letter() {
                return Some(read);
            }
            let word = self.words.next()?;
            match word.strip_prefix('-') {
                Some("-") => self.others.extend(self.words.by_ref().map(String::as_str)),
                Some(name) if name.starts_with('-') => return Some(self.long(&name[1..])),
                Some(letters) if !letters.is_empty() => self.letters = letters,
                _ => self.others.push(word),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn known(name: &'static str, letter: char, is_short: bool, has_value: bool) -> Known {
        Known {
            name: Some(name),
            letter,
            is_short,
            has_value,
        }
    }

    const KNOWN: &[Known] = &[
        known("threads", 't', true, true),
        known("timeout", 'T', true, true),
        known("latency", 'L', true, false),
        known("help", 'h', false, false),
    ];

    /// Options and values, `!` and a message, then what is none.
    fn read(words: &str) -> String {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let mut options = Options::new("wrk", KNOWN, &words);
        let mut said: Vec<String> = Vec::new();
        for read in options.by_ref() {
            said.push(match read {
                Ok((letter, value)) => format!("{letter}={value}"),
                Err(message) => format!("!{message}"),
            });
        }
        format!("{} | {}", said.join(" "), options.others().join(" "))
    }

    #[test]
    fn options_are_read_in_all_their_forms() {
        assert_eq!(read("-t 2 url"), "t=2 | url");
        assert_eq!(read("-t2 url"), "t=2 | url");
        assert_eq!(read("url -Lt 2 x"), "L= t=2 | url x");
        assert_eq!(read("--threads=2 --threads 3"), "t=2 t=3 | ");
        assert_eq!(read("--thr 2 --lat --h"), "t=2 L= h= | ");
        assert_eq!(read("-L url -- -t 5 --x"), "L= | url -t 5 --x");
        assert_eq!(read("- -t -L"), "t=-L | -");
    }

    #[test]
    fn what_is_none_is_told_as_glibc_tells_it() {
        for (typed, told) in [
            ("-z", "!wrk: invalid option -- 'z' | "),
            ("-h", "!wrk: invalid option -- 'h' | "),
            ("--foo", "!wrk: unrecognized option '--foo' | "),
            (
                "--t 1",
                "!wrk: option '--t' is ambiguous; possibilities: '--threads' '--timeout' | 1",
            ),
            ("-t", "!wrk: option requires an argument -- 't' | "),
            ("--thr", "!wrk: option '--threads' requires an argument | "),
            (
                "--lat=x",
                "!wrk: option '--latency' doesn't allow an argument | ",
            ),
        ] {
            assert_eq!(read(typed), told, "{typed}");
        }
    }
}
