//! Messages with placeholders.

use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::message::MessageEncoder;
use crate::request::long_list::LineTexts;
use crate::request::template::{
    CellSet, ComposedValue, MarkedPiece, Marks, Value, ValueSource, VariableValues,
};
use crate::values::error::SettingsError;
use crate::values::input_file::DATA_BYTES_MAX;

/// Messages that are encoded for each call.
#[derive(Debug)]
struct ChangingMessages {
    encoder: MessageEncoder,
    /// Their JSON.
    pieces: Vec<MarkedPiece>,
    values: Vec<Value>,
}

impl ComposedValue for ChangingMessages {
    fn parts(&self) -> &[Value] {
        &self.values
    }

    /// Values that don't fit into their fields leave the call without a message, which the server
    /// rejects.
    fn write(&self, source: &mut ValueSource<'_>, out: &mut Vec<u8>) {
        let encoded = self.encode(source, out);
        out.extend_from_slice(&encoded.unwrap_or_default());
    }
}

impl ChangingMessages {
    /// Encodes the messages of one call. `buffer` is as before afterwards.
    fn encode(
        &self,
        source: &mut ValueSource<'_>,
        buffer: &mut Vec<u8>,
    ) -> Result<Vec<u8>, String> {
        let start = buffer.len();
        for piece in &self.pieces {
            match piece {
                MarkedPiece::Bytes(bytes) => buffer.extend_from_slice(bytes),
                MarkedPiece::Value(number) => source.write(&self.values[*number], buffer),
            }
        }
        let json = std::str::from_utf8(&buffer[start..]).map_err(|error| error.to_string());
        let encoded = json.and_then(|json| self.encoder.encode(json));
        buffer.truncate(start);
        encoded
    }

    /// Encodes the messages of the first call with a row of the data file.
    fn sample(&self, row: usize) -> Result<Vec<u8>, String> {
        let mut source = ValueSource {
            row,
            number: 0,
            random: &mut ChaCha8Rng::seed_from_u64(0),
            line: LineTexts::default(),
            variables: VariableValues::default(),
        };
        self.encode(&mut source, &mut Vec::new())
    }

    fn has_columns(&self) -> bool {
        self.values.iter().any(is_column)
    }

    /// Checks the limits of random numbers.
    fn check_limits(&self) -> Result<(), String> {
        for is_last in [false, true] {
            let limit = |value: &Value| match value {
                &Value::Random { first, last } => {
                    let limit = if is_last { last } else { first };
                    Value::Random {
                        first: limit,
                        last: limit,
                    }
                }
                other => other.clone(),
            };
            let at_limit = ChangingMessages {
                encoder: self.encoder.clone(),
                pieces: self.pieces.clone(),
                values: self.values.iter().map(limit).collect(),
            };
            at_limit.sample(0)?;
        }
        Ok(())
    }
}

/// Returns the messages of calls as a value. `marked` is their JSON with marks in place of its
/// values. If all values come from the rows of the data file, the messages of each row are encoded
/// now.
///
/// # Errors
///
/// The messages of a row are not valid. Variables of a journey are not known yet.
pub(crate) fn changing_messages(
    encoder: &MessageEncoder,
    marked: &str,
    marks: &Marks,
    rows: usize,
) -> Result<Value, SettingsError> {
    let messages = ChangingMessages {
        encoder: encoder.clone(),
        pieces: marks.split(marked.as_bytes()),
        values: marks.values().to_vec(),
    };
    let mut values = messages.values.iter();
    if values.any(|value| matches!(value, Value::Variable(_))) {
        return Ok(Value::Composed(Arc::new(messages)));
    }
    let in_row = |row: usize, error: String| {
        if messages.has_columns() {
            SettingsError::from(format!("row {}: {error}", row + 1))
        } else {
            SettingsError::from(error)
        }
    };
    let is_fixed = messages.values.iter().all(is_column);
    let rows = if is_fixed || messages.has_columns() {
        rows
    } else {
        1
    };
    let mut all = CellSet::default();
    for row in 0..rows {
        let encoded = messages.sample(row).map_err(|error| in_row(row, error))?;
        if is_fixed {
            all.push(&encoded);
        }
        if all.bytes() as u64 > DATA_BYTES_MAX {
            return Err(in_row(row, "the messages need more than 1 GiB".to_owned()));
        }
    }
    if is_fixed {
        return Ok(Value::Column(Arc::new(all)));
    }
    messages.check_limits()?;
    Ok(Value::Composed(Arc::new(messages)))
}

fn is_column(value: &Value) -> bool {
    matches!(value, Value::Column(_))
}
