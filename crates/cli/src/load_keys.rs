//! Lists the settings of a load as keys of `[load]` in a plan. Their documentation comes from the
//! flags.

use clap::{Arg, ArgAction, Args};
use prony_experiment::plan::is_load_key;
use prony_experiment::plan::reference::{ReferenceKey, ValueType};

use crate::arguments::LoadArguments;

/// Returns every load setting that is also a key of a plan.
pub(crate) fn all() -> Vec<ReferenceKey> {
    let flags = LoadArguments::augment_args(clap::Command::new("load"));
    let named = flags.get_arguments().filter(|arg| arg.get_long().is_some());
    let keys = named.map(of_flag);
    keys.filter(|key| is_load_key(&key.name)).collect()
}

/// Converts a flag of `prony load` into a plan key.
fn of_flag(arg: &Arg) -> ReferenceKey {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let (meaning, in_help) = match help.split_once(" [default: ") {
        Some((meaning, default)) => (meaning.to_owned(), default.trim_end_matches(']').to_owned()),
        None => (help, String::new()),
    };
    // "Repeatable" doesn't apply to a plan, where several values are a list.
    let meaning = meaning
        .split("; repeatable")
        .next()
        .unwrap_or_default()
        .to_owned();
    let name = arg.get_long().unwrap_or_default().replace('-', "_");
    let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
    let default = match in_help {
        _ if is_switch => "false".to_owned(),
        _ if ["duration", "warmup"].contains(&name.as_str()) => "that of [trials]".to_owned(),
        value if is_word_of(arg, &value) => format!("\"{value}\""),
        description => description,
    };
    ReferenceKey {
        value: type_of(arg),
        default,
        example: load_example(&name).to_owned(),
        meaning: lower_case_start(&meaning),
        required: false,
        name,
    }
}

/// Lowercases the first letter, unless the first word is an abbreviation.
fn lower_case_start(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    }
}

/// Returns true if the default is a literal value of the flag rather than a description. Literal
/// values need quotes in TOML.
fn is_word_of(arg: &Arg, default: &str) -> bool {
    let mut choices = arg.get_possible_values().into_iter();
    let is_method = default.chars().all(|c| c.is_ascii_uppercase());
    let is_quantity = default.starts_with(|c: char| c.is_ascii_digit());
    let has_word = choices.any(|value| value.get_name() == default) || is_method || is_quantity;
    has_word && !default.is_empty() && !default.contains(' ') && default.parse::<f64>().is_err()
}

/// Derives the type of a plan key from the declaration of its flag.
fn type_of(arg: &Arg) -> ValueType {
    let choices: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name().to_owned())
        .collect();
    let names = arg.get_value_names().unwrap_or_default();
    let name = names.first().map_or("", |name| name.as_str());
    match (arg.get_action(), name) {
        (ArgAction::SetTrue, _) => ValueType::Bool,
        (ArgAction::Append, "K: V") => {
            ValueType::Either(vec![ValueType::List, ValueType::TextTable])
        }
        (ArgAction::Append, _) => ValueType::List,
        _ if !choices.is_empty() => ValueType::Choice(choices),
        (_, "TIME") => ValueType::Time,
        (_, "SIZE") => ValueType::Size,
        (_, "FILE" | "PATH") => ValueType::Path,
        (_, "N|A:B") => ValueType::Rate,
        (_, "N") if arg.get_id() == "expect_size" => ValueType::Size,
        (_, "N") => ValueType::Count,
        (_, "LIST") => match arg.get_id().as_str() {
            "cores" => ValueType::Cores,
            _ => ValueType::List,
        },
        (_, "1.2|1.3") => ValueType::Choice(["1.2", "1.3"].map(str::to_owned).to_vec()),
        _ => ValueType::Text,
    }
}

/// Returns an example for keys whose syntax isn't obvious from their type.
fn load_example(name: &str) -> &'static str {
    match name {
        "connections" => "64",
        "requests" => "100000",
        "duration" | "timeout" | "wait_for_server" => "\"30s\"",
        "warmup" | "connect_timeout" => "\"1s\"",
        "rate" => "2000",
        "stages" => "[\"500@30s\", \"2000@1m\", \"2000@5m\"]",
        "arrivals" => "\"poisson\"",
        "think" => "\"exp:1s\"",
        "cores" => "\"1\"",
        "method" => "\"POST\"",
        "header" => "{ Accept-Encoding = \"gzip\" }",
        "user" => "\"alice:secret\"",
        "body" => "\"a=1\"",
        "urls" => "\"urls.txt\"",
        "data" => "\"users.csv\"",
        "script" => "\"load.lua\"",
        "script_args" => "[\"a\", \"b\"]",
        "http" => "\"2\"",
        "streams" => "32",
        "proxy" => "\"10.0.0.3:3128\"",
        "source" | "proxy_source" => "[\"10.50.0.0/16\"]",
        "resolve" => "[\"example.org:443:127.0.0.1\"]",
        "socket_buffer" | "expect_size" => "\"64K\"",
        "expect_status" => "\"200,304\"",
        "interface" => "\"lan\"",
        "gateway_mac" => "\"02:00:00:00:00:01\"",
        "sni" => "\"example.org\"",
        "ciphers" => "[\"TLS13_AES_128_GCM_SHA256\"]",
        "ca" => "\"ca.pem\"",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_documented_by_the_flags() {
        let keys = all();
        let find = |name: &str| keys.iter().find(|key| key.name == name);
        for key in ["connections", "rate", "http", "expect_status", "source"] {
            assert!(find(key).is_some(), "{key}");
        }
        assert_eq!(find("unix"), None);
        let default = |name: &str| find(name).unwrap().default.as_str();
        assert_eq!(default("connections"), "50");
        assert_eq!(default("timeout"), "\"20s\"");
        assert_eq!(default("io"), "\"auto\"");
        assert_eq!(default("source"), "");
    }

    #[test]
    fn meanings_are_short_and_examples_are_toml() {
        for key in all() {
            let words = key.meaning.split_whitespace().count();
            assert!((1..=20).contains(&words), "{}: {words} words", key.name);
            assert!(!key.meaning.ends_with('.'), "{}", key.name);
            let text = format!("{} = {}", key.name, key.example);
            assert!(
                key.example.is_empty() || text.parse::<toml::Table>().is_ok(),
                "{text}"
            );
        }
    }
}
