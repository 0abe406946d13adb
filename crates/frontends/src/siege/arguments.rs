//! Parses siege's command line, with bundled short options and unambiguous abbreviations of long
//! ones.

use std::ffi::OsString;

use prony_load::SettingsError;

use crate::getopt::{OptionArgument, OptionPlacement, OptionSpec, Options};

/// Number of repetitions per user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Repetitions {
    /// Repeat until a time limit or Ctrl-C.
    #[default]
    Forever,
    /// Request this many pages.
    Times(u64),
    /// Request each URL of the list once.
    Once,
}

/// The letter of an option, and its value if it has one.
pub(super) type SiegeFlag = (char, Option<String>);

/// A parsed command line.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SiegeArguments {
    /// The options, in order.
    pub(super) flags: Vec<SiegeFlag>,
    /// The other arguments, in order. The last one is the URL.
    pub(super) operands: Vec<String>,
}

const fn option(name: &'static str, letter: char, argument: OptionArgument) -> OptionSpec {
    OptionSpec {
        name: Some(name),
        letter,
        is_short: true,
        argument,
    }
}

/// siege's options. Only siege's manual page documents `agent`, `L`, and values attached to `get`
/// and `print`.
const KNOWN: &[OptionSpec] = &[
    option("version", 'V', OptionArgument::None),
    option("help", 'h', OptionArgument::None),
    option("verbose", 'v', OptionArgument::None),
    option("quiet", 'q', OptionArgument::None),
    option("config", 'C', OptionArgument::None),
    option("debug", 'D', OptionArgument::None),
    OptionSpec {
        is_short: false,
        ..option("get", 'g', OptionArgument::Optional)
    },
    OptionSpec {
        is_short: false,
        ..option("print", 'p', OptionArgument::Optional)
    },
    letter('g', OptionArgument::None),
    letter('p', OptionArgument::None),
    option("concurrent", 'c', OptionArgument::Required),
    option("no-parser", 'N', OptionArgument::None),
    option("no-follow", 'F', OptionArgument::None),
    option("internet", 'i', OptionArgument::None),
    option("benchmark", 'b', OptionArgument::None),
    option("reps", 'r', OptionArgument::Required),
    option("time", 't', OptionArgument::Required),
    option("delay", 'd', OptionArgument::Required),
    option("log", 'l', OptionArgument::Optional),
    letter('L', OptionArgument::Required),
    option("file", 'f', OptionArgument::Required),
    option("rc", 'R', OptionArgument::Required),
    option("mark", 'm', OptionArgument::Required),
    option("header", 'H', OptionArgument::Required),
    option("user-agent", 'A', OptionArgument::Required),
    option("agent", 'A', OptionArgument::Required),
    option("content-type", 'T', OptionArgument::Required),
    option("json-output", 'j', OptionArgument::None),
];

const fn letter(letter: char, argument: OptionArgument) -> OptionSpec {
    OptionSpec {
        name: None,
        ..option("", letter, argument)
    }
}

impl SiegeArguments {
    /// Parses the arguments.
    ///
    /// # Errors
    ///
    /// An error that names the invalid option.
    pub(super) fn parse(words: &[OsString]) -> Result<SiegeArguments, SettingsError> {
        let words: Vec<String> = words.iter().map(word_text).collect::<Result<_, _>>()?;
        let mut flags = Vec::new();
        let mut options = Options::new(KNOWN, OptionPlacement::Anywhere, &words);
        while let Some(read) = options.next() {
            let (letter, value) = read.map_err(|slip| slip.to_string())?;
            flags.push((letter, value.map(str::to_owned)));
            // The manual page documents --get=URL, the usage text -g URL; both have the same
            // meaning.
            if let ('g' | 'p', Some(url)) = (letter, value) {
                options.keep(url);
            }
        }
        let operands = options.others().into_iter().map(str::to_owned).collect();
        Ok(SiegeArguments { flags, operands })
    }
}

fn word_text(word: &OsString) -> Result<String, SettingsError> {
    let text = word.to_str().map(str::to_owned);
    text.ok_or_else(|| SettingsError::from("not UTF-8 text").at(format!("\"{}\"", word.display())))
}

/// Returns the error for an option's value.
fn invalid(option: &str, text: &str, cause: &str) -> SettingsError {
    SettingsError::from(cause).at(format!("{option} \"{text}\""))
}

/// Parses the whole number that an option has.
pub(super) fn number(text: &str, option: &str) -> Result<u64, SettingsError> {
    let number = text.trim().parse();
    number.map_err(|_| invalid(option, text, "not a number"))
}

/// Parses the value of `-r`.
pub(super) fn reps(text: &str) -> Result<Repetitions, SettingsError> {
    if text.eq_ignore_ascii_case("once") {
        return Ok(Repetitions::Once);
    }
    match number(text, "-r")? {
        0 => Err(SettingsError::from("nothing would be requested").at("-r 0")),
        times => Ok(Repetitions::Times(times)),
    }
}

/// Parses the value of `-t`.
pub(super) fn time(text: &str) -> Result<u64, SettingsError> {
    seconds_of(text).ok_or_else(|| invalid("-t", text, "write it like 30S, 5M or 1H"))
}

/// Parses the value of `-d`.
pub(super) fn delay(text: &str) -> Result<f64, SettingsError> {
    match text.trim().parse::<f64>() {
        // As in siege, negative values mean zero.
        Ok(seconds) if seconds.is_finite() => Ok(seconds.max(0.0)),
        _ => Err(invalid("-d", text, "not a number of seconds")),
    }
}

/// Converts `30S`, `5M` or `1H` to seconds. A number without a unit is in minutes. Returns `None`
/// if the text is invalid.
pub(super) fn seconds_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().ok().filter(|&number| number > 0)?;
    let unit = match unit
        .trim_start()
        .bytes()
        .next()
        .map(|c| c.to_ascii_lowercase())
    {
        Some(b's') => 1,
        Some(b'm') | None => 60,
        Some(b'h') => 3600,
        Some(_) => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<SiegeArguments, SettingsError> {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        SiegeArguments::parse(&words)
    }

    fn shown(flags: &[SiegeFlag]) -> String {
        let flags = flags.iter().map(|(letter, value)| match value {
            None => letter.to_string(),
            Some(value) => format!("{letter}={value}"),
        });
        flags.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_option_short_long_and_cut_short() {
        for (words, expected) in [
            ("-V", "V"),
            ("--version", "V"),
            ("-h", "h"),
            ("--hel", "h"),
            ("-C", "C"),
            ("--config", "C"),
            ("-v", "v"),
            ("-q", "q"),
            ("--quiet", "q"),
            ("-D", "D"),
            ("-g", "g"),
            ("--print", "p"),
            ("-c 25", "c=25"),
            ("-c25", "c=25"),
            ("--concurrent=25", "c=25"),
            ("--conc 25", "c=25"),
            ("-r 3", "r=3"),
            ("--reps=once", "r=once"),
            ("-rONCE", "r=ONCE"),
            ("-t10S", "t=10S"),
            ("-t 1m", "t=1m"),
            ("--time=2H", "t=2H"),
            ("-d 0.5", "d=0.5"),
            ("--delay=-1", "d=-1"),
            ("-b", "b"),
            ("--bench", "b"),
            ("-i", "i"),
            ("-f u", "f=u"),
            ("-Rrc", "R=rc"),
            ("--rc=rc", "R=rc"),
            ("-l", "l"),
            ("-l/x.log", "l=/x.log"),
            ("--log=/x.log", "l=/x.log"),
            ("--log", "l"),
            ("-L /x.log", "L=/x.log"),
            ("-m a", "m=a"),
            ("-H A:b", "H=A:b"),
            ("-A x", "A=x"),
            ("--user-agent=x", "A=x"),
            ("--agent=x", "A=x"),
            ("-T a/b", "T=a/b"),
            ("--cont=a/b", "T=a/b"),
            ("-j", "j"),
            ("--json", "j"),
            ("--no-parser", "N"),
            ("-N", "N"),
            ("--no-follow", "F"),
            ("-F", "F"),
        ] {
            let arguments = parse(words).unwrap();
            assert_eq!(shown(&arguments.flags), expected, "{words}");
            assert_eq!(arguments.operands, Vec::<String>::new(), "{words}");
        }
    }

    #[test]
    fn short_options_stand_together_and_operands_anywhere() {
        let arguments = parse("a.test -bqc 5 b.test -r2").unwrap();
        assert_eq!(shown(&arguments.flags), "b q c=5 r=2");
        assert_eq!(arguments.operands, ["a.test", "b.test"]);
        let arguments = parse("-gq --get=a.test -- -b").unwrap();
        assert_eq!(arguments.operands, ["a.test", "-b"]);
    }

    #[test]
    fn mistakes_are_named() {
        for (words, expected) in [
            ("--bogus", "unrecognized option '--bogus'"),
            (
                "--co 1",
                "option '--co' is ambiguous; possibilities: '--config' '--concurrent' '--content-type'",
            ),
            ("-x", "invalid option -- 'x'"),
            ("-c", "option requires an argument -- 'c'"),
        ] {
            assert_eq!(parse(words).unwrap_err().to_string(), expected, "{words}");
        }
    }
}
