//! siege's command line: short options that can be put together, long ones that can be cut short as
//! long as no other begins so.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::{Arg, Parser};

use super::settings::{Reps, seconds_of};

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

/// The long options, each with its short one. `agent` and `L` stand in the manual page alone.
const LONG: [(&str, char); 25] = [
    ("version", 'V'),
    ("help", 'h'),
    ("verbose", 'v'),
    ("quiet", 'q'),
    ("config", 'C'),
    ("debug", 'D'),
    ("get", 'g'),
    ("print", 'p'),
    ("concurrent", 'c'),
    ("no-parser", 'N'),
    ("no-follow", 'F'),
    ("internet", 'i'),
    ("benchmark", 'b'),
    ("reps", 'r'),
    ("time", 't'),
    ("delay", 'd'),
    ("log", 'l'),
    ("file", 'f'),
    ("rc", 'R'),
    ("mark", 'm'),
    ("header", 'H'),
    ("user-agent", 'A'),
    ("agent", 'A'),
    ("content-type", 'T'),
    ("json-output", 'j'),
];

impl Arguments {
    /// Takes the words apart.
    ///
    /// # Errors
    ///
    /// The option that is wrong, and how.
    pub(super) fn parse(words: &[OsString]) -> Result<Arguments, String> {
        let mut parser = Parser::from_args(words);
        let mut arguments = Arguments::default();
        while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
            let (short, shown) = match arg {
                Arg::Value(word) => {
                    arguments.operands.push(text(word, "the URL")?);
                    continue;
                }
                Arg::Short(short) => (short, format!("-{short}")),
                Arg::Long(typed) => (short_of(typed)?, format!("--{typed}")),
            };
            let flag = flag(short, &shown, &mut parser)?;
            // The manual page has --get=URL, the usage text -g URL: both mean the same.
            if matches!(flag, Flag::Get | Flag::Print)
                && shown.starts_with("--")
                && let Some(url) = parser.optional_value()
            {
                arguments.operands.push(text(url, &shown)?);
            }
            arguments.flags.push(flag);
        }
        Ok(arguments)
    }
}

/// The short option of a long one, which may be cut short where only one begins so.
fn short_of(typed: &str) -> Result<char, String> {
    if let Some(&(_, short)) = LONG.iter().find(|(name, _)| *name == typed) {
        return Ok(short);
    }
    let begun: Vec<_> = LONG
        .iter()
        .filter(|(name, _)| name.starts_with(typed))
        .collect();
    match begun[..] {
        [] => Err(format!("unrecognized option '--{typed}'")),
        [&(_, short), ref others @ ..] if others.iter().all(|other| other.1 == short) => Ok(short),
        _ => {
            let names: Vec<String> = begun
                .iter()
                .map(|(name, _)| format!("'--{name}'"))
                .collect();
            Err(format!(
                "option '--{typed}' is ambiguous; possibilities: {}",
                names.join(" ")
            ))
        }
    }
}

fn flag(short: char, shown: &str, parser: &mut Parser) -> Result<Flag, String> {
    let mut value = || {
        let value = parser.value().map_err(|error| error.to_string())?;
        text(value, shown)
    };
    Ok(match short {
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
        'c' => Flag::Concurrent(number(&value()?, shown)?),
        'r' => Flag::Reps(reps(&value()?, shown)?),
        't' => {
            let typed = value()?;
            let seconds = seconds_of(&typed);
            Flag::Time(
                seconds
                    .ok_or_else(|| format!("{shown} \"{typed}\": write it like 30S, 5M or 1H"))?,
            )
        }
        'd' => Flag::Delay(delay(&value()?, shown)?),
        'f' => Flag::File(value()?.into()),
        'R' => Flag::Rc(value()?.into()),
        'L' => Flag::Log(Some(value()?.into())),
        'l' => Flag::Log(parser.optional_value().map(PathBuf::from)),
        'm' => Flag::Mark(value()?),
        'H' => Flag::Header(value()?),
        'A' => Flag::UserAgent(value()?),
        'T' => Flag::ContentType(value()?),
        _ => return Err(format!("invalid option -- '{short}'")),
    })
}

fn text(word: OsString, shown: &str) -> Result<String, String> {
    word.into_string()
        .map_err(|word| format!("{shown} \"{}\": not UTF-8", word.display()))
}

fn number(typed: &str, shown: &str) -> Result<u64, String> {
    typed
        .trim()
        .parse()
        .map_err(|_| format!("{shown} \"{typed}\": not a number"))
}

fn reps(typed: &str, shown: &str) -> Result<Reps, String> {
    if typed.eq_ignore_ascii_case("once") {
        return Ok(Reps::Once);
    }
    match number(typed, shown)? {
        0 => Err(format!("{shown} 0: nothing would be requested")),
        times => Ok(Reps::Times(times)),
    }
}

fn delay(typed: &str, shown: &str) -> Result<f64, String> {
    match typed.trim().parse::<f64>() {
        // What is below nothing is nothing, as in the original.
        Ok(seconds) if seconds.is_finite() => Ok(seconds.max(0.0)),
        _ => Err(format!("{shown} \"{typed}\": not a number of seconds")),
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
            (&["-c"], "missing argument for option '-c'"),
            (&["-c", "x"], "-c \"x\": not a number"),
            (&["-r", "0"], "-r 0: nothing would be requested"),
            (&["--reps=-1"], "--reps \"-1\": not a number"),
            (&["-t", "S"], "-t \"S\": write it like 30S, 5M or 1H"),
            (&["-t0S"], "-t \"0S\": write it like 30S, 5M or 1H"),
            (&["-d", "nan"], "-d \"nan\": not a number of seconds"),
        ] {
            assert_eq!(parse(words).unwrap_err(), told, "{words:?}");
        }
    }
}
