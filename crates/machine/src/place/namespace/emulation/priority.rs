//! Priority of the threads whose delays would change what a link does or what is measured.

/// Lets the calling thread run before the load and the services, as an interrupt of the kernel would.
/// Without the permission for this, the thread works, but is late more often.
pub(super) fn prioritize_thread() {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameters are a whole `sched_param`, and 0 means this thread.
    let scheduled = unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const parameters) };
    if scheduled != 0 {
        // SAFETY: the calls take no pointers. 0 means this thread. The timer slack delays the end
        // of a wait by up to 50 µs by default.
        unsafe {
            libc::setpriority(libc::PRIO_PROCESS, 0, -20);
            libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
        }
    }
}
