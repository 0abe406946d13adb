//! Parses flags as Go's flag package does: `-n 5`, `-n=5`, `--n=5`. A switch takes a value only
//! after `=`. The first argument that is not a flag ends the flags.

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

/// Kind of value that a flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlagValue {
    /// A required value: the text after `=`, or the next argument.
    Value,
    /// A switch: no value, `=true` or `=false`.
    Nothing,
}

/// Reason why arguments are invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FlagError {
    /// `-help`: the usage was requested.
    Help,
    NotText(OsString),
    /// An argument has dashes but no valid name.
    Syntax(String),
    Undefined(String),
    LacksArgument(String),
    Value {
        flag: GoFlag,
        is_switch: bool,
        cause: &'static str,
    },
}

/// Formats the error as Go does.
impl fmt::Display for FlagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlagError::Help => f.write_str("flag: help requested"),
            FlagError::NotText(argument) => write!(f, "{argument:?} is not UTF-8 text"),
            FlagError::Syntax(word) => write!(f, "bad flag syntax: {word}"),
            FlagError::Undefined(name) => write!(f, "flag provided but not defined: -{name}"),
            FlagError::LacksArgument(name) => write!(f, "flag needs an argument: -{name}"),
            FlagError::Value {
                flag: GoFlag { name, value },
                is_switch,
                cause,
            } => match is_switch {
                true => write!(f, "invalid boolean value {value:?} for -{name}: {cause}"),
                false => write!(f, "invalid value {value:?} for flag -{name}: {cause}"),
            },
        }
    }
}

/// A flag and its value. A switch has the value `true` or `false`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GoFlag {
    /// Name of the flag, without dashes.
    pub(super) name: String,
    pub(super) value: String,
}

/// Splits the arguments into flags and the arguments after them. `takes` returns the kind of value
/// that a flag takes, or `None` for an unknown flag.
///
/// # Errors
///
/// Returns an error for the first flag that is unknown, malformed, or lacks its value.
pub(super) fn split(
    arguments: &[OsString],
    takes: impl Fn(&str) -> Option<FlagValue>,
) -> Result<(Vec<GoFlag>, Vec<String>), FlagError> {
    let mut words = Vec::new();
    for argument in arguments {
        match argument.to_str() {
            Some(word) => words.push(word),
            None => return Err(FlagError::NotText(argument.clone())),
        }
    }
    let mut flags = Vec::new();
    let mut rest = words.into_iter().peekable();
    while let Some(&word) = rest.peek() {
        if word.len() < 2 || !word.starts_with('-') {
            break;
        }
        rest.next();
        if word == "--" {
            break;
        }
        let bare = word.strip_prefix("--").unwrap_or(&word[1..]);
        if bare.is_empty() || bare.starts_with(['-', '=']) {
            return Err(FlagError::Syntax(word.to_owned()));
        }
        let (name, given) = match bare.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (bare, None),
        };
        let value = match (takes(name), given) {
            (None, _) if name == "help" => return Err(FlagError::Help),
            (None, _) => return Err(FlagError::Undefined(name.to_owned())),
            (Some(FlagValue::Nothing), None) => "true",
            (Some(_), Some(value)) => value,
            (Some(FlagValue::Value), None) => match rest.next() {
                Some(value) => value,
                None => return Err(FlagError::LacksArgument(name.to_owned())),
            },
        };
        flags.push(GoFlag {
            name: name.to_owned(),
            value: value.to_owned(),
        });
    }
    Ok((flags, rest.map(str::to_owned).collect()))
}

impl GoFlag {
    /// Parses the value as an integer in any of Go's notations: `10`, `0x1F`, `0b101`, `1_000`.
    pub(super) fn int(&self) -> Result<i64, FlagError> {
        integer(&self.value).map_err(|cause| self.invalid(false, cause))
    }

    /// Parses the value as a number.
    pub(super) fn float(&self) -> Result<f64, FlagError> {
        let parsed = self.value.parse();
        parsed.map_err(|_| self.invalid(false, PARSE_ERROR))
    }

    /// Parses the value of a switch.
    pub(super) fn switch(&self) -> Result<bool, FlagError> {
        match self.value.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
            _ => Err(self.invalid(true, PARSE_ERROR)),
        }
    }

    /// Parses a duration such as `1h30m` or `1.5s`. Returns `None` for zero and negative durations.
    pub(super) fn time(&self) -> Result<Option<Duration>, FlagError> {
        let unsigned = self.value.trim_start_matches(['+', '-']);
        let is_negative = self.value.starts_with('-');
        match (self.value.len() - unsigned.len() < 2)
            .then(|| duration(unsigned))
            .flatten()
        {
            Some(time) => Ok(Some(time).filter(|time| !time.is_zero() && !is_negative)),
            None => Err(self.invalid(false, PARSE_ERROR)),
        }
    }

    fn invalid(&self, is_switch: bool, cause: &'static str) -> FlagError {
        FlagError::Value {
            flag: self.clone(),
            is_switch,
            cause,
        }
    }
}

const PARSE_ERROR: &str = "parse error";

fn integer(text: &str) -> Result<i64, &'static str> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if text.starts_with('-') { "-" } else { "" };
    let lower = unsigned.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    let is_spaced_ill =
        digits.ends_with('_') || digits.contains("__") || (radix == 10 && digits.starts_with('_'));
    let digits = digits.replace('_', "");
    let are_digits = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    if is_spaced_ill || !are_digits {
        return Err(PARSE_ERROR);
    }
    i64::from_str_radix(&format!("{sign}{digits}"), radix).map_err(|_| "value out of range")
}

/// Parses the absolute value of a duration in Go's notation: numbers with units, or `0`.
fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut seconds = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let ends = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..ends].parse().ok()?;
        rest = &rest[ends..];
        let ends = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        seconds += number
            * match &rest[..ends] {
                "ns" => 1e-9,
                "us" | "µs" | "μs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = &rest[ends..];
    }
    Some(text)
        .filter(|text| !text.is_empty())
        .and_then(|_| Duration::try_from_secs_f64(seconds).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str) -> Option<FlagValue> {
        match name {
            "n" | "z" => Some(FlagValue::Value),
            "h2" => Some(FlagValue::Nothing),
            _ => None,
        }
    }

    fn parse_words(words: &str) -> Result<(Vec<GoFlag>, Vec<String>), FlagError> {
        let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        split(&words, known)
    }

    fn wrong(words: &str) -> String {
        parse_words(words).unwrap_err().to_string()
    }

    #[test]
    fn a_flag_and_its_value_are_one_or_two_words() {
        for words in ["-n 5 U", "-n=5 U", "--n 5 U", "--n=5 U"] {
            let (flags, rest) = parse_words(words).unwrap();
            assert_eq!(
                (flags[0].name.as_str(), flags[0].value.as_str()),
                ("n", "5")
            );
            assert_eq!(rest, ["U"]);
        }
    }

    #[test]
    fn a_switch_takes_no_word() {
        let (flags, rest) = parse_words("-h2 U").unwrap();
        assert_eq!((flags[0].switch(), rest.len()), (Ok(true), 1));
        assert_eq!(parse_words("-h2=F U").unwrap().0[0].switch(), Ok(false));
    }

    #[test]
    fn flags_end_at_the_first_other_word() {
        assert_eq!(
            parse_words("U -n 5").unwrap(),
            (vec![], owned(&["U", "-n", "5"]))
        );
        assert_eq!(parse_words("-- -n").unwrap(), (vec![], owned(&["-n"])));
        assert_eq!(parse_words("- -n").unwrap(), (vec![], owned(&["-", "-n"])));
    }

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn errors_are_in_gos_words() {
        assert_eq!(wrong("-foo"), "flag provided but not defined: -foo");
        assert_eq!(wrong("-n"), "flag needs an argument: -n");
        assert_eq!(wrong("---n"), "bad flag syntax: ---n");
        assert_eq!(wrong("-=5"), "bad flag syntax: -=5");
        assert_eq!(parse_words("--help"), Err(FlagError::Help));
    }

    fn flag(name: &str, value: &str) -> GoFlag {
        GoFlag {
            name: name.to_owned(),
            value: value.to_owned(),
        }
    }

    #[test]
    fn values_are_read_as_go_reads_them() {
        let int = |value| flag("n", value).int();
        for (input, expected) in [
            ("10", 10),
            ("-3", -3),
            ("+3", 3),
            ("0x1F", 31),
            ("0b11", 3),
            ("010", 8),
            ("1_000", 1000),
            ("0", 0),
        ] {
            assert_eq!(int(input), Ok(expected), "{input}");
        }
        for input in ["", "x", "1.5", "1__0", "_1", "1_", "09", "--1"] {
            let text = format!("invalid value {input:?} for flag -n: parse error");
            assert_eq!(int(input).unwrap_err().to_string(), text);
        }
        let far = "invalid value \"99999999999999999999\" for flag -n: value out of range";
        let error = int("99999999999999999999").unwrap_err();
        assert_eq!(error.to_string(), far);
        let text = "invalid boolean value \"maybe\" for -h2: parse error";
        let error = flag("h2", "maybe").switch().unwrap_err();
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn times_need_a_unit() {
        let time = |value| flag("z", value).time();
        let seconds = |s| Ok(Some(Duration::from_secs_f64(s)));
        assert_eq!(time("10s"), seconds(10.0));
        assert_eq!(time("1m30s"), seconds(90.0));
        assert_eq!(time("1.5h"), seconds(5400.0));
        assert_eq!(time("300ms"), seconds(0.3));
        assert_eq!(time("-5s"), Ok(None));
        assert_eq!(time("0"), Ok(None));
        for input in ["10", "", "s", "5x", "--5s", "1.2.3s"] {
            let text = format!("invalid value {input:?} for flag -z: parse error");
            assert_eq!(time(input).unwrap_err().to_string(), text);
        }
    }
}
