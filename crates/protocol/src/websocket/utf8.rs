//! Validation of UTF-8 that arrives in pieces.

/// The state of a text whose beginning was valid.
#[derive(Debug, Default)]
pub struct Utf8Check {
    /// Beginning of a character that a later piece completes.
    pending: [u8; 4],
    length: u8,
}

impl Utf8Check {
    /// Adds a piece. Returns false if the text can't be valid.
    #[must_use]
    pub fn add(&mut self, mut bytes: &[u8]) -> bool {
        while self.length > 0 {
            let Some((&first, rest)) = bytes.split_first() else {
                return true;
            };
            bytes = rest;
            self.pending[usize::from(self.length)] = first;
            self.length += 1;
            match std::str::from_utf8(&self.pending[..usize::from(self.length)]) {
                Ok(_) => self.length = 0,
                Err(error) if error.error_len().is_some() => return false,
                Err(_) => {}
            }
        }
        let Err(error) = std::str::from_utf8(bytes) else {
            return true;
        };
        let rest = &bytes[error.valid_up_to()..];
        if error.error_len().is_some() {
            return false;
        }
        self.pending[..rest.len()].copy_from_slice(rest);
        self.length = rest.len() as u8;
        true
    }

    /// Returns true if the text is complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.length == 0
    }
}
