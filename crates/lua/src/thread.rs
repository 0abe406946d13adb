//! The object that represents a thread in scripts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use mlua::{Error, Lua, UserData, UserDataFields, UserDataMethods, UserDataRef, Value, WeakLua};

use crate::address::Address;
use crate::carry::carry;

/// A thread's state, its server address, and its stop flag.
#[derive(Clone)]
pub(crate) struct ThreadHandle(Arc<ThreadState>);

struct ThreadState {
    lua: WeakLua,
    address: Mutex<Option<Address>>,
    is_stopped: AtomicBool,
}

impl ThreadHandle {
    pub(crate) fn of(lua: &Lua) -> ThreadHandle {
        ThreadHandle(Arc::new(ThreadState {
            lua: lua.weak(),
            address: Mutex::new(None),
            is_stopped: AtomicBool::new(false),
        }))
    }

    /// Returns the server address that the thread's connections use (`thread.addr` in wrk).
    pub(crate) fn address(&self) -> Option<Address> {
        *self.lock()
    }

    /// Returns true if the script stopped the thread.
    pub(crate) fn is_stopped(&self) -> bool {
        self.0.is_stopped.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Address>> {
        // A poisoned lock can still be used, because a panic can't leave an Option half written.
        let address = self.0.address.lock();
        address.unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn lua(&self) -> mlua::Result<Lua> {
        let gone = || Error::runtime("the thread has ended");
        self.0.lua.try_upgrade().ok_or_else(gone)
    }
}

impl UserData for ThreadHandle {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("addr", |_, thread| Ok(thread.address()));
        fields.add_field_method_set("addr", |_, thread, to: UserDataRef<Address>| {
            *thread.lock() = Some(*to);
            Ok(())
        });
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("get", |lua, thread, name: String| {
            let value: Value = thread.lua()?.globals().get(name)?;
            carry(&value, lua)
        });
        methods.add_method("set", |_, thread, (name, value): (String, Value)| {
            let lua = thread.lua()?;
            lua.globals().set(name, carry(&value, &lua)?)
        });
        methods.add_method("stop", |_, thread, ()| {
            thread.0.is_stopped.store(true, Ordering::Relaxed);
            Ok(())
        });
    }
}
