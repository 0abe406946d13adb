//! Settings of a run, from the configuration file and the command line.

use std::path::PathBuf;

use prony_load::SettingsError;

use super::arguments::{self, Repetitions, SiegeFlag};
use super::listed::Method;

/// The siege version that is emulated.
pub(super) const VERSION: &str = "4.0.7";

/// User name and password for a realm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SiegeLogin {
    pub(super) name: String,
    pub(super) password: String,
    /// Realm for which the login is used; `None` means any realm.
    pub(super) realm: Option<String>,
}

impl SiegeLogin {
    /// Parses `NAME:PASSWORD` or `NAME:PASSWORD:REALM`. The realms `any` and `all` mean any realm.
    pub(super) fn parse(text: &str) -> SiegeLogin {
        let mut parts = text.splitn(3, ':').map(str::trim);
        let mut part = || parts.next().map(str::to_owned);
        let (name, password, realm) = (part(), part(), part());
        SiegeLogin {
            name: name.unwrap_or_default(),
            password: password.unwrap_or_default(),
            realm: realm.filter(|realm| !matches!(realm.as_str(), "" | "any" | "all")),
        }
    }
}

/// Settings of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SiegeSettings {
    pub(super) verbose: bool,
    pub(super) color: bool,
    pub(super) quiet: bool,
    pub(super) json: bool,
    pub(super) csv: bool,
    pub(super) timestamp: bool,
    pub(super) full_url: bool,
    pub(super) display_id: bool,
    pub(super) logging: bool,
    pub(super) show_log: bool,
    pub(super) log: PathBuf,
    pub(super) mark: Option<String>,
    /// True to print one request and its response (`-g`).
    pub(super) get: bool,
    /// True to print one response with its body (`-p`).
    pub(super) print: bool,
    /// Method of the request that `-g` sends.
    pub(super) get_method: Method,
    pub(super) users: u64,
    pub(super) reps: Repetitions,
    pub(super) time_s: Option<u64>,
    /// Maximum pause between two pages, in seconds.
    pub(super) delay_s: f64,
    pub(super) benchmark: bool,
    pub(super) internet: bool,
    pub(super) file: PathBuf,
    pub(super) url: Option<String>,
    pub(super) login_urls: Vec<String>,
    pub(super) user_agent: String,
    pub(super) content_type: String,
    /// Value of the Accept-Encoding header.
    pub(super) encoding: String,
    /// Headers from `-H`, in order.
    pub(super) headers: Vec<(String, String)>,
    pub(super) http11: bool,
    pub(super) keep_alive: bool,
    pub(super) timeout_s: u64,
    pub(super) parser: bool,
    /// Strings that exclude hosts. Parts of pages are not fetched from a host whose name contains
    /// one of these strings.
    pub(super) left_alone: Vec<String>,
    pub(super) follow: bool,
    pub(super) cookies: bool,
    pub(super) expire_session: bool,
    pub(super) zero_ok: bool,
    pub(super) escape: bool,
    /// Number of failures after which the run ends; 0 means no limit.
    pub(super) failures: u64,
    pub(super) limit: u64,
    pub(super) logins: Vec<SiegeLogin>,
    /// Maximum number of attempts at authentication, including the first.
    pub(super) attempts: u64,
    pub(super) proxy_host: Option<String>,
    pub(super) proxy_port: u16,
    pub(super) proxy_logins: Vec<SiegeLogin>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) ciphers: Option<String>,
}

impl SiegeSettings {
    /// Returns the values that siege uses for keys that are missing in a configuration file.
    pub(super) fn bare() -> SiegeSettings {
        SiegeSettings {
            color: true,
            log: "/var/log/siege.log".into(),
            users: 1,
            file: "/etc/siege/urls.txt".into(),
            user_agent: format!(
                "Mozilla/5.0 (pc-{}-{}{}) Siege/{VERSION} prony/{}",
                std::env::consts::ARCH,
                std::env::consts::OS,
                if cfg!(target_env = "gnu") { "-gnu" } else { "" },
                env!("CARGO_PKG_VERSION"),
            ),
            content_type: "application/x-www-form-urlencoded".to_owned(),
            encoding: "*".to_owned(),
            timeout_s: 30,
            follow: true,
            cookies: true,
            zero_ok: true,
            escape: true,
            failures: 1024,
            limit: 255,
            attempts: 5,
            proxy_port: 3128,
            ..SiegeSettings::default()
        }
    }

    /// Returns the values in siege's template, for machines without a configuration file. The
    /// report is text rather than JSON, as a comment in the template says.
    pub(super) fn template() -> SiegeSettings {
        SiegeSettings {
            verbose: true,
            show_log: true,
            get_method: Method::Head,
            users: 25,
            encoding: "gzip, deflate".to_owned(),
            http11: true,
            parser: true,
            left_alone: [
                "ad.doubleclick.net",
                "pagead2.googlesyndication.com",
                "ads.pubsqrd.com",
                "ib.adnxs.com",
            ]
            .map(str::to_owned)
            .to_vec(),
            ..SiegeSettings::bare()
        }
    }

    /// Overrides the configuration with command-line options.
    ///
    /// # Errors
    ///
    /// An option is not supported, or has an invalid value.
    pub(super) fn type_over(&mut self, flags: &[SiegeFlag]) -> Result<(), SettingsError> {
        flags
            .iter()
            .try_for_each(|(letter, value)| self.apply(*letter, value.as_deref()))
    }

    fn apply(&mut self, letter: char, attached: Option<&str>) -> Result<(), SettingsError> {
        let value = attached.unwrap_or_default();
        match letter {
            'v' => self.verbose = true,
            'q' => self.quiet = true,
            'g' => self.get = true,
            'p' => {
                self.print = true;
                // A single page is requested, unless later options request more.
                self.one_page();
            }
            'b' => self.benchmark = true,
            'i' => self.internet = true,
            'j' => self.json = true,
            'N' => self.parser = false,
            'F' => self.follow = false,
            'c' => self.users = arguments::number(value, "-c")?,
            'r' => self.reps = arguments::reps(value)?,
            't' => self.time_s = Some(arguments::time(value)?),
            'd' => self.delay_s = arguments::delay(value)?,
            'f' => self.file = value.into(),
            'l' | 'L' => {
                self.logging = true;
                if let Some(file) = attached {
                    self.log = file.into();
                }
            }
            'm' => {
                self.mark = Some(value.to_owned());
                self.logging = true;
            }
            'H' => self.add_header(value)?,
            'A' => self.user_agent = value.to_owned(),
            'T' => self.content_type = value.to_owned(),
            'D' => {
                return Err(SettingsError::from("there is no debug trace")
                    .hint("-g and -p show the request and the response")
                    .at("-D/--debug"));
            }
            // -V, -h, -C and -R don't change settings.
            _ => {}
        }
        Ok(())
    }

    /// Parses `Name: value` from `-H` or from the key `header`.
    ///
    /// # Errors
    ///
    /// There is no colon.
    pub(super) fn add_header(&mut self, text: &str) -> Result<(), SettingsError> {
        let (name, value) = text.split_once(':').ok_or("no ':' in http-header")?;
        self.headers
            .push((name.trim().to_owned(), value.trim().to_owned()));
        Ok(())
    }

    /// Returns the login for the proxy: the first one for any realm or, if there is none, the first
    /// one.
    pub(super) fn proxy_login(&self) -> Option<&SiegeLogin> {
        let of_all = self.proxy_logins.iter().find(|login| login.realm.is_none());
        of_all.or(self.proxy_logins.first())
    }

    fn one_page(&mut self) {
        self.users = 1;
        self.reps = Repetitions::Times(1);
        self.time_s = None;
    }

    /// Resolves dependencies between settings. Returns a message if settings contradict each other.
    pub(super) fn settle(&mut self) -> Option<String> {
        let mut conflict = None;
        if self.benchmark {
            self.delay_s = 0.0;
        }
        if let (Some(seconds), Repetitions::Times(_)) = (self.time_s, self.reps) {
            conflict = Some(format!(
                "[error] CONFIG conflict: selected time and repetition based testing\n\
                 defaulting to time-based testing: {seconds} seconds"
            ));
            self.reps = Repetitions::Forever;
        }
        self.users = self.users.max(1);
        if self.get {
            self.logging = false;
        }
        if self.get {
            self.one_page();
            conflict = None;
        }
        if self.get || self.print {
            self.delay_s = 0.0;
        }
        if self.json {
            self.quiet = true;
        }
        if self.quiet {
            self.verbose = false;
        }
        conflict
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::arguments::{SiegeArguments, seconds_of};
    use super::*;

    #[test]
    fn times_have_three_units_and_minutes_are_the_default() {
        for (text, seconds) in [
            ("30S", Some(30)),
            ("30s", Some(30)),
            ("5M", Some(300)),
            ("1H", Some(3600)),
            ("2", Some(120)),
            ("10 sec", Some(10)),
            (" 3m ", Some(180)),
            ("0S", None),
            ("S", None),
            ("5d", None),
            ("99999999999999999999S", None),
            ("9999999999999999999H", None),
        ] {
            assert_eq!(seconds_of(text), seconds, "{text}");
        }
    }

    #[test]
    fn logins_have_a_realm_or_are_for_all() {
        let login = SiegeLogin::parse("me:se cret:My: realm");
        assert_eq!(login.realm.as_deref(), Some("My: realm"));
        assert_eq!(SiegeLogin::parse("me:x:any").realm, None);
        assert_eq!(SiegeLogin::parse("me:x").realm, None);
        assert_eq!(SiegeLogin::parse("me").password, "");
    }

    fn flags(words: &[&str]) -> Vec<SiegeFlag> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        SiegeArguments::parse(&words).unwrap().flags
    }

    fn settled(words: &[&str]) -> (SiegeSettings, Option<String>) {
        let mut settings = SiegeSettings::template();
        settings.type_over(&flags(words)).unwrap();
        let conflict = settings.settle();
        (settings, conflict)
    }

    fn parse(words: &[&str]) -> Result<SiegeSettings, SettingsError> {
        let mut settings = SiegeSettings {
            parser: true,
            ..SiegeSettings::bare()
        };
        settings.type_over(&flags(words))?;
        Ok(settings)
    }

    #[test]
    fn every_option_has_an_effect() {
        let words = [
            "-vqgb", "-ijNF", "-c25", "-r3", "-t1 S", "-d0.5", "-fu", "-l/x.log", "-ma b",
            "-HA: b", "-Ax", "-Ta/b",
        ];
        let expected = SiegeSettings {
            verbose: true,
            quiet: true,
            get: true,
            benchmark: true,
            internet: true,
            json: true,
            parser: false,
            follow: false,
            users: 25,
            reps: Repetitions::Times(3),
            time_s: Some(1),
            delay_s: 0.5,
            file: "u".into(),
            logging: true,
            log: "/x.log".into(),
            mark: Some("a b".into()),
            headers: vec![("A".into(), "b".into())],
            user_agent: "x".into(),
            content_type: "a/b".into(),
            ..SiegeSettings::bare()
        };
        assert_eq!(parse(&words), Ok(expected));
        let unchanged = parse(&["-V", "-h", "-C", "-Rrc"]);
        assert_eq!(unchanged, parse(&[]));
    }

    #[test]
    fn values_have_several_notations() {
        for once in ["-ronce", "-rONCE"] {
            assert_eq!(parse(&[once]).unwrap().reps, Repetitions::Once);
        }
        assert_eq!(parse(&["-t5"]).unwrap().time_s, Some(300));
        assert_eq!(parse(&["-d-1"]).unwrap().delay_s, 0.0);
        let default = SiegeSettings::bare().log;
        for (word, file) in [("-l", default), ("-L/x.log", "/x.log".into())] {
            let settings = parse(&[word]).unwrap();
            assert_eq!((settings.logging, settings.log), (true, file), "{word}");
        }
    }

    #[test]
    fn time_takes_precedence_over_reps_with_a_message() {
        let (settings, conflict) = settled(&["-t5S", "-r3"]);
        assert_eq!(settings.reps, Repetitions::Forever);
        assert!(conflict.unwrap().ends_with("time-based testing: 5 seconds"));
        assert_eq!(settled(&["-t5S"]).1, None);
        assert_eq!(settled(&["-t5S", "-ronce"]).1, None);
    }

    #[test]
    fn get_and_print_use_one_user_and_one_request() {
        for flag in ["-g", "-p"] {
            let (settings, _) = settled(&["-c9", "-d3", flag]);
            assert_eq!((settings.users, settings.reps), (1, Repetitions::Times(1)));
            assert_eq!(settings.delay_s, 0.0);
        }
        let (settings, _) = settled(&["-p", "-c2", "-r3"]);
        assert_eq!((settings.users, settings.reps), (2, Repetitions::Times(3)));
        let (settings, _) = settled(&["-g", "-c2", "-r3"]);
        assert_eq!((settings.users, settings.reps), (1, Repetitions::Times(1)));
    }

    #[test]
    fn json_is_quiet_and_quiet_is_not_verbose() {
        assert!(settled(&[]).0.verbose);
        let (settings, _) = settled(&["-j", "-v"]);
        assert!(settings.quiet && !settings.verbose);
        assert_eq!(settled(&["-b", "-d2"]).0.delay_s, 0.0);
    }

    #[test]
    fn wrong_values_and_unsupported_options_are_named() {
        for (word, expected) in [
            ("-cx", "-c \"x\": not a number"),
            ("-r0", "-r 0: nothing would be requested"),
            ("--reps=-1", "-r \"-1\": not a number"),
            ("-tS", "-t \"S\": write it like 30S, 5M or 1H"),
            ("-t0S", "-t \"0S\": write it like 30S, 5M or 1H"),
            ("-dnan", "-d \"nan\": not a number of seconds"),
            ("-Hx", "no ':' in http-header"),
        ] {
            assert_eq!(parse(&[word]).unwrap_err().to_string(), expected, "{word}");
        }
        let error = parse(&["-D"]).unwrap_err().to_string();
        assert!(error.starts_with("-D/--debug: "), "{error}");
    }
}
