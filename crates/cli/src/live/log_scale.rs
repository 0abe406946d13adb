//! Bars on a logarithmic scale, in the cells of one line: `  ├──●───┤ `.

/// Maps positive values to the cells of a line.
pub(super) struct LogScale {
    low: f64,
    high: f64,
    width: usize,
}

impl LogScale {
    /// Creates a scale from `low` to `high` in `width` cells; at least one.
    pub(super) fn new(low: f64, high: f64, width: usize) -> LogScale {
        let width = width.max(1);
        LogScale { low, high, width }
    }

    pub(super) fn cell(&self, value: f64) -> usize {
        let span = (self.high / self.low).ln();
        let share = if span > 0.0 {
            (value.max(f64::MIN_POSITIVE) / self.low).ln() / span
        } else {
            0.5
        };
        (share.clamp(0.0, 1.0) * (self.width - 1) as f64).round() as usize
    }

    /// Draws an interval and a value over `cells`. An interval with one unknown end extends to the
    /// edge. Because of noise, the first end may be above the second.
    pub(super) fn draw(
        &self,
        cells: &mut [char],
        (low, high): (Option<f64>, Option<f64>),
        value: Option<f64>,
    ) {
        let low_cell = low.map_or(0, |low| self.cell(low));
        let high_cell = high.map_or(self.width - 1, |high| self.cell(high));
        if low.is_some() || high.is_some() {
            cells[low_cell.min(high_cell)..=low_cell.max(high_cell)].fill('─');
        }
        if low.is_some() {
            cells[low_cell] = '├';
        }
        if high.is_some() {
            cells[high_cell] = '┤';
        }
        if let Some(value) = value {
            cells[self.cell(value)] = '●';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_and_values_are_drawn_and_clamped() {
        let drawn = |ends, value| -> String {
            let mut cells = [' '; 9];
            LogScale::new(1.0, 100.0, 9).draw(&mut cells, ends, value);
            cells.iter().collect()
        };
        assert_eq!(drawn((Some(1.0), Some(100.0)), Some(10.0)), "├───●───┤");
        assert_eq!(drawn((Some(10.0), None), None), "    ├────");
        assert_eq!(drawn((None, Some(10.0)), Some(1e-9)), "●───┤    ");
        assert_eq!(drawn((Some(100.0), Some(10.0)), None), "    ┤───├");
        assert_eq!(drawn((None, None), Some(f64::INFINITY)), "        ●");
        assert_eq!(LogScale::new(5.0, 5.0, 3).cell(5.0), 1);
    }
}
