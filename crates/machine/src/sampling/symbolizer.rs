//! Names for the addresses of a profile. This runs after the load, because it uses CPU time.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use prony_record::sampling::{
    KERNEL_MODULE, SAMPLING_SCHEMA, SampledFunction, SamplingEvent, SamplingNote, SamplingProfile,
    UNKNOWN_FUNCTION,
};

use super::collector::{RawProfile, SeenModule};
use super::elf::{self, FoundFunction};
use super::module_files::{self, DELETED_MARK, FileIdentity};
use super::processes::CodeModule;
use super::{kernel_symbols, names, perf_map, wait_names};

/// Maximum number of different call chains in a profile. Those with the smallest weights are reduced
/// to their last function.
const STACKS_MAX: usize = 20_000;

/// Maximum number of notes about perf maps and files.
const NOTES_MAX: usize = 8;

/// Gives names to the functions of a profile.
pub(super) fn profile(raw: &RawProfile, event: SamplingEvent, rate_hz: u32) -> SamplingProfile {
    let mut notes = Vec::new();
    if raw.lost > 0 {
        notes.push(SamplingNote::Lost(raw.lost));
    }
    if raw.reduced > 0 {
        notes.push(SamplingNote::ChainsReduced(raw.reduced));
    }
    if raw.waits_lost > 0 {
        notes.push(SamplingNote::WaitsLost(raw.waits_lost));
    }
    let named = functions(raw, &mut notes);
    let waiting = wait_names::waiting_functions(raw, &named);
    let mut indexes: BTreeMap<&SampledFunction, u32> = BTreeMap::new();
    let mut functions: Vec<SampledFunction> = Vec::new();
    let mut index = |function| {
        *indexes.entry(function).or_insert_with(|| {
            functions.push(SampledFunction::clone(function));
            functions.len() as u32 - 1
        })
    };
    let of_address: Vec<u32> = named.iter().map(&mut index).collect();
    let waits = waiting.iter().map(|(function, ns)| (index(function), *ns));
    let waits = waits.collect();
    let mut weights: HashMap<Vec<u32>, u64> = HashMap::new();
    for (chain, weight) in &raw.chains {
        let chain = chain.iter().rev().map(|it| of_address[*it as usize]);
        *weights.entry(chain.collect()).or_default() += weight;
    }
    SamplingProfile {
        schema: SAMPLING_SCHEMA.to_owned(),
        event,
        rate_hz,
        seconds: 0.0,
        samples: raw.samples,
        weight: raw.weight,
        notes,
        stacks: heaviest(weights, STACKS_MAX),
        functions,
        wait_seconds: raw.waits_recorded_ns as f64 / 1e9,
        waits,
    }
}

/// Sorts the chains by weight, and reduces the lightest ones to their last function.
fn heaviest(weights: HashMap<Vec<u32>, u64>, chains_max: usize) -> Vec<(Vec<u32>, u64)> {
    let order = |(chain_a, weight_a): &(Vec<u32>, u64), (chain_b, weight_b): &(Vec<u32>, u64)| {
        weight_b.cmp(weight_a).then_with(|| chain_a.cmp(chain_b))
    };
    let mut stacks: Vec<(Vec<u32>, u64)> = weights.into_iter().collect();
    stacks.sort_unstable_by(order);
    let light = stacks.split_off(stacks.len().min(chains_max));
    let mut reduced: BTreeMap<u32, u64> = BTreeMap::new();
    for (chain, weight) in light {
        if let Some(last) = chain.last() {
            *reduced.entry(*last).or_default() += weight;
        }
    }
    stacks.extend(
        reduced
            .into_iter()
            .map(|(last, weight)| (vec![last], weight)),
    );
    stacks
}

/// Returns the function of each address.
fn functions(raw: &RawProfile, notes: &mut Vec<SamplingNote>) -> Vec<SampledFunction> {
    let unknown = SampledFunction::new(UNKNOWN_FUNCTION, UNKNOWN_FUNCTION);
    let mut named = vec![unknown; raw.addresses.len()];
    let mut of_module: Vec<Vec<(u64, usize)>> = vec![Vec::new(); raw.modules.len()];
    for (index, address) in raw.addresses.iter().enumerate() {
        of_module[address.module as usize].push((address.position, index));
    }
    for (seen, mut addresses) in raw.modules.iter().zip(of_module) {
        addresses.sort_unstable();
        let positions: Vec<u64> = addresses.iter().map(|(position, _)| *position).collect();
        let found = module_functions(seen, &positions, notes);
        for ((_, index), function) in addresses.into_iter().zip(found) {
            named[index] = function;
        }
    }
    named
}

/// Returns the functions at sorted positions in a module.
fn module_functions(
    seen: &SeenModule,
    positions: &[u64],
    notes: &mut Vec<SamplingNote>,
) -> Vec<SampledFunction> {
    let unknown = |module: &str| SampledFunction::new(UNKNOWN_FUNCTION, module);
    let all_unknown = |module: &str| vec![unknown(module); positions.len()];
    let mut note = |note: SamplingNote| {
        if notes.len() < NOTES_MAX && !notes.contains(&note) {
            notes.push(note);
        }
    };
    let pid = seen.pid;
    match &seen.module {
        CodeModule::Unknown => all_unknown(UNKNOWN_FUNCTION),
        CodeModule::Vdso => all_unknown("[vdso]"),
        CodeModule::Kernel => match kernel_symbols::functions(positions) {
            Some(found) => {
                let function = |found: Option<(String, String)>| match found {
                    Some((name, module)) => SampledFunction::new(
                        names::symbol_name(name.as_bytes()),
                        names::clean(&module),
                    ),
                    None => unknown(KERNEL_MODULE),
                };
                found.into_iter().map(function).collect()
            }
            None => {
                note(SamplingNote::KernelNamesHidden);
                all_unknown(KERNEL_MODULE)
            }
        },
        CodeModule::Generated(pid) => {
            let name = "[generated code]";
            let found = perf_map::functions(*pid, positions).unwrap_or_else(|reason| {
                note(SamplingNote::PerfMap(names::clean(&reason)));
                None
            });
            let function = |found: Option<Vec<u8>>| match found {
                Some(symbol) => SampledFunction::new(names::generated_name(&symbol), name),
                None => unknown(name),
            };
            match found {
                Some(found) => found.into_iter().map(function).collect(),
                None => all_unknown(name),
            }
        }
        CodeModule::File(path) => {
            let name = module_name(path);
            let found = module_files::open(path, pid)
                .and_then(|file| match FileIdentity::of(&file) {
                    identity if identity == seen.identity => elf::functions(file, path, positions),
                    _ => Err("its file was replaced while it ran".to_owned()),
                })
                .unwrap_or_else(|reason| {
                    let text = format!("{name} has no symbols: {reason}");
                    note(SamplingNote::Symbols(names::clean(&text)));
                    vec![None; positions.len()]
                });
            let function = |found: Option<FoundFunction>| match found {
                Some(FoundFunction::Symbol(symbol)) => {
                    SampledFunction::new(names::symbol_name(&symbol), &name)
                }
                Some(FoundFunction::Start(start)) => {
                    SampledFunction::new(format!("{name}+{start:#x}"), &name)
                }
                None => unknown(&name),
            };
            found.into_iter().map(function).collect()
        }
    }
}

fn module_name(path: &Path) -> String {
    let text = path.to_string_lossy();
    let text = text.strip_suffix(DELETED_MARK).unwrap_or(&text);
    names::clean(text.rsplit('/').next().unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_chains_are_reduced_to_their_last_function() {
        let chains = [
            (vec![0, 1], 9),
            (vec![0, 2], 2),
            (vec![1, 2], 1),
            (vec![3], 8),
        ];
        let reduced = heaviest(chains.into_iter().collect(), 2);
        assert_eq!(reduced, [(vec![0, 1], 9), (vec![3], 8), (vec![2], 3)]);
    }

    #[test]
    fn modules_are_named_by_their_file() {
        assert_eq!(module_name(Path::new("/usr/lib/libc.so.6")), "libc.so.6");
        assert_eq!(module_name(Path::new("/srv/web (deleted)")), "web");
        assert_eq!(module_name(Path::new("/srv/\u{1b}[2J")), "\u{fffd}[2J");
    }
}
