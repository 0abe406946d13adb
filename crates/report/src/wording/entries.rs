//! Sentences about the entries of a list.

use prony_record::{EntryGrouping, EntryResults};

use crate::number;

/// The number of entries that a table shows, and their order.
pub(crate) fn worst(entries: &EntryResults, shown: usize) -> String {
    format!(
        "{shown} of {} entries: up to three with the largest share of failures, then the highest p99.",
        number::count(entries.count)
    )
}

/// The summary of the folded table.
pub(crate) fn all(entries: &EntryResults) -> String {
    match entries.other {
        Some(_) => format!(
            "The first {} of {} entries",
            number::count(entries.each.len() as u64),
            number::count(entries.count)
        ),
        None => format!("All {} entries", number::count(entries.count)),
    }
}

/// Explains names that stand for several URLs.
pub(crate) fn grouping(entries: &EntryResults) -> Option<&'static str> {
    (entries.grouping == EntryGrouping::Path).then_some(
        "URLs are grouped by path: {id} stands for numbers and identifiers, and queries are left out.",
    )
}

/// Explains the rows of the whole table.
pub(crate) fn rows(entries: &EntryResults) -> Option<String> {
    let grouped = grouping(entries).map(str::to_owned);
    let summed_up = entries.count - entries.each.len() as u64;
    let other = entries.other.as_ref().map(|other| match summed_up {
        0 => format!(
            "The row {} sums up requests that are not in the list.",
            other.name
        ),
        count => format!(
            "The row {} sums up {}.",
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
    fn notes_explain_groups_and_the_row_of_other_entries() {
        let mut entries = EntryResults {
            count: 2,
            each: vec![EntryResult::default(); 2],
            ..EntryResults::default()
        };
        assert_eq!(rows(&entries), None);
        assert_eq!(all(&entries), "All 2 entries");
        entries.other = Some(EntryResult {
            name: "other".to_owned(),
            ..EntryResult::default()
        });
        let note = rows(&entries).unwrap();
        assert_eq!(
            note,
            "The row other sums up requests that are not in the list."
        );
        entries.count = 1_502;
        entries.grouping = EntryGrouping::Path;
        let note = rows(&entries).unwrap();
        assert!(
            note.ends_with("left out. The row other sums up 1,500 entries."),
            "{note}"
        );
        assert_eq!(all(&entries), "The first 2 of 1,502 entries");
    }
}
