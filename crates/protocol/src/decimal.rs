//! Formatting of decimal numbers without allocation.

/// Number of decimal digits of `u64::MAX`.
const DIGITS_MAX: usize = 20;

/// Appends a number in decimal.
pub fn write_decimal(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; DIGITS_MAX];
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            out.extend_from_slice(&digits[at..]);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_length() {
        for number in [0, 7, 10, 99, 100, 12_345, u64::MAX - 1, u64::MAX] {
            let mut out = b"=".to_vec();
            write_decimal(number, &mut out);
            assert_eq!(out, format!("={number}").into_bytes());
        }
    }
}
