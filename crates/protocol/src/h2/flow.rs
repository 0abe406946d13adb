//! Flow control (RFC 9113 §5.2, §6.9).

use super::frame::U31_MAX;

/// Initial size of every window, in bytes (RFC 9113 §6.9.2).
pub(super) const INITIAL_WINDOW_BYTES: u32 = 65_535;

/// Error for a window that would exceed 2³¹ − 1 bytes (RFC 9113 §6.9.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overflow;

/// Error for a peer that sends more than the window allows (RFC 9113 §6.9.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exceeded;

/// Bytes that the peer allows this side to send. The number may be negative after the peer has
/// lowered SETTINGS_INITIAL_WINDOW_SIZE (RFC 9113 §6.9.2). It always fits into 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SendWindow(i64);

impl SendWindow {
    pub(super) const fn new(bytes: u32) -> SendWindow {
        SendWindow(bytes as i64)
    }

    /// Returns the number of bytes that may be sent now.
    pub(super) fn available(self) -> u32 {
        u32::try_from(self.0).unwrap_or(0)
    }

    /// Subtracts the number of sent bytes, which must not exceed the available ones.
    pub(super) fn take(&mut self, bytes: u32) {
        self.0 -= i64::from(bytes);
    }

    /// Changes the window by `by`: the increment of a WINDOW_UPDATE, or the change of the initial
    /// size.
    pub(super) fn change(&mut self, by: i64) -> Result<(), Overflow> {
        let bytes = self.0 + by;
        if bytes > i64::from(U31_MAX) {
            return Err(Overflow);
        }
        self.0 = bytes;
        Ok(())
    }
}

/// Bytes that this side allows the peer to send, according to the updates sent so far. When half of
/// the window has been used, a WINDOW_UPDATE restores its full size. Updates are therefore rare,
/// and a peer that sends at full speed never has to wait for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReceiveWindow {
    size_bytes: u32,
    left_bytes: u32,
}

impl ReceiveWindow {
    pub(super) const fn new(size_bytes: u32) -> ReceiveWindow {
        ReceiveWindow {
            size_bytes,
            left_bytes: size_bytes,
        }
    }

    /// Subtracts bytes that the peer sent.
    #[inline]
    pub(super) fn take(&mut self, bytes: u32) -> Result<(), Exceeded> {
        self.left_bytes = self.left_bytes.checked_sub(bytes).ok_or(Exceeded)?;
        Ok(())
    }

    /// Returns true if a WINDOW_UPDATE should be sent.
    #[inline]
    pub(super) fn is_low(self) -> bool {
        self.left_bytes <= self.size_bytes / 2
    }

    /// Restores the full size of the window. Returns the increment for the WINDOW_UPDATE.
    pub(super) fn refill(&mut self) -> u32 {
        let increment = self.size_bytes - self.left_bytes;
        self.left_bytes = self.size_bytes;
        increment
    }

    /// Returns the number of bytes that the peer may send before the next update.
    pub(super) fn left_bytes(self) -> u32 {
        self.left_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_window_may_become_negative_and_recover() {
        let mut window = SendWindow::new(100);
        window.take(60);
        assert_eq!(window.change(-100), Ok(()));
        assert_eq!((window, window.available()), (SendWindow(-60), 0));
        assert_eq!(window.change(60), Ok(()));
        assert_eq!(window.available(), 0);
        assert_eq!(window.change(1), Ok(()));
        assert_eq!(window.available(), 1);
    }

    #[test]
    fn a_send_window_has_31_bits() {
        let mut window = SendWindow::new(1);
        assert_eq!(window.change(i64::from(U31_MAX) - 1), Ok(()));
        assert_eq!(window.change(1), Err(Overflow));
        assert_eq!(window.available(), U31_MAX);
    }

    #[test]
    fn a_receive_window_opens_when_half_of_it_is_used() {
        let mut window = ReceiveWindow::new(100);
        assert_eq!(window.take(49), Ok(()));
        assert!(!window.is_low());
        assert_eq!(window.take(1), Ok(()));
        assert!(window.is_low());
        assert_eq!((window.refill(), window.left_bytes()), (50, 100));
        assert!(!window.is_low());
        assert_eq!(window.take(100), Ok(()));
        assert_eq!(window.take(1), Err(Exceeded));
    }
}
