//! The messages of a WebSocket load, from the command line and from files.

use crate::settings::{BodyPiece, LoadSettings};
use crate::values::error::SettingsError;
use crate::values::input_file::{self, DATA_BYTES_MAX};

/// Maximum number of messages of a load.
const MESSAGES_MAX: usize = 100_000;

/// Reads the messages in the settings.
///
/// # Errors
///
/// A file can't be read, is not text although text is sent, or has too many lines.
pub(crate) fn messages(settings: &LoadSettings) -> Result<Vec<BodyPiece>, SettingsError> {
    let piece = |bytes, is_from_file| BodyPiece {
        bytes,
        is_from_file,
    };
    let read = |key, file: &std::path::Path| {
        let wrong = |text: String| SettingsError::value(key, file.display()).text(text);
        let bytes = input_file::read_file(file, DATA_BYTES_MAX)
            .map_err(|error| wrong(format!(": {error}")))?;
        if !settings.binary && std::str::from_utf8(&bytes).is_err() {
            let error = wrong(": a text message must be UTF-8".to_owned());
            return Err(error.hint("add ").name("binary"));
        }
        Ok(bytes)
    };
    let typed = settings.message.iter();
    let mut messages: Vec<BodyPiece> = typed
        .map(|text| piece(text.clone().into_bytes(), false))
        .collect();
    for file in &settings.message_file {
        messages.push(piece(read("message_file", file)?, true));
    }
    if let Some(file) = &settings.messages {
        let bytes = read("messages", file)?;
        let text = input_file::without_byte_order_mark(&bytes);
        let lines = text.split_inclusive(|byte| *byte == b'\n').map(|line| {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            line.strip_suffix(b"\r").unwrap_or(line)
        });
        messages.extend(lines.map(|line| piece(line.to_vec(), false)));
        if messages.is_empty() {
            let error = SettingsError::value("messages", file.display());
            return Err(error.text(": the file has no messages"));
        }
    }
    if messages.len() > MESSAGES_MAX {
        let error = format!("{} messages are more than {MESSAGES_MAX}", messages.len());
        return Err(SettingsError::from(error).hint("use placeholders and a CSV file (--data)"));
    }
    Ok(messages)
}
