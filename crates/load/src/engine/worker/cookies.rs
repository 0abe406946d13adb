//! The cookies of the virtual users: each request slot has its own.

use std::time::{Duration, SystemTime};

use prony_record::Nanos;

use crate::spec::LoadSpec;
use crate::values::cookies::CookieJar;
use crate::values::url::Url;

/// Name of the response header that sets a cookie.
const SET_COOKIE: &str = "set-cookie";

/// The cookies of a worker's virtual users.
pub(super) struct UserCookies {
    /// Cookie jars, indexed by slot.
    jars: Vec<CookieJar>,
    /// Wall-clock time of the load's start; `None` before the first cookie.
    start: Option<SystemTime>,
}

/// The cookies of one virtual user at a given time of the load.
#[derive(Clone, Copy)]
pub(super) struct UserJar<'a> {
    pub(super) jar: &'a CookieJar,
    pub(super) time: SystemTime,
}

impl UserCookies {
    /// Creates an empty jar for each slot. Returns `None` if the load has no cookies.
    pub(super) fn new(spec: &LoadSpec, slots: usize) -> Option<UserCookies> {
        spec.has_cookies.then(|| UserCookies {
            jars: vec![CookieJar::default(); slots],
            start: None,
        })
    }

    /// Returns the cookies of a slot's user at this time of the load.
    pub(super) fn of(&self, slot: u32, now: Nanos) -> UserJar<'_> {
        UserJar {
            jar: &self.jars[slot as usize],
            // Before the first cookie, all jars are empty, so the time doesn't matter.
            time: self.start.unwrap_or(SystemTime::UNIX_EPOCH) + Duration::from(now),
        }
    }

    /// Removes the cookies of a slot's user.
    pub(super) fn clear(&mut self, slot: u32) {
        self.jars[slot as usize].clear();
    }

    /// Stores the cookies that a response from `url` sets. `head` is its captured head.
    pub(super) fn store(&mut self, slot: u32, url: &Url, head: &[u8], now: Nanos) {
        let jar = &mut self.jars[slot as usize];
        let since = Duration::from(now);
        for value in values(head) {
            // The wall clock is read only once, so later adjustments don't affect the load.
            let start = self.start.get_or_insert_with(|| SystemTime::now() - since);
            jar.set(value, url.cookie_url(), *start + since);
        }
    }
}

/// The values of Set-Cookie in a captured head. Values that aren't UTF-8 are ignored.
fn values(head: &[u8]) -> impl Iterator<Item = &str> {
    let fields = head.split(|byte| *byte == b'\n').skip(1);
    fields.filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        let is_cookie = name.eq_ignore_ascii_case(SET_COOKIE.as_bytes());
        let value = is_cookie
            .then(|| std::str::from_utf8(value).ok())
            .flatten()?;
        Some(value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_set_cookie_fields_are_found() {
        let head = b"HTTP/1.1 200 Set-Cookie: no\r\nset-cookie:a=1\r\nX-Set-Cookie: n=1\r\n\
            Set-Cookie: b=\xff\r\nSET-COOKIE:  c=3; Path=/ \r\n";
        assert_eq!(values(head).collect::<Vec<_>>(), ["a=1", "c=3; Path=/"]);
        assert_eq!(values(b"").count(), 0);
    }
}
