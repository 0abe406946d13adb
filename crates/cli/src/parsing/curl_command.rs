//! `prony load --curl`: reads settings from a pasted curl command.

use std::ffi::OsString;
use std::io::{self, Read};

use prony_frontends::curl;
use prony_load::{GivenSetting, SettingsError, flag_of, input_file};

use crate::arguments::LoadArgs;
use crate::command_line::quoted;

/// Maximum size in bytes of a curl command.
const COMMAND_BYTES_MAX: u64 = 16 << 20;
/// Name of the flag, used as a prefix of error messages.
const FLAG: &str = "--curl";

/// Joins the words after `--curl curl` into one argument. If the user pasted the command without
/// quotes around it, the shell has already removed its inner quotes.
pub(crate) fn join_pasted(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    let is_load = arguments.get(1).is_some_and(|command| command == "load");
    let pair = |pair: &[OsString]| pair[0] == FLAG && pair[1] == "curl";
    let Some(at) = arguments.windows(2).position(pair).filter(|_| is_load) else {
        return arguments;
    };
    let texts = arguments[at + 1..]
        .iter()
        .map(|word| word.to_str().map(quoted));
    // Words that are not UTF-8 are left unchanged here and rejected later.
    if let Some(words) = texts.collect::<Option<Vec<String>>>() {
        arguments.truncate(at + 1);
        arguments.push(words.join(" ").into());
    }
    arguments
}

/// Replaces `--curl` with the URL and the settings of the curl command.
///
/// # Errors
///
/// The message names the curl option that is not supported, or the flag that conflicts with the
/// command.
pub(crate) fn resolve_curl(arguments: &mut LoadArgs) -> Result<(), SettingsError> {
    let Some(text) = arguments.curl.take() else {
        return Ok(());
    };
    let wrong = |error: SettingsError| error.at(FLAG);
    let command = text_of(&text).and_then(|text| curl::parse(&text));
    let command = command.map_err(wrong)?;
    let combined = arguments.load.settings.combined(&command.settings);
    arguments.load.settings = combined.map_err(|both| wrong(contradiction(&both)))?;
    arguments.url = Some(command.url);
    Ok(())
}

fn contradiction(both: &GivenSetting) -> SettingsError {
    let flag = match (both.key.as_str(), both.values.first()) {
        ("header", Some(line)) => {
            let name = line.split(':').next().unwrap_or_default();
            format!("--header '{name}: …'")
        }
        _ => flag_of(&both.key),
    };
    SettingsError::from(format!("the curl command contradicts {flag}"))
        .hint("remove the flag")
        .hint("edit the command")
}

/// Returns the text of the curl command: the argument text, or the content of `@FILE` or standard
/// input.
fn text_of(argument: &str) -> Result<String, SettingsError> {
    if argument == "-" {
        let mut text = String::new();
        let mut input = io::stdin().lock().take(COMMAND_BYTES_MAX + 1);
        input
            .read_to_string(&mut text)
            .map_err(|error| SettingsError::from(error.to_string()).at("standard input"))?;
        return if text.len() as u64 > COMMAND_BYTES_MAX {
            let error = format!("longer than {} MiB", COMMAND_BYTES_MAX >> 20);
            Err(SettingsError::from(error).at("standard input"))
        } else {
            Ok(text)
        };
    }
    let Some(file) = argument.strip_prefix('@') else {
        return Ok(argument.to_owned());
    };
    let bytes = input_file::read_file(file.as_ref(), COMMAND_BYTES_MAX)
        .map_err(|error| SettingsError::from(error.to_string()).at(file))?;
    input_file::decode(bytes).map_err(|error| SettingsError::from(error).at(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(words: &[&str]) -> Vec<String> {
        let words = words.iter().map(OsString::from);
        let joined = join_pasted(words).into_iter();
        joined.map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn words_after_a_pasted_curl_are_one_argument() {
        assert_eq!(
            joined(&[
                "prony",
                "load",
                "-c",
                "1",
                "--curl",
                "curl",
                "http://h/?a&b",
                "-H",
                "it's"
            ]),
            [
                "prony",
                "load",
                "-c",
                "1",
                "--curl",
                r"curl 'http://h/?a&b' -H 'it'\''s'"
            ]
        );
        for other in [
            &["prony", "load", "--curl", "curl http://h/", "-c", "1"][..],
            &["prony", "wrk", "--curl", "curl", "x"],
        ] {
            assert_eq!(joined(other), other);
        }
    }
}
