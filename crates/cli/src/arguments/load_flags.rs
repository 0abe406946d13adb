//! The load flags that `prony load`, `prony capacity` and `prony compare URL URL` share. They follow
//! from the table of settings.

use std::path::PathBuf;

use clap::builder::{FalseyValueParser, PossibleValue, PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use prony_load::{LoadSettings, Setting, ValueKind, flag_of};

/// Settings of a load, parsed from flags.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoadArguments {
    pub(crate) settings: LoadSettings,
}

/// Name of the arguments after `--`, which are those of the script.
const LAST_ARGUMENTS: &str = "words_of_script";

impl Args for LoadArguments {
    fn augment_args(command: Command) -> Command {
        let last = Arg::new(LAST_ARGUMENTS)
            .last(true)
            .num_args(0..)
            .value_name("SCRIPT_ARGS")
            .help("Arguments for init() of the script")
            .help_heading("Request")
            .requires("script")
            .conflicts_with("script_args")
            .hide(true);
        let flags = LoadSettings::TABLE.iter().map(setting_arg);
        command.args(flags).arg(last)
    }

    fn augment_args_for_update(command: Command) -> Command {
        LoadArguments::augment_args(command)
    }
}

impl FromArgMatches for LoadArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<LoadArguments, clap::Error> {
        let mut settings = LoadSettings::default();
        for setting in LoadSettings::TABLE {
            let key = setting.key;
            match setting.kind {
                ValueKind::Switch if matches.get_flag(key) => {
                    set_value(&mut settings, key, Vec::new())?
                }
                ValueKind::Switch => {}
                ValueKind::File | ValueKind::SocketPath => {
                    if let Some(path) = matches.get_one::<PathBuf>(key) {
                        settings.set_path(key, path.clone());
                    }
                }
                _ => {
                    if let Some(texts) = matches.get_many::<String>(key) {
                        set_value(&mut settings, key, texts.cloned().collect())?;
                    }
                }
            }
        }
        if let Some(words) = matches.get_many::<String>(LAST_ARGUMENTS) {
            set_value(&mut settings, "script_args", words.cloned().collect())?;
        }
        Ok(LoadArguments { settings })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = LoadArguments::from_arg_matches(matches)?;
        Ok(())
    }
}

fn set_value(
    settings: &mut LoadSettings,
    key: &str,
    texts: Vec<String>,
) -> Result<(), clap::Error> {
    settings.set(key, texts).map_err(|error| {
        let kind = clap::error::ErrorKind::ValueValidation;
        clap::Error::raw(kind, error.at(flag_of(key)))
    })
}

/// The flag of a setting.
fn setting_arg(setting: &'static Setting) -> Arg {
    let mut arg = Arg::new(setting.key)
        .long(flag_of(setting.key).trim_start_matches('-').to_owned())
        .help(setting_help(setting))
        .help_heading(setting.group)
        .value_parser(setting_parser(setting));
    if setting.plan_only {
        arg = arg.hide(true);
    }
    if let Some(short) = setting.short {
        arg = arg.short(short);
    }
    if let Some(short) = setting.other_short {
        arg = arg.short_alias(short);
    }
    if let Some(alias) = setting.alias {
        arg = arg.alias(alias);
    }
    if let Some(variable) = setting.environment {
        arg = arg.env(variable).hide_env_values(true);
    }
    if let Some(value) = setting.if_omitted {
        arg = arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value(value);
    }
    if setting.kind != ValueKind::Switch {
        arg = arg.value_name(value_name(setting));
    }
    match setting.kind {
        ValueKind::Switch => arg.action(ArgAction::SetTrue),
        ValueKind::List => arg.action(ArgAction::Append).value_delimiter(','),
        ValueKind::Headers => arg.action(ArgAction::Append),
        ValueKind::Steps => arg.action(ArgAction::Append),
        ValueKind::Texts => arg
            .action(ArgAction::Append)
            .allow_hyphen_values(setting.key == "script_args"),
        _ => arg,
    }
}

/// The help of a flag: meaning and default.
fn setting_help(setting: &Setting) -> String {
    let repeatable = if setting.repeatable {
        "; repeatable"
    } else {
        ""
    };
    let default = match setting.default {
        "" => String::new(),
        default => format!(" [default: {default}]"),
    };
    format!("{}{repeatable}{default}", setting.meaning)
}

/// Parser of a flag's value. Values stay text, so that flags and plans are read in the same way.
fn setting_parser(setting: &'static Setting) -> ValueParser {
    match setting.kind {
        ValueKind::Switch => FalseyValueParser::new().into(),
        ValueKind::File | ValueKind::SocketPath => clap::value_parser!(PathBuf),
        ValueKind::Choice(words) => {
            let value =
                |(name, help): &(&'static str, &'static str)| PossibleValue::new(*name).help(*help);
            PossibleValuesParser::new(words.iter().map(value)).into()
        }
        _ => ValueParser::from(|text: &str| setting.check(text).map(|()| text.to_owned())),
    }
}

/// Name of the value in help.
fn value_name(setting: &Setting) -> String {
    let by_kind = match setting.kind {
        ValueKind::Count | ValueKind::Number => "N",
        ValueKind::Time | ValueKind::PositiveTime => "TIME",
        ValueKind::Size => "SIZE",
        ValueKind::Rate => "N|A:B",
        ValueKind::File => "FILE",
        ValueKind::SocketPath => "PATH",
        ValueKind::TlsVersion => "1.2|1.3",
        ValueKind::Cores | ValueKind::Numbers => "LIST",
        ValueKind::Headers => "K: V",
        _ => "",
    };
    match (setting.placeholder, by_kind) {
        (Some(name), _) => name.to_owned(),
        (None, "") => setting.key.to_uppercase(),
        (None, name) => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct ParsedArgs {
        #[command(flatten)]
        load: LoadArguments,
    }

    fn parsed(words: &[&str]) -> Result<LoadSettings, String> {
        ParsedArgs::try_parse_from(std::iter::once(&"prony").chain(words))
            .map(|text| text.load.settings)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn flags_are_the_settings() {
        let command = LoadArguments::augment_args(clap::Command::new("load"));
        let flags = command.get_arguments().filter_map(clap::Arg::get_long);
        let flags: BTreeSet<String> = flags.map(|flag| flag.replace('-', "_")).collect();
        let keys = LoadSettings::KEYS.iter().map(|key| (*key).to_owned());
        assert_eq!(flags, keys.collect());
        assert_eq!(parsed(&[]).unwrap(), LoadSettings::from_environment());
    }

    #[test]
    fn every_flag_has_a_help_text_and_a_heading() {
        let command = LoadArguments::augment_args(clap::Command::new("load"));
        for arg in command.get_arguments() {
            assert!(arg.get_help().is_some(), "{}", arg.get_id());
            assert!(arg.get_help_heading().is_some(), "{}", arg.get_id());
        }
    }

    #[test]
    fn short_flags_and_those_of_other_tools_are_accepted() {
        let words = "--vus 3 --rps 5 -z 1s --disable-keepalive --unix-socket /s --cacert f";
        let words: Vec<&str> = words.split(' ').collect();
        let settings = parsed(&words).unwrap();
        assert_eq!(
            (settings.connections, settings.rate),
            (Some(3), Some(5.0.into()))
        );
        assert!(settings.no_keepalive && settings.unix.is_some() && settings.ca.is_some());
        let settings = parsed(&["-R", "5", "-k", "--wait-for-server"]).unwrap();
        assert!(settings.insecure);
        assert_eq!(settings.wait_for_server, Some(Duration::from_secs(30)));
    }

    /// Command lines with an invalid flag. The first flag of each command line causes the error.
    const BAD: &[&str] = &[
        "-r 5:x",
        "--stages 5@1y",
        "-c 0",
        "-d 0s",
        "--cores a",
        "--user me",
        "--seed x",
        "--http 4",
        "--io epoll",
        "--order upside",
        "--wait-for-server=x",
        "--expect-status 20",
        "--expect-sha256 12",
        "--tls-min 1.1",
        "--think soon",
        "--source 127.0.0.0/33",
        "--proxy https://h:1",
    ];

    #[test]
    fn errors_name_the_refused_flag() {
        for words in BAD {
            let words: Vec<_> = words.split(' ').collect();
            let error = parsed(&words)
                .err()
                .unwrap_or_else(|| panic!("{words:?} was accepted"));
            let flag = words.iter().find(|word| word.starts_with('-')).unwrap();
            let flag = flag.split('=').next().unwrap();
            assert!(
                error.contains(flag.trim_start_matches('-')),
                "{words:?}: {error}"
            );
        }
        let error = parsed(&["--tls-min", "1.1"]).unwrap_err();
        assert!(
            error.contains("TLS 1.1 is not supported by this TLS library"),
            "{error}"
        );
    }
}
