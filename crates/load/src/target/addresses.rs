//! Addresses of names that have several, and names whose addresses change while the load runs.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prony_record::{Outcome, SourceCount, SourceTotals, SourceUse};

use crate::settings::AddressOrder;
use crate::values::url::Url;

/// Interval at which the thread that looks up names checks whether the load has ended.
const END_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The name of a target, with the addresses that connections use.
#[derive(Debug, Clone)]
pub(crate) struct NamedAddresses {
    pub(crate) url: Url,
    pub(crate) list: Vec<SocketAddr>,
}

/// Connections, and successful and failed requests, by address of the server.
#[derive(Debug, Default)]
pub(crate) struct AddressCounts {
    each: Vec<(SocketAddr, SourceTotals)>,
}

impl AddressCounts {
    /// Returns the index of an address, which is added if it is new.
    pub(crate) fn index_of(&mut self, address: SocketAddr) -> u32 {
        let known = self.each.iter().position(|(known, _)| *known == address);
        let index = known.unwrap_or_else(|| {
            self.each.push((address, SourceTotals::default()));
            self.each.len() - 1
        });
        index as u32
    }

    /// Returns zero counts of the same addresses.
    pub(crate) fn restarted(self) -> AddressCounts {
        let each = self.each.into_iter();
        AddressCounts {
            each: each
                .map(|(address, _)| (address, SourceTotals::default()))
                .collect(),
        }
    }

    /// Counts an opened connection.
    pub(crate) fn connected(&mut self, index: u32) {
        self.each[index as usize].1.connections += 1;
    }

    /// Counts an ended request.
    pub(crate) fn ended(&mut self, index: u32, outcome: Outcome) {
        let totals = &mut self.each[index as usize].1;
        match outcome {
            Outcome::Ok => totals.ok += 1,
            other if other.is_failure() => totals.failed += 1,
            _ => {}
        }
    }

    /// Adds another worker's counts.
    pub(crate) fn merge(&mut self, other: &AddressCounts) {
        for (address, more) in &other.each {
            let index = self.index_of(*address);
            let totals = &mut self.each[index as usize].1;
            totals.connections += more.connections;
            totals.ok += more.ok;
            totals.failed += more.failed;
        }
    }

    /// Summary for the record; `None` if no address was used.
    pub(crate) fn summary(&self, order: AddressOrder) -> Option<SourceUse> {
        let each = self.each.iter().map(|(address, totals)| SourceCount {
            address: address.ip(),
            totals: *totals,
        });
        (!self.each.is_empty()).then(|| SourceUse {
            kind: "server".to_owned(),
            order: order.name().to_owned(),
            given: self.each.len() as u64,
            ..SourceUse::of(each)
        })
    }
}

/// Addresses that were looked up again while the load runs.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    /// Number of changes so far.
    changes: AtomicU64,
    /// Current addresses by target.
    current: Mutex<Vec<Vec<SocketAddr>>>,
    has_ended: AtomicBool,
}

/// Ends the lookups when it is dropped.
pub(crate) struct RunningLookups(pub(crate) Arc<Lookups>);

impl Drop for RunningLookups {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::Relaxed);
    }
}

impl Lookups {
    /// Looks up the names of these targets again, each time that `every` has passed. `look_up` gets
    /// a name and its current addresses, and returns the addresses that connections use. The thread is
    /// not joined, because a lookup may take many seconds.
    pub(crate) fn start(
        names: Vec<Option<NamedAddresses>>,
        every: Duration,
        look_up: impl Fn(&Url, &[SocketAddr]) -> Option<Vec<SocketAddr>> + Send + 'static,
    ) -> std::io::Result<RunningLookups> {
        let lookups = Arc::new(Lookups::default());
        let running = RunningLookups(lookups.clone());
        let lists = names.iter().map(|name| match name {
            Some(name) => name.list.clone(),
            None => Vec::new(),
        });
        *lookups.lists() = lists.collect();
        std::thread::Builder::new()
            .name("lookups".to_owned())
            .spawn(move || lookups.run(&names, every, look_up))?;
        Ok(running)
    }

    fn run(
        &self,
        names: &[Option<NamedAddresses>],
        every: Duration,
        look_up: impl Fn(&Url, &[SocketAddr]) -> Option<Vec<SocketAddr>>,
    ) {
        let mut waited = Duration::ZERO;
        while !self.has_ended.load(Ordering::Relaxed) {
            let pause = END_CHECK_INTERVAL.min(every.saturating_sub(waited));
            std::thread::sleep(pause);
            waited += pause;
            if waited >= every {
                waited = Duration::ZERO;
                self.look_up_all(names, &look_up);
            }
        }
    }

    fn look_up_all(
        &self,
        names: &[Option<NamedAddresses>],
        look_up: &impl Fn(&Url, &[SocketAddr]) -> Option<Vec<SocketAddr>>,
    ) {
        for (target, name) in names.iter().enumerate() {
            let Some(name) = name else { continue };
            let in_use = self.lists()[target].clone();
            // After a failed lookup, the previous addresses stay in use.
            let Some(found) = look_up(&name.url, &in_use) else {
                continue;
            };
            let is_same = found.len() == in_use.len() && found.iter().all(|it| in_use.contains(it));
            if !is_same && !found.is_empty() {
                self.lists()[target] = found;
                self.changes.fetch_add(1, Ordering::Release);
            }
        }
    }

    fn lists(&self) -> std::sync::MutexGuard<'_, Vec<Vec<SocketAddr>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current addresses by target if there were changes since `seen`, the number of
    /// changes that the caller knows.
    #[inline]
    pub(crate) fn news(&self, seen: &mut u64) -> Option<Vec<Vec<SocketAddr>>> {
        let changes = self.changes.load(Ordering::Acquire);
        if std::mem::replace(seen, changes) == changes {
            return None;
        }
        Some(self.lists().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str) -> Vec<SocketAddr> {
        let each = text.split_whitespace();
        each.map(|ip| format!("{ip}:80").parse().unwrap()).collect()
    }

    #[test]
    fn only_changed_addresses_are_news() {
        let names = [
            Some(NamedAddresses {
                url: Url::parse("http://a.test/", None).unwrap(),
                list: Vec::new(),
            }),
            None,
        ];
        let lookups = Lookups::default();
        *lookups.lists() = vec![addresses("10.0.0.1 10.0.0.2"), Vec::new()];
        let mut seen = 0;
        let mut found = |result: Option<&str>| {
            lookups.look_up_all(&names, &|_, _| result.map(addresses));
            lookups.news(&mut seen)
        };
        // The order of addresses may change with each lookup.
        assert_eq!(found(Some("10.0.0.2 10.0.0.1")), None);
        assert_eq!(found(None), None);
        assert_eq!(found(Some("")), None);
        let changed = vec![addresses("10.0.0.3"), Vec::new()];
        assert_eq!(found(Some("10.0.0.3")), Some(changed));
        assert_eq!(found(Some("10.0.0.3")), None);
    }

    #[test]
    fn counts_of_workers_are_merged_by_address() {
        let mut one = AddressCounts::default();
        let [a, b] = addresses("10.0.0.1 10.0.0.2")[..] else {
            panic!("two addresses");
        };
        let index = one.index_of(a);
        one.connected(index);
        one.ended(index, Outcome::Ok);
        let mut other = AddressCounts::default();
        for address in [b, a] {
            let index = other.index_of(address);
            other.ended(index, Outcome::Timeout);
            other.ended(index, Outcome::Unfinished);
        }
        one.merge(&other);
        let used = one.summary(AddressOrder::All).unwrap();
        assert_eq!((used.kind.as_str(), used.order.as_str()), ("server", "all"));
        let each: Vec<_> = used
            .each
            .iter()
            .map(|it| (it.address, it.totals.ok, it.totals.failed))
            .collect();
        assert_eq!(each, [(a.ip(), 1, 1), (b.ip(), 0, 1)]);
        assert_eq!(AddressCounts::default().summary(AddressOrder::All), None);
    }
}
