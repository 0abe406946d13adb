//! Sentences about the entries of a list.

use prony_record::{EntryGrouping, EntryResults};

use prony_record::number;

/// Explains names that represent several URLs.
const GROUPED: &str =
    "URLs are grouped by path: {id} stands for numbers and identifiers, and queries are omitted.";

/// The number of entries that a table shows, and their order.
pub fn worst(entries: &EntryResults, shown: usize) -> String {
    format!(
        "{shown} of {} entries: up to three with the largest share of failures, then those with \
            the highest p99.",
        number::count(entries.count)
    )
}

/// The number of entries that a comparison's table shows, and their order.
pub fn worst_compared(all: u64, shown: usize) -> String {
    format!(
        "{shown} of {} entries: up to three with the largest share of failures in any variant, \
            then those with the highest p99.",
        number::count(all)
    )
}

/// The summary line of a comparison's collapsed table.
pub fn compared_table_summary(listed: usize, summed_up: u64) -> String {
    let listed = listed as u64;
    match summed_up {
        0 => format!("All {} entries", number::count(listed)),
        more => format!(
            "The first {} of {} entries",
            number::count(listed),
            number::count(listed + more)
        ),
    }
}

/// Explains the rows of a comparison's complete table.
pub fn compared_rows_note(is_grouped: bool, summed_up: u64) -> Option<String> {
    let grouped = is_grouped.then(|| GROUPED.to_owned());
    let other = (summed_up > 0).then(|| {
        let entries = number::plural(summed_up, "entry", "entries");
        format!("The row \"other\" combines {entries}.")
    });
    let both: Vec<String> = grouped.into_iter().chain(other).collect();
    (!both.is_empty()).then(|| both.join(" "))
}

/// The summary line of the collapsed table.
pub fn table_summary(entries: &EntryResults) -> String {
    match entries.other {
        Some(_) => format!(
            "The first {} of {} entries",
            number::count(entries.each.len() as u64),
            number::count(entries.count)
        ),
        None => format!("All {} entries", number::count(entries.count)),
    }
}

/// Explains names that represent several URLs.
pub fn grouping(entries: &EntryResults) -> Option<String> {
    (entries.grouping == EntryGrouping::Path).then(|| GROUPED.to_owned())
}

/// Explains the rows of the complete table.
pub fn rows_note(entries: &EntryResults) -> Option<String> {
    let grouped = grouping(entries);
    let summed_up = entries.count.saturating_sub(entries.each.len() as u64);
    let other = entries.other.as_ref().map(|other| match summed_up {
        0 => format!(
            "The row \"{}\" combines requests that are not in the list.",
            other.name
        ),
        count => format!(
            "The row \"{}\" combines {}.",
            other.name,
            number::plural(count, "entry", "entries")
        ),
    });
    let both: Vec<String> = grouped.into_iter().chain(other).collect();
    (!both.is_empty()).then(|| both.join(" "))
}

#[cfg(test)]
mod tests {
    use prony_record::EntryResult;

    use super::*;

    #[test]
    fn comparisons_count_the_entries_that_are_summed_up() {
        assert_eq!(compared_table_summary(7, 0), "All 7 entries");
        assert_eq!(
            compared_table_summary(100, 1_900),
            "The first 100 of 2,000 entries"
        );
        assert_eq!(compared_rows_note(false, 0), None);
        let note = compared_rows_note(true, 1).unwrap();
        assert!(
            note.ends_with("The row \"other\" combines 1 entry."),
            "{note}"
        );
    }

    #[test]
    fn notes_explain_groups_and_the_row_of_other_entries() {
        let mut entries = EntryResults {
            count: 2,
            each: vec![EntryResult::default(); 2],
            ..EntryResults::default()
        };
        assert_eq!(rows_note(&entries), None);
        assert_eq!(table_summary(&entries), "All 2 entries");
        entries.other = Some(EntryResult {
            name: "other".to_owned(),
            ..EntryResult::default()
        });
        let note = rows_note(&entries).unwrap();
        assert_eq!(
            note,
            "The row \"other\" combines requests that are not in the list."
        );
        entries.count = 1_502;
        entries.grouping = EntryGrouping::Path;
        let note = rows_note(&entries).unwrap();
        assert!(
            note.ends_with("omitted. The row \"other\" combines 1,500 entries."),
            "{note}"
        );
        assert_eq!(table_summary(&entries), "The first 2 of 1,502 entries");
    }
}
