//! Reads files of stored runs. A stored run may come from anywhere, so nothing in it may block,
//! fill the memory, or drive an endless loop.

use std::fmt;
use std::fs::{self, File};
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

use serde::de::{self, DeserializeOwned, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Maximum size of a stored file, in bytes. The record of a load of one day has about 50 MB.
const FILE_BYTES_MAX: u64 = 128 << 20;
/// Maximum magnitude of a stored number. Sums of a thousand counts can't overflow, and each count
/// is exact as a floating-point number.
const NUMBER_MAX: u64 = 1 << 53;
/// Names of the fields that may have any value, because nothing is computed from them.
const UNBOUNDED_FIELDS: &[&str] = &["seed", "open_files"];

/// Reads a regular file of a limited size. A symbolic link to one is followed.
///
/// # Errors
///
/// The file can't be read, is not a regular file, is too large, or is not UTF-8.
pub fn read_stored(path: &Path) -> Result<String> {
    // Opening a pipe would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut text = String::new();
    let mut limited = File::open(path)?.take(FILE_BYTES_MAX + 1);
    if limited.get_ref().metadata()?.len() > FILE_BYTES_MAX
        || limited.read_to_string(&mut text)? as u64 > FILE_BYTES_MAX
    {
        let reason = format!("larger than {} MiB", FILE_BYTES_MAX >> 20);
        return Err(Error::new(ErrorKind::FileTooLarge, reason));
    }
    Ok(text)
}

/// Parses stored JSON.
///
/// # Errors
///
/// The text is not valid JSON of this type, or contains a number beyond ±2^53.
pub fn parse_stored<T: DeserializeOwned>(json: &str) -> serde_json::Result<T> {
    let BoundedNumbers = serde_json::from_str(json)?;
    serde_json::from_str(json)
}

/// A JSON value whose numbers have a magnitude of at most [`NUMBER_MAX`]. Only [`UNBOUNDED_FIELDS`] may be
/// larger.
struct BoundedNumbers;

impl<'de> Deserialize<'de> for BoundedNumbers {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        from.deserialize_any(BoundedNumbersVisitor)
    }
}

struct BoundedNumbersVisitor;

impl<'de> Visitor<'de> for BoundedNumbersVisitor {
    type Value = BoundedNumbers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number between -{NUMBER_MAX} and {NUMBER_MAX}")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> std::result::Result<BoundedNumbers, E> {
        if number > NUMBER_MAX {
            Err(E::invalid_value(de::Unexpected::Unsigned(number), &self))
        } else {
            Ok(BoundedNumbers)
        }
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> std::result::Result<BoundedNumbers, E> {
        if number.unsigned_abs() > NUMBER_MAX {
            Err(E::invalid_value(de::Unexpected::Signed(number), &self))
        } else {
            Ok(BoundedNumbers)
        }
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> std::result::Result<BoundedNumbers, E> {
        if number.abs() > NUMBER_MAX as f64 {
            Err(E::invalid_value(de::Unexpected::Float(number), &self))
        } else {
            Ok(BoundedNumbers)
        }
    }

    fn visit_bool<E>(self, _: bool) -> std::result::Result<BoundedNumbers, E> {
        Ok(BoundedNumbers)
    }

    fn visit_str<E>(self, _: &str) -> std::result::Result<BoundedNumbers, E> {
        Ok(BoundedNumbers)
    }

    fn visit_unit<E>(self) -> std::result::Result<BoundedNumbers, E> {
        Ok(BoundedNumbers)
    }

    fn visit_seq<A: SeqAccess<'de>>(
        self,
        mut list: A,
    ) -> std::result::Result<BoundedNumbers, A::Error> {
        while list.next_element::<BoundedNumbers>()?.is_some() {}
        Ok(BoundedNumbers)
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut fields: A,
    ) -> std::result::Result<BoundedNumbers, A::Error> {
        while let Some(name) = fields.next_key::<String>()? {
            if UNBOUNDED_FIELDS.contains(&name.as_str()) {
                fields.next_value::<IgnoredAny>()?;
            } else {
                fields.next_value::<BoundedNumbers>()?;
            }
        }
        Ok(BoundedNumbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_limited_size_are_read() {
        for endless in ["/dev/zero", "/dev/null", "/"] {
            let error = read_stored(Path::new(endless)).unwrap_err().to_string();
            assert_eq!(error, "not a regular file", "{endless}");
        }
        let huge = std::env::temp_dir().join(format!("prony-huge-{}", std::process::id()));
        // A sparse file takes no disk space.
        File::create(&huge).unwrap().set_len(3 << 30).unwrap();
        let read = read_stored(&huge);
        fs::remove_file(&huge).unwrap();
        assert_eq!(read.unwrap_err().to_string(), "larger than 128 MiB");
    }

    #[test]
    fn numbers_that_could_overflow_are_refused() {
        let parse = parse_stored::<serde_json::Value>;
        let json = r#"{"seed":18446744073709551615,"list":[-1,9007199254740992,-9e15,null,"x"]}"#;
        assert!(parse(json).is_ok());
        for huge in ["18446744073709551615", "-9007199254740993", "-1e308"] {
            let error = parse(&format!(r#"{{"list":[{{"ok":{huge}}}]}}"#));
            let error = error.unwrap_err().to_string();
            assert!(
                error.contains("invalid value") && error.contains("9007199254740992"),
                "{error}"
            );
        }
    }
}
