//! Names of the functions that wait.

use std::collections::{BTreeMap, HashMap};

use prony_record::sampling::{KERNEL_MODULE, SampledFunction, UNKNOWN_FUNCTION, WaitReason};

use super::collector::RawProfile;
use super::processes::CodeModule;
use super::unwinding::is_c_library;
use super::waits::reason;

/// Returns the functions that wait with their reasons, and the nanoseconds that they have waited.
/// `named` has the function of each address.
///
/// Of threads that were found waiting, only the innermost address is known. Their time is divided
/// among the functions that were observed to wait at the same address.
pub(super) fn waiting_functions(
    raw: &RawProfile,
    named: &[SampledFunction],
) -> BTreeMap<SampledFunction, u64> {
    let is_kernel = |index: &&u32| {
        let module = raw.addresses[**index as usize].module;
        raw.modules[module as usize].module == CodeModule::Kernel
    };
    let mut waiting: BTreeMap<SampledFunction, u64> = BTreeMap::new();
    let mut observed: HashMap<u32, BTreeMap<SampledFunction, u64>> = HashMap::new();
    let (found, complete): (Vec<_>, Vec<_>) = raw
        .waits
        .iter()
        .partition(|(wait, _)| wait.context.kernel_function.is_some());
    for (wait, ns) in complete {
        let kernel = wait.chain.iter().take_while(is_kernel);
        let kernel = kernel.map(|index| named[*index as usize].name.as_str());
        let reason = reason(kernel, wait.context);
        let user = wait.chain.iter().skip_while(is_kernel);
        let function = waiting_function(user.clone().map(|it| &named[*it as usize]), reason);
        if let Some(innermost) = user.clone().next() {
            let at_address = observed.entry(*innermost).or_default();
            *at_address.entry(function.clone()).or_default() += ns;
        }
        *waiting.entry(function).or_default() += ns;
    }
    for (wait, ns) in found {
        let reason = reason(wait.context.kernel_function.into_iter(), wait.context);
        let at_address = wait.chain.first().and_then(|it| observed.get(it));
        let same_reason = at_address.into_iter().flatten();
        let same_reason = same_reason.filter(|(it, _)| it.waits_for == Some(reason));
        let total: u64 = same_reason.clone().map(|(_, ns)| ns).sum();
        if total == 0 {
            let user = wait.chain.iter().map(|it| &named[*it as usize]);
            *waiting.entry(waiting_function(user, reason)).or_default() += ns;
        }
        for (function, weight) in same_reason {
            let part = (*ns as f64 * *weight as f64 / total.max(1) as f64) as u64;
            *waiting.entry(function.clone()).or_default() += part;
        }
    }
    waiting
}

/// Returns the innermost function of a call chain without kernel that is not in the C library, whose
/// functions say no more than the reason.
fn waiting_function<'a>(
    mut user: impl Iterator<Item = &'a SampledFunction> + Clone,
    reason: WaitReason,
) -> SampledFunction {
    let innermost = user.clone().next();
    let function = user.find(|it| !is_c_library(&it.module) && it.module != UNKNOWN_FUNCTION);
    let (name, module) = function
        .or(innermost)
        .map_or((KERNEL_MODULE, KERNEL_MODULE), |it| (&it.name, &it.module));
    SampledFunction {
        waits_for: Some(reason),
        ..SampledFunction::new(name, module)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::collector::{CodeAddress, SeenModule};
    use crate::sampling::waits::{RawWait, WaitContext, WaitObject};

    #[test]
    fn functions_are_named_with_the_reason() {
        let seen = |module| SeenModule {
            module,
            pid: 7,
            identity: None,
        };
        let mut raw = RawProfile {
            modules: vec![
                seen(CodeModule::Kernel),
                seen(CodeModule::File("/lib/libc.so.6".into())),
                seen(CodeModule::File("/bin/web".into())),
            ],
            ..RawProfile::default()
        };
        let address = |module| CodeAddress {
            module,
            position: 0,
        };
        raw.addresses = [0, 0, 1, 2].map(address).to_vec();
        let named = [
            SampledFunction::new("futex_wait", KERNEL_MODULE),
            SampledFunction::new("tcp_recvmsg", KERNEL_MODULE),
            SampledFunction::new("__lll_lock_wait", "libc.so.6"),
            SampledFunction::new("take_lock", "web"),
        ];
        let context = |object, kernel_function| WaitContext {
            preempted: false,
            kernel_function,
            object,
        };
        for (chain, context, ns) in [
            (&[0, 2, 3][..], context(WaitObject::Mutex, None), 10),
            (&[0, 2, 3], context(WaitObject::Other, None), 20),
            (&[1, 3], context(WaitObject::Client, None), 30),
            (&[1, 3], context(WaitObject::Other, None), 40),
            // Found waiting: as the lock that was observed at this address, and another call.
            (&[2], context(WaitObject::Mutex, Some("futex_wait")), 5),
            (&[2], context(WaitObject::Other, Some("do_nanosleep")), 6),
            (
                &[3],
                WaitContext {
                    preempted: true,
                    ..WaitContext::default()
                },
                7,
            ),
        ] {
            let chain = chain.into();
            raw.waits.insert(RawWait { chain, context }, ns);
        }
        let waiting = waiting_functions(&raw, &named);
        let found: Vec<(&str, String, u64)> = waiting
            .iter()
            .map(|(it, ns)| {
                (
                    it.name.as_str(),
                    format!("{:?}", it.waits_for.unwrap()),
                    *ns,
                )
            })
            .collect();
        let expected = [
            ("__lll_lock_wait", "Sleep", 6),
            ("take_lock", "Lock", 15),
            ("take_lock", "Upstream", 40),
            ("take_lock", "Core", 7),
            ("take_lock", "Thread", 20),
            ("take_lock", "Requests", 30),
        ];
        let expected = expected.map(|(name, reason, ns)| (name, reason.to_owned(), ns));
        assert_eq!(found, expected);
    }
}
