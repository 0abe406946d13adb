//! Tests that an exchange on an open connection allocates nothing. This test has its own binary,
//! because it replaces the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use prony_tcp::{Chunk, Event};

#[path = "../examples/exchange/mod.rs"]
mod exchange;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct CountingAllocator;

fn count() {
    ALLOCATIONS.with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller fulfills the contract, which the system's allocator shares.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the same as for `alloc`; `memory` comes from the system's allocator.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `memory` comes from the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn an_exchange_allocates_nothing() {
    let mut echo = exchange::Echo::new();
    for _ in 0..100 {
        echo.exchange(Chunk::Shared(b"GET / HTTP/1.1\r\n\r\n"));
    }
    let before = ALLOCATIONS.with(Cell::get);
    for _ in 0..1_000 {
        let event = echo.exchange(Chunk::Shared(b"GET / HTTP/1.1\r\n\r\n"));
        assert!(matches!(event, Some(Event::Received(..))));
    }
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
}
