//! Parses wrk's options, and wrk2's options `-R`, `-U` and `-B`.

use super::units::{read_count, read_seconds};
use super::url::WrkUrl;
use prony_load::SettingsError;

use crate::getopt::{OptionArgument, OptionPlacement, OptionSpec, Options};

/// Parsed arguments of wrk.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct WrkArguments {
    pub(super) connections: u64,
    pub(super) threads: u64,
    pub(super) duration_s: u64,
    pub(super) timeout_s: u64,
    /// Total requests per second for wrk2's open loop.
    pub(super) rate_per_s: Option<u64>,
    pub(super) script: Option<String>,
    /// Header names and values.
    pub(super) headers: Vec<(String, String)>,
    pub(super) prints_latency: bool,
    pub(super) prints_uncorrected: bool,
    pub(super) url: WrkUrl,
    /// URL and the arguments after it. A script receives them as its arguments, numbered from 0.
    pub(super) words: Vec<String>,
}

/// Reason why no load runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WrkError {
    /// Text for standard output, printed before the usage.
    pub(super) version: String,
    /// Message for standard error; `None` if wrk prints no message.
    pub(super) message: Option<SettingsError>,
}

/// Maximum accepted duration in seconds: about 30 years.
const DURATION_MAX_S: u64 = 1_000_000_000;

/// Text that `-v` prints. The run continues afterwards.
pub(super) const VERSION: &str = concat!(
    "wrk-compatible mode of prony ",
    env!("CARGO_PKG_VERSION"),
    " (options of wrk 4.2.0)\n"
);

const fn option(name: &'static str, letter: char, argument: OptionArgument) -> OptionSpec {
    OptionSpec {
        name: Some(name),
        letter,
        // In wrk, help has no short option.
        is_short: letter != 'h',
        argument,
    }
}

const KNOWN: &[OptionSpec] = &[
    option("connections", 'c', OptionArgument::Required),
    option("duration", 'd', OptionArgument::Required),
    option("threads", 't', OptionArgument::Required),
    option("script", 's', OptionArgument::Required),
    option("header", 'H', OptionArgument::Required),
    option("latency", 'L', OptionArgument::None),
    option("u_latency", 'U', OptionArgument::None),
    option("batch_latency", 'B', OptionArgument::None),
    option("timeout", 'T', OptionArgument::Required),
    option("rate", 'R', OptionArgument::Required),
    option("help", 'h', OptionArgument::None),
    option("version", 'v', OptionArgument::None),
];

/// Returns an error that names the program, as getopt does.
fn wrong(cause: String) -> SettingsError {
    SettingsError::from(cause).at("wrk")
}

impl WrkArguments {
    /// Parses the arguments. Returns the text that `-v` prints, and the parsed arguments. An error
    /// contains the text, too.
    pub(super) fn read(words: &[String]) -> Result<(String, WrkArguments), WrkError> {
        let mut version = String::new();
        WrkArguments::read_all(words, &mut version)
            .map_err(|message| WrkError {
                version: version.clone(),
                message,
            })
            .map(|arguments| (version, arguments))
    }

    fn read_all(
        words: &[String],
        version: &mut String,
    ) -> Result<WrkArguments, Option<SettingsError>> {
        let mut arguments = WrkArguments {
            connections: 10,
            threads: 2,
            duration_s: 10,
            timeout_s: 2,
            ..WrkArguments::default()
        };
        let mut options = Options::new(KNOWN, OptionPlacement::Anywhere, words);
        for read in options.by_ref() {
            let (letter, value) = read.map_err(|slip| Some(wrong(slip.to_string())))?;
            match letter {
                'v' => version.push_str(VERSION),
                _ => arguments.set(letter, value.unwrap_or_default())?,
            }
        }
        let others = options.others();
        arguments.words = others.into_iter().map(str::to_owned).collect();
        arguments.check()
    }

    fn set(&mut self, letter: char, value: &str) -> Result<(), Option<SettingsError>> {
        let count = || read_count(value).ok_or(None);
        let seconds = || match read_seconds(value).ok_or(None)? {
            seconds if seconds > DURATION_MAX_S => {
                let error =
                    SettingsError::from(format!("must be at most {DURATION_MAX_S} seconds"));
                Err(Some(error.at(format!("-{letter} {value}")).at("wrk")))
            }
            seconds => Ok(seconds),
        };
        match letter {
            't' => self.threads = count()?,
            'c' => self.connections = count()?,
            'd' => self.duration_s = seconds()?,
            'T' => self.timeout_s = seconds()?,
            'R' => self.rate_per_s = Some(count()?),
            's' => self.script = Some(value.to_owned()),
            'H' => self.add_header(value)?,
            'L' => self.prints_latency = true,
            'U' => (self.prints_latency, self.prints_uncorrected) = (true, true),
            // -B has no effect, because all requests of a batch have the same latency, as in wrk.
            'B' => {}
            _ => return Err(None),
        }
        Ok(())
    }

    /// Adds a header, which replaces an earlier one with the same name.
    fn add_header(&mut self, text: &str) -> Result<(), Option<SettingsError>> {
        let Some((name, value)) = text.split_once(':') else {
            let error = wrong(format!("header \"{text}\" has no colon"));
            return Err(Some(error.hint("write it like 'Accept: text/html'")));
        };
        let value = value.trim().to_owned();
        match self.headers.iter_mut().find(|(own, _)| own == name) {
            Some(own) => own.1 = value,
            None => self.headers.push((name.to_owned(), value)),
        }
        Ok(())
    }

    fn check(mut self) -> Result<WrkArguments, Option<SettingsError>> {
        let url = self.words.first().ok_or(None)?;
        if self.threads == 0 || self.duration_s == 0 || self.rate_per_s == Some(0) {
            return Err(None);
        }
        self.url = WrkUrl::parse(url).ok_or_else(|| Some(format!("invalid URL: {url}").into()))?;
        if self.connections < self.threads {
            return Err(Some("number of connections must be >= threads".into()));
        }
        Ok(self)
    }
}

/// wrk's usage, with wrk2's options.
pub(super) const USAGE: &str = "\
Usage: wrk <options> <url>                            
  Options:                                            
    -c, --connections <N>  Connections to keep open   
    -d, --duration    <T>  Duration of test           
    -t, --threads     <N>  Number of threads to use   
                                                      
    -s, --script      <S>  Load Lua script file       
    -H, --header      <H>  Add header to request      
        --latency          Print latency statistics   
        --timeout     <T>  Socket/request timeout     
    -v, --version          Print version details      
                                                      
    -R, --rate        <T>  work rate (throughput)     
                           in requests/sec (total)    
    -U  --u_latency        Print uncorrected latency statistics
                                                      
  Numeric arguments may include a SI unit (1k, 1M, 1G)
  Time arguments may include a time unit (2s, 2m, 2h)
";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<(String, WrkArguments), WrkError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        WrkArguments::read(&words)
    }

    fn good(words: &[&str]) -> WrkArguments {
        read(words)
            .unwrap_or_else(|wrong| panic!("{words:?}: {wrong:?}"))
            .1
    }

    #[test]
    fn a_url_alone_uses_wrks_defaults() {
        let read = good(&["http://h/"]);
        assert_eq!((read.threads, read.connections), (2, 10));
        assert_eq!((read.duration_s, read.timeout_s), (10, 2));
        assert_eq!((read.rate_per_s, read.script), (None, None));
        assert!(!read.prints_latency && read.headers.is_empty());
    }

    #[test]
    fn each_option_has_a_short_and_a_long_form() {
        let long = [
            "--threads",
            "1",
            "--connections",
            "1k",
            "--duration",
            "2m",
            "--script",
            "x.lua",
            "--header",
            "A: b",
            "--latency",
            "--timeout",
            "3s",
            "--rate",
            "5k",
            "http://h/p?q",
            "--",
            "-a",
            "b",
        ];
        let short = [
            "-t1",
            "-c1k",
            "-d2m",
            "-sx.lua",
            "-HA: b",
            "-L",
            "-T3",
            "-R5k",
            "http://h/p?q",
            "--",
            "-a",
            "b",
        ];
        let read = good(&long);
        assert_eq!(read, good(&short));
        assert_eq!((read.threads, read.connections), (1, 1000));
        assert_eq!((read.duration_s, read.timeout_s), (120, 3));
        assert_eq!(read.rate_per_s, Some(5000));
        assert_eq!(read.script.as_deref(), Some("x.lua"));
        assert_eq!(read.headers, [("A".to_owned(), "b".to_owned())]);
        assert!(read.prints_latency && !read.prints_uncorrected);
        assert_eq!(read.words, ["http://h/p?q", "-a", "b"]);
        let uncorrected = good(&["-U", "http://h/"]);
        assert!(uncorrected.prints_latency && uncorrected.prints_uncorrected);
    }

    #[test]
    fn a_header_typed_twice_is_the_later_one() {
        let read = good(&["-H", "A: 1", "-H", "B:2", "-H", "A: 3: 4", "http://h"]);
        let headers: Vec<_> = read
            .headers
            .iter()
            .map(|(n, v)| format!("{n}={v}"))
            .collect();
        assert_eq!(headers, ["A=3: 4", "B=2"]);
    }

    #[test]
    fn errors_have_the_wording_of_wrk() {
        for (words, expected_text) in [
            (vec![], None),
            (vec!["-t0", "http://h"], None),
            (vec!["-d0", "http://h"], None),
            (vec!["-d500ms", "http://h"], None),
            (vec!["-cx", "http://h"], None),
            (vec!["-R0", "http://h"], None),
            (vec!["--help", "http://h"], None),
            (
                vec!["-c1", "http://h"],
                Some("number of connections must be >= threads"),
            ),
            (
                vec!["-d9999999h", "http://h"],
                Some("wrk: -d 9999999h: must be at most 1000000000 seconds"),
            ),
            (vec!["h:80"], Some("invalid URL: h:80")),
            (vec!["-r", "http://h"], Some("wrk: invalid option -- 'r'")),
            (
                vec!["-H", "A", "http://h"],
                Some("wrk: header \"A\" has no colon; write it like 'Accept: text/html'"),
            ),
        ] {
            let wrong = read(&words).unwrap_err();
            let message = wrong.message.map(|error| error.to_string());
            assert_eq!(message.as_deref(), expected_text, "{words:?}");
            assert_eq!(wrong.version, "");
        }
    }

    #[test]
    fn a_version_is_printed_and_the_load_still_runs() {
        assert_eq!(read(&["-v"]).unwrap_err().version, VERSION);
        assert_eq!(read(&["-v", "http://h"]).unwrap().0, VERSION);
    }
}
