//! Values that are inserted into requests.

use std::fmt;
use std::sync::Arc;

use prony_protocol::write_decimal;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

use super::data::CellSet;
use super::variables::{VariableUse, VariableValues};
use crate::request::long_list::LineTexts;

/// A value of a request.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// A column of the data file, encoded.
    Column(Arc<CellSet>),
    /// The request's number, from 1.
    Sequence,
    /// A random integer from `first` to `last`.
    Random { first: i64, last: i64 },
    /// A random UUID (RFC 9562 §5.4).
    Uuid,
    /// Path and query of the request's line in a long list, without the slash at the beginning.
    ListedPath,
    /// Body of the request's line in a long list.
    ListedBody,
    /// A variable of a journey.
    Variable(VariableUse),
    /// A value that consists of others.
    Composed(Arc<dyn ComposedValue>),
}

/// A value that consists of others, such as a message that is encoded for each request.
pub(crate) trait ComposedValue: fmt::Debug + Send + Sync {
    /// The values that it consists of.
    fn parts(&self) -> &[Value];

    /// Appends the value for one request.
    fn write(&self, source: &mut ValueSource<'_>, out: &mut Vec<u8>);
}

/// The data that determine the values of one request.
pub(crate) struct ValueSource<'a> {
    /// Row of the data file, from 0.
    pub(crate) row: usize,
    /// The request's number, from 0.
    pub(crate) number: u64,
    /// Generator of the random values.
    pub(crate) random: &'a mut ChaCha8Rng,
    /// The request's line in a long list.
    pub(crate) line: LineTexts<'a>,
    /// The variables of the journey's user.
    pub(crate) variables: VariableValues<'a>,
}

impl ValueSource<'_> {
    /// Appends a value. Nothing is allocated, unless the output grows.
    #[inline]
    pub(crate) fn write(&mut self, value: &Value, out: &mut Vec<u8>) {
        match value {
            Value::Column(cells) => out.extend_from_slice(cells.cell(self.row)),
            Value::Sequence => write_decimal(self.number + 1, out),
            Value::Random { first, last } => {
                let number = self.random.random_range(*first..=*last);
                if number < 0 {
                    out.push(b'-');
                }
                write_decimal(number.unsigned_abs(), out);
            }
            Value::Uuid => write_uuid(self.random, out),
            Value::ListedPath => {
                out.extend_from_slice(self.line.path.get(1..).unwrap_or_default());
            }
            Value::ListedBody => out.extend_from_slice(self.line.body),
            Value::Variable(used) => used.write(self.variables.get(used.index), out),
            Value::Composed(value) => value.write(self, out),
        }
    }
}

/// Indices of the UUID bytes that are preceded by a hyphen.
const HYPHENS: [usize; 4] = [4, 6, 8, 10];

fn write_uuid(random: &mut ChaCha8Rng, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut bytes = [0; 16];
    random.fill_bytes(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    for (at, byte) in bytes.into_iter().enumerate() {
        if HYPHENS.contains(&at) {
            out.push(b'-');
        }
        out.push(HEX[usize::from(byte >> 4)]);
        out.push(HEX[usize::from(byte & 0x0f)]);
    }
}
