//! Tests of memory use: an exchange in the steady state allocates nothing, and a hostile peer can
//! cause only little memory use. These tests are a separate binary, because they replace the
//! allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

mod h1;
mod h2;
mod h3;

thread_local! {
    /// Number of allocations by this thread. Other threads, such as those of the test harness,
    /// don't count.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Number of bytes that this thread has allocated and not freed: the current number, and the
    /// maximum so far.
    static HELD: Cell<(i64, i64)> = const { Cell::new((0, 0)) };
}

struct Counting;

// A thread that is ending has no counters left, but it also runs no exchanges, so nothing is
// counted.

fn count() {
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

fn hold(more: usize, less: usize) {
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        let now = now + more as i64 - less as i64;
        held.set((now, most.max(now)));
    });
}

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        hold(layout.size(), 0);
        // SAFETY: the caller fulfills the contract of `alloc`, which is also the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        hold(size, layout.size());
        // SAFETY: as above; `memory` comes from the system's allocator.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        hold(0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the maximum number of bytes held at any time during `run`, in addition to those
/// allocated before.
fn most_held(run: impl FnOnce()) -> i64 {
    let before = HELD.with(|held| {
        let (now, _) = held.get();
        held.set((now, now));
        now
    });
    run();
    HELD.with(Cell::get).1 - before
}

/// Returns the number of allocations by this thread.
fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}
