//! The poller of Linux: epoll(7), and a timerfd(2) for the time at which a wait ends.
//!
//! The timer is needed because epoll_wait(2) takes only milliseconds, and because some container
//! runtimes reject epoll_pwait2(2), which takes nanoseconds. It stays armed if the next wait ends at
//! the same time, so most waits of a closed loop take one system call.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use socket2::Socket;

use super::event::{EVENTS_MAX, Interest, ReadyEvent};
use crate::socket::Key;

/// Number of the timer. No connection has it.
const TIMER: u64 = u64::MAX;

const ZERO: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// An armed timer is kept for a wait if it ends the wait early by at most the wait's length divided
/// by this number.
const EARLY_DIVISOR: u32 = 1000;

pub(super) struct EpollPoller {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// The time at which the timer expires, unless it has already been reported.
    expires: Option<Instant>,
    /// Memory for the events of a wait.
    events: Vec<epoll::Event>,
}

impl EpollPoller {
    pub(super) fn new() -> io::Result<EpollPoller> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let data = epoll::EventData::new_u64(TIMER);
        epoll::add(&epoll, &timer, data, epoll::EventFlags::IN)?;
        Ok(EpollPoller {
            epoll,
            timer,
            expires: None,
            events: Vec::with_capacity(EVENTS_MAX),
        })
    }

    pub(super) fn add(&self, socket: &Socket, key: Key, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(key.to_bits());
        Ok(epoll::add(&self.epoll, socket, data, flags(interest))?)
    }

    pub(super) fn modify(&self, socket: &Socket, key: Key, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(key.to_bits());
        Ok(epoll::modify(&self.epoll, socket, data, flags(interest))?)
    }

    pub(super) fn remove(&self, socket: &Socket) {
        // Removing fails only for a socket that was never added.
        let _ = epoll::delete(&self.epoll, socket);
    }

    pub(super) fn wait(&mut self, time: Duration, ready: &mut Vec<ReadyEvent>) -> io::Result<()> {
        let timeout = if time.is_zero() {
            Some(&ZERO)
        } else {
            self.arm(time)?;
            None
        };
        self.events.clear();
        epoll::wait(&self.epoll, spare_capacity(&mut self.events), timeout)?;
        for event in &self.events {
            let number = event.data.u64();
            if number == TIMER {
                self.expires = None;
                continue;
            }
            let flags = event.flags;
            let broken = epoll::EventFlags::HUP | epoll::EventFlags::ERR;
            let readable = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | broken;
            ready.push(ReadyEvent {
                key: Key::from_bits(number),
                readable: flags.intersects(readable),
                writable: flags.intersects(epoll::EventFlags::OUT | broken),
            });
        }
        Ok(())
    }

    /// Makes the timer expire after `time`, unless it already expires at about that time.
    fn arm(&mut self, time: Duration) -> io::Result<()> {
        let now = Instant::now();
        let end = now + time;
        let is_armed = self.expires.is_some_and(|expires| {
            expires > now && expires <= end && end - expires <= time / EARLY_DIVISOR
        });
        if is_armed {
            return Ok(());
        }
        let value = Itimerspec {
            it_interval: ZERO,
            it_value: Timespec {
                tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(time.subsec_nanos()),
            },
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &value)?;
        self.expires = Some(end);
        Ok(())
    }
}

fn flags(interest: Interest) -> epoll::EventFlags {
    let mut flags = epoll::EventFlags::empty();
    if interest.reading {
        flags |= epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
    }
    if interest.writing {
        flags |= epoll::EventFlags::OUT;
    }
    flags
}
