//! Parses siege's command line, with bundled short options and unambiguous abbreviations of long
//! ones.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::getopt::{OptionArgument, OptionPlacement, OptionSpec, Options};

/// Number of repetitions per user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Repetitions {
    /// Repeat until a time limit or Ctrl-C.
    #[default]
    Forever,
    /// Request this number of pages.
    Times(u64),
    /// Request each URL of the list once.
    Once,
}

/// A parsed option.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SiegeFlag {
    Version,
    Help,
    Config,
    Verbose,
    Quiet,
    Debug,
    Get,
    Print,
    Concurrent(u64),
    Repetitions(Repetitions),
    Time(u64),
    Delay(f64),
    Benchmark,
    Internet,
    File(PathBuf),
    Rc(PathBuf),
    Log(Option<PathBuf>),
    Mark(String),
    Header(String),
    UserAgent(String),
    ContentType(String),
    Json,
    NoParser,
    NoFollow,
}

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
    /// Returns a message that names the invalid option.
    pub(super) fn parse(words: &[OsString]) -> Result<SiegeArguments, String> {
        let words: Vec<String> = words.iter().map(text).collect::<Result<_, _>>()?;
        let mut flags = Vec::new();
        let mut options = Options::new(KNOWN, OptionPlacement::Anywhere, &words);
        while let Some(read) = options.next() {
            let (letter, value) = read.map_err(|slip| slip.to_string())?;
            flags.push(flag(letter, value)?);
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

fn flag(letter: char, attached: Option<&str>) -> Result<SiegeFlag, String> {
    let value = attached.unwrap_or_default();
    Ok(match letter {
        'V' => SiegeFlag::Version,
        'h' => SiegeFlag::Help,
        'C' => SiegeFlag::Config,
        'v' => SiegeFlag::Verbose,
        'q' => SiegeFlag::Quiet,
        'D' => SiegeFlag::Debug,
        'g' => SiegeFlag::Get,
        'p' => SiegeFlag::Print,
        'b' => SiegeFlag::Benchmark,
        'i' => SiegeFlag::Internet,
        'j' => SiegeFlag::Json,
        'N' => SiegeFlag::NoParser,
        'F' => SiegeFlag::NoFollow,
        'c' => SiegeFlag::Concurrent(number(value, "-c")?),
        'r' => SiegeFlag::Repetitions(reps(value)?),
        't' => {
            let seconds = seconds_of(value);
            SiegeFlag::Time(
                seconds.ok_or_else(|| format!("-t \"{value}\": write it like 30S, 5M or 1H"))?,
            )
        }
        'd' => SiegeFlag::Delay(delay(value)?),
        'f' => SiegeFlag::File(value.into()),
        'R' => SiegeFlag::Rc(value.into()),
        'L' | 'l' => SiegeFlag::Log(attached.map(PathBuf::from)),
        'm' => SiegeFlag::Mark(value.to_owned()),
        'H' => SiegeFlag::Header(value.to_owned()),
        'A' => SiegeFlag::UserAgent(value.to_owned()),
        // Only -T remains.
        _ => SiegeFlag::ContentType(value.to_owned()),
    })
}

fn text(word: &OsString) -> Result<String, String> {
    let text = word.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("\"{}\": not UTF-8 text", word.display()))
}

fn number(typed: &str, shown: &str) -> Result<u64, String> {
    typed
        .trim()
        .parse()
        .map_err(|_| format!("{shown} \"{typed}\": not a number"))
}

fn reps(typed: &str) -> Result<Repetitions, String> {
    if typed.eq_ignore_ascii_case("once") {
        return Ok(Repetitions::Once);
    }
    match number(typed, "-r")? {
        0 => Err("-r 0: nothing would be requested".to_owned()),
        times => Ok(Repetitions::Times(times)),
    }
}

fn delay(typed: &str) -> Result<f64, String> {
    match typed.trim().parse::<f64>() {
        // As in siege, negative values mean zero.
        Ok(seconds) if seconds.is_finite() => Ok(seconds.max(0.0)),
        _ => Err(format!("-d \"{typed}\": not a number of seconds")),
    }
}

/// Converts `30S`, `5M` or `1H` to seconds. A number without a unit is in minutes. Returns `None`
/// if the text is invalid.
pub(super) fn seconds_of(typed: &str) -> Option<u64> {
    let typed = typed.trim();
    let end = typed.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = typed.split_at(end);
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

    fn parse(words: &[&str]) -> Result<SiegeArguments, String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        SiegeArguments::parse(&words)
    }

    fn one(words: &[&str]) -> SiegeFlag {
        let arguments = parse(words).unwrap();
        assert_eq!(arguments.operands, Vec::<String>::new(), "{words:?}");
        assert_eq!(arguments.flags.len(), 1, "{words:?}");
        arguments.flags[0].clone()
    }

    #[test]
    fn each_option_short_long_and_cut_short() {
        let log = |file: &str| SiegeFlag::Log(Some(file.into()));
        for (words, flag) in [
            (&["-V"][..], SiegeFlag::Version),
            (&["--version"], SiegeFlag::Version),
            (&["-h"], SiegeFlag::Help),
            (&["--hel"], SiegeFlag::Help),
            (&["-C"], SiegeFlag::Config),
            (&["--config"], SiegeFlag::Config),
            (&["-v"], SiegeFlag::Verbose),
            (&["-q"], SiegeFlag::Quiet),
            (&["--quiet"], SiegeFlag::Quiet),
            (&["-D"], SiegeFlag::Debug),
            (&["-g"], SiegeFlag::Get),
            (&["--print"], SiegeFlag::Print),
            (&["-c", "25"], SiegeFlag::Concurrent(25)),
            (&["-c25"], SiegeFlag::Concurrent(25)),
            (&["--concurrent=25"], SiegeFlag::Concurrent(25)),
            (&["--conc", "25"], SiegeFlag::Concurrent(25)),
            (&["-r", "3"], SiegeFlag::Repetitions(Repetitions::Times(3))),
            (&["--reps=once"], SiegeFlag::Repetitions(Repetitions::Once)),
            (&["-rONCE"], SiegeFlag::Repetitions(Repetitions::Once)),
            (&["-t10S"], SiegeFlag::Time(10)),
            (&["-t", "1m"], SiegeFlag::Time(60)),
            (&["--time=2H"], SiegeFlag::Time(7200)),
            (&["-t", "1 S"], SiegeFlag::Time(1)),
            (&["-t5"], SiegeFlag::Time(300)),
            (&["-d", "0.5"], SiegeFlag::Delay(0.5)),
            (&["--delay=-1"], SiegeFlag::Delay(0.0)),
            (&["-b"], SiegeFlag::Benchmark),
            (&["--bench"], SiegeFlag::Benchmark),
            (&["-i"], SiegeFlag::Internet),
            (&["-f", "u"], SiegeFlag::File("u".into())),
            (&["-Rrc"], SiegeFlag::Rc("rc".into())),
            (&["--rc=rc"], SiegeFlag::Rc("rc".into())),
            (&["-l"], SiegeFlag::Log(None)),
            (&["-l/x.log"], log("/x.log")),
            (&["--log=/x.log"], log("/x.log")),
            (&["--log"], SiegeFlag::Log(None)),
            (&["-L", "/x.log"], log("/x.log")),
            (&["-m", "a b"], SiegeFlag::Mark("a b".into())),
            (&["-H", "A: b"], SiegeFlag::Header("A: b".into())),
            (&["-A", "x"], SiegeFlag::UserAgent("x".into())),
            (&["--user-agent=x"], SiegeFlag::UserAgent("x".into())),
            (&["--agent=x"], SiegeFlag::UserAgent("x".into())),
            (&["-T", "a/b"], SiegeFlag::ContentType("a/b".into())),
            (&["--cont=a/b"], SiegeFlag::ContentType("a/b".into())),
            (&["-j"], SiegeFlag::Json),
            (&["--json"], SiegeFlag::Json),
            (&["--no-parser"], SiegeFlag::NoParser),
            (&["-N"], SiegeFlag::NoParser),
            (&["--no-follow"], SiegeFlag::NoFollow),
            (&["-F"], SiegeFlag::NoFollow),
        ] {
            assert_eq!(one(words), flag, "{words:?}");
        }
    }

    #[test]
    fn short_options_stand_together_and_operands_anywhere() {
        let arguments = parse(&["a.test", "-bqc", "5", "b.test", "-r2"]).unwrap();
        assert_eq!(
            arguments.flags,
            [
                SiegeFlag::Benchmark,
                SiegeFlag::Quiet,
                SiegeFlag::Concurrent(5),
                SiegeFlag::Repetitions(Repetitions::Times(2))
            ]
        );
        assert_eq!(arguments.operands, ["a.test", "b.test"]);
        let arguments = parse(&["-gq", "--get=a.test", "--", "-b"]).unwrap();
        assert_eq!(arguments.operands, ["a.test", "-b"]);
    }

    #[test]
    fn mistakes_are_named() {
        for (words, expected) in [
            (&["--bogus"][..], "unrecognized option '--bogus'"),
            (
                &["--co", "1"],
                "option '--co' is ambiguous; possibilities: '--config' '--concurrent' '--content-type'",
            ),
            (&["-x"], "invalid option -- 'x'"),
            (&["-c"], "option requires an argument -- 'c'"),
            (&["-c", "x"], "-c \"x\": not a number"),
            (&["-r", "0"], "-r 0: nothing would be requested"),
            (&["--reps=-1"], "-r \"-1\": not a number"),
            (&["-t", "S"], "-t \"S\": write it like 30S, 5M or 1H"),
            (&["-t0S"], "-t \"0S\": write it like 30S, 5M or 1H"),
            (&["-d", "nan"], "-d \"nan\": not a number of seconds"),
        ] {
            assert_eq!(parse(words).unwrap_err(), expected, "{words:?}");
        }
    }
}
