//! Values that cause an error only if a template uses them, such as the address of a service to
//! which no link leads.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr};

thread_local! {
    /// The reason of the first unreachable value that the current rendering has used. The template
    /// engine formats values where it can't report errors, as in `{{ web.path ~ "?" }}`.
    static USED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A value that can't be used, with the reason.
#[derive(Debug)]
struct Unreachable(String);

impl Object for Unreachable {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        USED.with_borrow_mut(|used| {
            used.get_or_insert_with(|| self.0.clone());
        });
        Ok(())
    }
}

/// Creates a value that causes an error only if a template uses it. `reason` becomes the error
/// message.
pub(crate) fn unreachable_value(reason: &str) -> minijinja::Value {
    minijinja::Value::from_object(Unreachable(reason.to_owned()))
}

/// Returns the reason if the value is unreachable.
pub(super) fn reason_of(value: &minijinja::Value) -> Option<&str> {
    let unreachable = value.downcast_object_ref::<Unreachable>()?;
    Some(&unreachable.0)
}

/// Calls `render`. Also returns the reason of the first unreachable value that it used.
pub(super) fn noting_use<T>(render: impl FnOnce() -> T) -> (T, Option<String>) {
    USED.take();
    let result = render();
    (result, USED.take())
}
