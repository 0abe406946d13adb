//! Decides whether the trials of a block are interleaved.
//!
//! In an interleaved block, the services of all variants run at the same time. Each variant has its
//! own load, and the loads take turns in slices. Drift of the machine and noisy neighbors then
//! affect all variants equally.
//!
//! Input: a plan, and the available resources of this machine. Output: a [`TrialMode`], which
//! contains the reason if the trials are not interleaved.

mod listening;
mod named_variants;
mod resources;
mod slices;
#[cfg(test)]
pub(crate) mod test_plans;
#[cfg(test)]
mod tests;

use std::time::Duration;

use prony_load::{HttpVersion, IoChoice, has_streamed_responses};
use prony_plan::{Interleave, LoadModel, Plan, ResolvedVariant};
use prony_record::number;
use prony_stats::TrialMode;

use named_variants::NamedVariants;

pub use resources::{MachineResources, VariantDemand, demands, shortage};
pub use slices::{
    COUNTED_REQUESTS_MIN, DEFAULT_SLICE, ROUNDS_MIN, SETTLING_PART, interleaved_time,
    minimum_duration,
};

/// Decides whether the trials of a plan are interleaved, without regard to the resources of this
/// machine.
///
/// The result is `Sequential` if `requested` is `Off` or if the variants can't be interleaved. The
/// reason names the service, variant or plan key that prevents interleaving.
pub fn decide(plan: &Plan, requested: Interleave) -> TrialMode {
    let length = match requested {
        Interleave::Off => {
            let reason = "interleave is \"off\"".to_owned();
            return TrialMode::Sequential { reason };
        }
        Interleave::Auto => None,
        Interleave::Slices(length) => Some(length),
    };
    let obstacle = match plan.with_placeholders() {
        Ok(variants) => obstacle(plan, &variants, requested),
        // This is unexpected, because the plan was rendered when it was read. The first trial will
        // report the cause.
        Err(_) => Some("not every variant can be rendered".to_owned()),
    };
    match obstacle {
        Some(reason) => TrialMode::Sequential { reason },
        None => TrialMode::Sliced { length },
    }
}

/// Returns the first reason why the variants can't be interleaved.
fn obstacle(plan: &Plan, variants: &[ResolvedVariant], requested: Interleave) -> Option<String> {
    let all = NamedVariants { plan, variants };
    of_load(all)
        .or_else(|| of_networks(all))
        .or_else(|| of_services(all))
        .or_else(|| of_telemetry(all))
        .or_else(|| listening::shared_address(all))
        .or_else(|| of_lengths(all, requested))
        .or_else(|| of_requests(all))
}

/// Rejects loads that can't be divided into slices, and loads that agents generate. For example,
/// slices would change the slope of a load profile, and the pauses between slices would drain the
/// queues that the profile builds up.
fn of_load(all: NamedVariants<'_>) -> Option<String> {
    if let Some(load) = all.loads(|variant| variant.load.agents.is_some()) {
        return Some(format!("agents send {load}"));
    }
    if let Some(load) = all.loads(|variant| !variant.load.settings.rate_stages().is_empty()) {
        return Some(format!("{load} has a rate that changes over time"));
    }
    let is_search =
        |variant: &ResolvedVariant| matches!(variant.load.model, LoadModel::Capacity(_));
    if let Some(load) = all.loads(is_search) {
        return Some(format!(
            "{load} is a capacity search, which chooses its own rates"
        ));
    }
    if let Some(load) = all.loads(|variant| variant.load.settings.think.is_some()) {
        return Some(format!(
            "{load} has think times, which slices would interrupt"
        ));
    }
    if let Some(load) = all.loads(|variant| has_streamed_responses(&variant.load.settings)) {
        return Some(format!(
            "{load} has streamed responses, which slices would interrupt"
        ));
    }
    if let Some(load) = all.loads(|variant| variant.load.settings.script.is_some()) {
        return Some(format!("{load} has a script, which slices would interrupt"));
    }
    let is_quic =
        |variant: &ResolvedVariant| variant.load.settings.http == Some(HttpVersion::Http3);
    if let Some(load) = all.loads(is_quic) {
        return Some(format!(
            "{load} uses QUIC, whose acknowledgments would be late between slices"
        ));
    }
    let is_bypass = |variant: &ResolvedVariant| variant.load.settings.io == Some(IoChoice::Xdp);
    if let Some(load) = all.loads(is_bypass) {
        return Some(format!(
            "{load} bypasses the kernel, and an interface can carry only one such load at a time"
        ));
    }
    if let Some(load) = all.loads(|variant| variant.load.settings.replay.is_some()) {
        return Some(format!(
            "{load} replays a log, which can't be divided into slices"
        ));
    }
    let load = all.loads(|variant| variant.load.settings.requests.is_some())?;
    Some(format!("{load} ends after a fixed number of requests"))
}

/// Rejects named places, because each exists only once, with its own settings.
fn of_networks(all: NamedVariants<'_>) -> Option<String> {
    for (index, variant) in all.iter() {
        let mut places = variant.topology.places.iter();
        if places.any(|place| !place.settings.is_empty()) {
            return Some(format!("{} sets kernel settings", all.name(index)));
        }
    }
    let mut places = all.iter().flat_map(|(_, variant)| &variant.topology.places);
    let place = places.next()?;
    Some(format!(
        "the plan has named places, such as \"{}\"",
        place.name
    ))
}

/// Rejects services that can't run on this machine at the same time as other variants' services, and
/// services with a CPU limit: an idle service starts each slice with the quota of a whole period, so
/// short slices would give it more CPU time than the limit.
fn of_services(all: NamedVariants<'_>) -> Option<String> {
    for (index, variant) in all.iter() {
        for service in &variant.services {
            let name = &service.spec.name;
            if let Some(host) = &service.host {
                return Some(format!("service \"{name}\" runs on host \"{host}\""));
            }
            if service.spec.limits.cpu_quota_us.is_some() {
                return Some(format!(
                    "service \"{name}\" has a CPU limit, whose periods slices would cut"
                ));
            }
            if service.remote.is_none() && follows_the_same(all, index, service) {
                return Some(format!(
                    "in several variants, service \"{name}\" refers to the same processes \
                        (cgroup or pid_file)"
                ));
            }
        }
    }
    None
}

/// Returns true if a service of another variant follows the same external processes. The CPU time
/// of these processes can't be attributed to one variant.
fn follows_the_same(
    all: NamedVariants<'_>,
    index: usize,
    service: &prony_plan::ResolvedService,
) -> bool {
    let follow = &service.spec.follow;
    let mut others = all.iter().filter(|(other, _)| *other != index);
    !follow.is_empty()
        && others.any(|(_, other)| {
            let mut started = other.services.iter().filter(|it| it.remote.is_none());
            started.any(|it| it.spec.follow == *follow)
        })
}

/// Rejects telemetry over ssh, because it reads totals at fixed intervals instead of at the ends of
/// slices.
fn of_telemetry(all: NamedVariants<'_>) -> Option<String> {
    let mut machines = all
        .iter()
        .filter_map(|(_, it)| it.telemetry.remote.as_ref());
    let machine = machines.next()?;
    Some(format!("telemetry from \"{machine}\" is read over ssh"))
}

/// Rejects variants whose slices would differ in number or length.
fn of_lengths(all: NamedVariants<'_>, requested: Interleave) -> Option<String> {
    let duration = |variant: &ResolvedVariant| variant.load.settings.planned().unwrap_or_default();
    let first = duration(all.variants.first()?);
    let differs = |(_, variant): &(usize, &ResolvedVariant)| duration(variant) != first;
    if let Some((index, _)) = all.iter().find(differs) {
        return Some(format!(
            "the duration of {} differs from that of {}",
            all.name(index),
            all.name(0)
        ));
    }
    let no_warmup = |variant: &ResolvedVariant| variant.load.settings.warmup().is_zero();
    let length = match requested {
        Interleave::Slices(length) => length,
        // Without a requested length, the slice length is derived from the request rates during the
        // warm-ups.
        _ => match all.loads(no_warmup) {
            Some(load) => return Some(format!("{load} has no warm-up")),
            None => DEFAULT_SLICE,
        },
    };
    let least = length.saturating_mul(ROUNDS_MIN);
    let text = |time: Duration| number::span(time.as_secs_f64());
    (first < least).then(|| {
        format!(
            "{ROUNDS_MIN} rounds with slices of {} need a duration of {}, but the duration is {}",
            text(length),
            text(least),
            text(first)
        )
    })
}

/// Rejects loads with too few requests per block for a percentile that gets a verdict. A closed
/// loop is accepted, because its rate is not known yet.
fn of_requests(all: NamedVariants<'_>) -> Option<String> {
    all.iter().find_map(|(index, variant)| {
        let settings = &variant.load.settings;
        let least = minimum_duration(settings.constant_rate()?, &all.plan.metrics)?;
        let duration = settings.planned()?;
        (duration < least).then(|| {
            format!(
                "p99 needs {} requests from {} in each block; at its rate, \
                    they take {}, but the duration is {}",
                number::count(COUNTED_REQUESTS_MIN.into()),
                all.name(index),
                number::span(least.as_secs_f64()),
                number::span(duration.as_secs_f64())
            )
        })
    })
}
