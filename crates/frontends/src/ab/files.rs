//! Writes the output files that `-e` and `-g` name.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use prony_load::SettingsError;

use super::report::whole_ms;
use super::times::{RequestTimes, TimesColumn};
use crate::local_time::LocalTime;

/// Output file that is written after the load. It is opened before the load, so that an error is
/// reported before the load has run in vain.
#[derive(Debug)]
pub(super) struct ResultFile {
    path: PathBuf,
    file: File,
}

impl ResultFile {
    /// Creates or truncates the file.
    ///
    /// # Errors
    ///
    /// An error that names the file.
    pub(super) fn create(path: &Path) -> Result<ResultFile, SettingsError> {
        match File::create(path) {
            Ok(file) => Ok(ResultFile {
                path: path.to_owned(),
                file,
            }),
            Err(error) => {
                let place = format!("Cannot open output file {}", path.display());
                Err(SettingsError::from(error.to_string()).at(place))
            }
        }
    }

    /// Writes the text.
    ///
    /// # Errors
    ///
    /// An error that names the file.
    pub(super) fn write(&mut self, text: &str) -> Result<(), SettingsError> {
        self.file.write_all(text.as_bytes()).map_err(|error| {
            SettingsError::from(error.to_string()).at(self.path.display().to_string())
        })
    }
}

/// Returns the content of the file for `-e`: for each percentage, the time within which that share
/// of the requests was served.
pub(super) fn csv(total: &TimesColumn) -> String {
    let mut out = String::from("Percentage served,Time in ms\n");
    for percent in 0..=100u32 {
        let index = match percent {
            0 => 0,
            100 => u64::MAX,
            _ => (0.5 + total.count() as f64 * f64::from(percent) / 100.0) as u64,
        };
        out += &format!("{percent},{:.3}\n", total.at_ms(index));
    }
    out
}

/// Returns the content of the file for `-g`: the times of each request, fastest first. `began` is
/// the start of the load; `local_time` converts times to the user's time zone.
pub(super) fn gnuplot(
    rows: &[RequestTimes],
    began: SystemTime,
    local_time: impl Fn(SystemTime) -> LocalTime,
) -> String {
    let mut rows: Vec<&RequestTimes> = rows.iter().collect();
    rows.sort_by_key(|row| (row.total(), row.start));
    let mut out = String::from("starttime\tseconds\tctime\tdtime\tttime\twait\n");
    for row in rows {
        let start = began + row.start.into();
        let since = start.duration_since(SystemTime::UNIX_EPOCH);
        let [connect, processing, total, waiting] = [
            row.connect,
            row.processing.unwrap_or_default(),
            row.total(),
            row.waiting.unwrap_or_default(),
        ]
        .map(|time| whole_ms(time.0 as f64 / 1e6));
        out += &format!(
            "{}\t{}\t{connect}\t{processing}\t{total}\t{waiting}\n",
            local_time(start).as_ctime(),
            since.map_or(0, |since| since.as_secs())
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_record::Nanos;
    use std::time::Duration;

    fn row(start_ms: u64, connect_ms: u64, processing_ms: u64) -> RequestTimes {
        RequestTimes {
            start: Nanos::from_millis(start_ms),
            connect: Nanos::from_millis(connect_ms),
            processing: Some(Nanos::from_millis(processing_ms)),
            waiting: Some(Nanos::from_millis(processing_ms - 1)),
        }
    }

    #[test]
    fn rows_are_sorted_by_total_time_and_have_local_dates() {
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs(1_793_600_000);
        let rows = [row(0, 2, 30), row(1500, 0, 7), row(900, 1, 3)];
        let five_hours = Duration::from_secs(5 * 3600);
        let text = gnuplot(&rows, began, |time| LocalTime::utc(time - five_hours));
        assert_eq!(
            text,
            "starttime\tseconds\tctime\tdtime\tttime\twait\n\
             Mon Nov 02 01:13:20 2026\t1793600000\t1\t3\t4\t2\n\
             Mon Nov 02 01:13:21 2026\t1793600001\t0\t7\t7\t6\n\
             Mon Nov 02 01:13:20 2026\t1793600000\t2\t30\t32\t29\n"
        );
    }

    #[test]
    fn every_percentage_has_a_line_for_any_number_of_requests() {
        let mut column = TimesColumn::default();
        for count in 0..4 {
            let text = csv(&column);
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(
                (lines.len(), lines[0]),
                (102, "Percentage served,Time in ms")
            );
            let last = if count == 0 {
                "100,0.000".to_owned()
            } else {
                format!("100,{count}.000")
            };
            assert_eq!(lines[101], last);
            column.add(Nanos::from_millis(count + 1));
        }
        assert!(csv(&column).starts_with("Percentage served,Time in ms\n0,1.000\n"));
    }
}
