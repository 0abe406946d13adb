//! Bookmarks.

use pdf_writer::{Finish, Pdf, Ref, TextStr};

use super::Numbers;
use crate::pdf::flow::Bookmark;
use crate::pdf::style::PAGE_HEIGHT;

/// Writes bookmarks of two levels. Returns `None` if there are no bookmarks.
pub(super) fn write(
    pdf: &mut Pdf,
    numbers: &mut Numbers,
    bookmarks: &[Bookmark],
    pages: &[Ref],
) -> Option<Ref> {
    if bookmarks.is_empty() {
        return None;
    }
    let root = numbers.next();
    let refs: Vec<Ref> = bookmarks.iter().map(|_| numbers.next()).collect();
    let parents = parents(bookmarks);
    for (place, bookmark) in bookmarks.iter().enumerate() {
        let parent = parents[place];
        let siblings = |other: &usize| parents[*other] == parent;
        let children: Vec<usize> = children(&parents, Some(place));
        let mut item = pdf.outline_item(refs[place]);
        item.title(TextStr(&bookmark.text));
        item.parent(parent.map_or(root, |parent| refs[parent]));
        if let Some(before) = (0..place).rev().find(siblings) {
            item.prev(refs[before]);
        }
        if let Some(after) = (place + 1..bookmarks.len()).find(siblings) {
            item.next(refs[after]);
        }
        if let (Some(&first), Some(&last)) = (children.first(), children.last()) {
            item.first(refs[first]);
            item.last(refs[last]);
            // A negative count collapses the entry, so all sections fit in the viewer's list.
            item.count(-i32::try_from(children.len()).unwrap_or(i32::MAX));
        }
        if let Some(&page) = pages.get(bookmark.page) {
            let top = (PAGE_HEIGHT - bookmark.y + 8.0) as f32;
            item.dest().page(page).xyz(0.0, top, None);
        }
        item.finish();
    }
    let tops = children(&parents, None);
    let mut outline = pdf.outline(root);
    if let (Some(&first), Some(&last)) = (tops.first(), tops.last()) {
        outline.first(refs[first]);
        outline.last(refs[last]);
        outline.count(i32::try_from(tops.len()).unwrap_or(i32::MAX));
    }
    outline.finish();
    Some(root)
}

/// The parent of each bookmark: the last section before it.
fn parents(bookmarks: &[Bookmark]) -> Vec<Option<usize>> {
    let mut last_section = None;
    let each = bookmarks.iter().enumerate();
    each.map(|(place, bookmark)| {
        if bookmark.level == 0 {
            last_section = Some(place);
            None
        } else {
            last_section
        }
    })
    .collect()
}

fn children(parents: &[Option<usize>], of: Option<usize>) -> Vec<usize> {
    (0..parents.len())
        .filter(|&place| parents[place] == of)
        .collect()
}
