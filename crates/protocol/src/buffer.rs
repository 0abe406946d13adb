//! Memory that successive connections share.

/// Takes over the memory of a list, without its content.
#[inline]
pub(crate) fn emptied<T>(list: &mut Vec<T>) -> Vec<T> {
    list.clear();
    std::mem::take(list)
}
