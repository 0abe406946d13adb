//! siege's command line: short options that can be put together, long ones that can be cut short as
//! long as no other begins so.

use std::ffi::OsString;
use std::path::PathBuf;

use super::settings::{Reps, seconds_of};
use crate::getopt::{Known, Options, Placing, Takes};

/// What one option says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Flag {
    Version,
    Help,
    Config,
    Verbose,
    Quiet,
    Debug,
    Get,
    Print,
    Concurrent(u64),
    Reps(Reps),
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

/// A command line taken apart.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Arguments {
    /// The options, in their order.
    pub(super) flags: Vec<Flag>,
    /// What is no option, in its order; the last one is the URL.
    pub(super) operands: Vec<String>,
}

const fn option(name: &'static str, letter: char, takes: Takes) -> Known {
    Known {
        name: Some(name),
        letter,
        is_short: true,
        takes,
    }
}

/// The options. `agent` and `L` stand in the manual page alone, and so does what is attached to
/// `get` and `print`.
const KNOWN: &[Known] = &[
    option("version", 'V', Takes::Nothing),
    option("help", 'h', Takes::Nothing),
    option("verbose", 'v', Takes::Nothing),
    option("quiet", 'q', Takes::Nothing),
    option("config", 'C', Takes::Nothing),
    option("debug", 'D', Takes::Nothing),
    Known {
        is_short: false,
        ..option("get", 'g', Takes::Attached)
    },
    Known {
        is_short: false,
        ..option("print", 'p', Takes::Attached)
    },
    letter('g', Takes::Nothing),
    letter('p', Takes::Nothing),
    option("concurrent", 'c', Takes::Value),
    option("no-parser", 'N', Takes::Nothing),
    option("no-follow", 'F', Takes::Nothing),
    option("internet", 'i', Takes::Nothing),
    option("benchmark", 'b', Takes::Nothing),
    option("reps", 'r', Takes::Value),
    option("time", 't', Takes::Value),
    option("delay", 'd', Takes::Value),
    option("log", 'l', Takes::Attached),
    letter('L', Takes::Value),
    option("file", 'f', Takes::Value),
    option("rc", 'R', Takes::Value),
    option("mark", 'm', Takes::Value),
    option("header", 'H', Takes::Value),
    option("user-agent", 'A', Takes::Value),
    option("agent", 'A', Takes::Value),
    option("content-type", 'T', Takes::Value),
    option("json-output", 'j', Takes::Nothing),
];

const fn letter(letter: char, takes: Takes) -> Known {
    Known {
        name: None,
        ..option("", letter, takes)
    }
}

impl Arguments {
    /// Takes the words apart.
    ///
    /// # Errors
    ///
    /// The option that is wrong, and how.
    pub(super) fn parse(words: &[OsString]) -> Result<Arguments, String> {
        let words: Vec<String> = words.iter().map(text).collect::<Result<_, _>>()?;
        let mut flags = Vec::new();
        let mut options = Options::new(KNOWN, Placing::Anywhere, &words);
        while let Some(read) = options.next() {
            let (letter, value) = read.map_err(|slip| slip.to_string())?;
            flags.push(flag(letter, value)?);
            // The manual page has --get=URL, the usage text -g URL: both mean the same.
            if let ('g' | 'p', Some(url)) = (letter, value) {
                options.keep(url);
            }
        }
        let operands = options.others().into_iter().map(str::to_owned).collect();
        Ok(Arguments { flags, operands })
    }
}

fn flag(letter: char, attached: Option<&str>) -> Result<Flag, String> {
    let value = attached.unwrap_or_default();
    Ok(match letter {
        'V' => Flag::Version,
        'h' => Flag::Help,
        'C' => Flag::Config,
        'v' => Flag::Verbose,
        'q' => Flag::Quiet,
        'D' => Flag::Debug,
        'g' => Flag::Get,
        'p' => Flag::Print,
        'b' => Flag::Benchmark,
        'i' => Flag::Internet,
        'j' => Flag::Json,
        'N' => Flag::NoParser,
        'F' => Flag::NoFollow,
        'c' => Flag::Concurrent(number(value, "-c")?),
        'r' => Flag::Reps(reps(value)?),
        't' => {
            let seconds = seconds_of(value);
            Flag::Time(
                seconds.ok_or_else(|| format!("-t \"{value}\": write it like 30S, 5M or 1H"))?,
            )
        }
        'd' => Flag::Delay(delay(value)?),
        'f' => Flag::File(value.into()),
        'R' => Flag::Rc(value.into()),
        'L' | 'l' => Flag::Log(attached.map(PathBuf::from)),
        'm' => Flag::Mark(value.to_owned()),
        'H' => Flag::Header(value.to_owned()),
        'A' => Flag::UserAgent(value.to_owned()),
        // What is left is -T.
        _ => Flag::ContentType(value.to_owned()),
    })
}

fn text(word: &OsString) -> Result<String, String> {
    let text = word.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("\"{}\": not UTF-8", word.display()))
}

fn number(typed: &str, shown: &str) -> Result<u64, String> {
    typed
        .trim()
        .parse()
        .map_err(|_| format!("{shown} \"{typed}\": not a number"))
}

fn reps(typed: &str) -> Result<Reps, String> {
    if typed.eq_ignore_ascii_case("once") {
        return Ok(Reps::Once);
    }
    match number(typed, "-r")? {
        0 => Err("-r 0: nothing would be requested".to_owned()),
        times => Ok(Reps::Times(times)),
    }
}

fn delay(typed: &str) -> Result<f64, String> {
    match typed.trim().parse::<f64>() {
        // What is below nothing is nothing, as in the original.
        Ok(seconds) if seconds.is_finite() => Ok(seconds.max(0.0)),
        _ => Err(format!("-d \"{typed}\": not a number of seconds")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Arguments, String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        Arguments::parse(&words)
    }

    fn one(words: &[&str]) -> Flag {
        let arguments = parse(words).unwrap();
        assert_eq!(arguments.operands, Vec::<String>::new(), "{words:?}");
        assert_eq!(arguments.flags.len(), 1, "{words:?}");
        arguments.flags[0].clone()
    }

    #[test]
    fn each_option_short_long_and_cut_short() {
        let log = |file: &str| Flag::Log(Some(file.into()));
        for (words, flag) in [
            (&["-V"][..], Flag::Version),
            (&["--version"], Flag::Version),
            (&["-h"], Flag::Help),
            (&["--hel"], Flag::Help),
            (&["-C"], Flag::Config),
            (&["--config"], Flag::Config),
            (&["-v"], Flag::Verbose),
            (&["-q"], Flag::Quiet),
            (&["--quiet"], Flag::Quiet),
            (&["-D"], Flag::Debug),
            (&["-g"], Flag::Get),
            (&["--print"], Flag::Print),
            (&["-c", "25"], Flag::Concurrent(25)),
            (&["-c25"], Flag::Concurrent(25)),
            (&["--concurrent=25"], Flag::Concurrent(25)),
            (&["--conc", "25"], Flag::Concurrent(25)),
            (&["-r", "3"], Flag::Reps(Reps::Times(3))),
            (&["--reps=once"], Flag::Reps(Reps::Once)),
            (&["-rONCE"], Flag::Reps(Reps::Once)),
            (&["-t10S"], Flag::Time(10)),
            (&["-t", "1m"], Flag::Time(60)),
            (&["--time=2H"], Flag::Time(7200)),
            (&["-t", "1 S"], Flag::Time(1)),
            (&["-t5"], Flag::Time(300)),
            (&["-d", "0.5"], Flag::Delay(0.5)),
            (&["--delay=-1"], Flag::Delay(0.0)),
            (&["-b"], Flag::Benchmark),
            (&["--bench"], Flag::Benchmark),
            (&["-i"], Flag::Internet),
            (&["-f", "u"], Flag::File("u".into())),
            (&["-Rrc"], Flag::Rc("rc".into())),
            (&["--rc=rc"], Flag::Rc("rc".into())),
            (&["-l"], Flag::Log(None)),
            (&["-l/x.log"], log("/x.log")),
            (&["--log=/x.log"], log("/x.log")),
            (&["--log"], Flag::Log(None)),
            (&["-L", "/x.log"], log("/x.log")),
            (&["-m", "a b"], Flag::Mark("a b".into())),
            (&["-H", "A: b"], Flag::Header("A: b".into())),
            (&["-A", "x"], Flag::UserAgent("x".into())),
            (&["--user-agent=x"], Flag::UserAgent("x".into())),
            (&["--agent=x"], Flag::UserAgent("x".into())),
            (&["-T", "a/b"], Flag::ContentType("a/b".into())),
            (&["--cont=a/b"], Flag::ContentType("a/b".into())),
            (&["-j"], Flag::Json),
            (&["--json"], Flag::Json),
            (&["--no-parser"], Flag::NoParser),
            (&["-N"], Flag::NoParser),
            (&["--no-follow"], Flag::NoFollow),
            (&["-F"], Flag::NoFollow),
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
                Flag::Benchmark,
                Flag::Quiet,
                Flag::Concurrent(5),
                Flag::Reps(Reps::Times(2))
            ]
        );
        assert_eq!(arguments.operands, ["a.test", "b.test"]);
        let arguments = parse(&["-gq", "--get=a.test", "--", "-b"]).unwrap();
        assert_eq!(arguments.operands, ["a.test", "-b"]);
    }

    #[test]
    fn mistakes_are_named() {
        for (words, told) in [
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
            assert_eq!(parse(words).unwrap_err(), told, "{words:?}");
        }
    }
}
