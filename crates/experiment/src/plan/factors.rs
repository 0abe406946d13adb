//! What is varied: factors, their levels, the variants made of them and the baseline.

use std::collections::BTreeSet;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::error::{Fault, did_you_mean};
use super::node::{Entry, Node, Table, Value};
use super::ranges;
use super::reader::Reader;
use super::template::is_name;

/// The most variants of one plan: at the shortest useful trials more would take days.
pub const MOST_VARIANTS: usize = 256;

/// The longest [`Variant::id`], in bytes: a folder of every file system can be called so.
const LONGEST_ID: usize = 100;

/// Words that a template would read as its own.
const TEMPLATE_WORDS: &[&str] = &[
    "true", "false", "none", "True", "False", "None", "not", "and", "or", "in", "is", "if", "else",
    "loop", "self", "caller",
];

/// Some factors, each at one of its levels, by name and in the plan's order of factors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Levels(Vec<(String, String)>);

impl Levels {
    /// The level of a factor, where it is fixed.
    pub fn get(&self, factor: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(name, _)| name == factor)
            .map(|(_, level)| level.as_str())
    }

    /// Factor and level, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(factor, level)| (factor.as_str(), level.as_str()))
    }

    /// How many factors are fixed.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, String)> for Levels {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl Serialize for Levels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (factor, level) in &self.0 {
            map.serialize_entry(factor, level)?;
        }
        map.end()
    }
}

/// What is varied, with at least two levels.
#[derive(Debug, Clone, PartialEq)]
pub struct Factor {
    /// Its name, which templates use.
    pub name: String,
    /// The line of the plan that names it, from 1.
    pub line: usize,
    /// Its levels in the plan's order.
    pub levels: Vec<Level>,
    /// The keys that any level's table has; `None` where the levels are plain values.
    pub(crate) keys: Option<BTreeSet<String>>,
}

/// One of the states of a factor.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// Its name in results.
    pub name: String,
    /// The plain value, or the table that has it as `name`.
    pub(crate) node: Node,
}

impl Factor {
    pub(crate) fn level(&self, name: &str) -> Option<&Level> {
        self.levels.iter().find(|level| level.name == name)
    }
}

/// One set-up to be measured: every factor at one level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// The level of every factor.
    pub levels: Levels,
    /// The names of its levels as one word that can name a folder: `native-tcp`.
    pub id: String,
}

/// Reads `[factors]`; one-level factors are completed by `baseline` where that names another level.
/// `cores` is how many this machine has.
pub(crate) fn read_factors(
    table: &Table,
    baseline: Option<&Table>,
    cores: usize,
    reader: &mut Reader<'_>,
) -> Vec<Factor> {
    let mut factors = Vec::new();
    for entry in &table.entries {
        if !usable_name("factor", &entry.key, entry.line, reader) {
            continue;
        }
        let written = ranges::expand(&entry.node, &entry.key, cores, reader);
        let mut levels = read_levels(&entry.key, &written, reader);
        if levels.len() == 1
            && let Some(other) = baseline.and_then(|table| table.get(&entry.key))
            && let Some(name) = other.value.scalar_text()
            && levels[0].name != name
        {
            levels.insert(
                0,
                Level {
                    name,
                    node: other.clone(),
                },
            );
        }
        if levels.len() == 1 && !is_constant(&levels[0], &entry.key, baseline) {
            reader.refuse_with(
                Fault::Structure,
                entry.line,
                format!(
                    "factor \"{}\" has one level; a comparison needs two",
                    entry.key
                ),
                "add another, or set baseline",
            );
        }
        let keys = unify(&mut levels);
        factors.push(Factor {
            name: entry.key.clone(),
            line: entry.line,
            levels,
            keys,
        });
    }
    factors
}

/// Whether the one level of a factor is a table of values that the baseline names: nothing is varied
/// by it yet, and each level that is added to it is one more to compare. A plain level alone is taken
/// for a slip.
fn is_constant(level: &Level, factor: &str, baseline: Option<&Table>) -> bool {
    let named = baseline.and_then(|table| table.get(factor));
    matches!(level.node.value, Value::Table(_))
        && named.and_then(|node| node.value.scalar_text()) == Some(level.name.clone())
}

/// The factors that vary nothing, and the rest. One that was refused counts among the rest.
pub(crate) fn without_constants(factors: Vec<Factor>) -> (Vec<Factor>, Vec<Factor>) {
    let constant = |factor: &Factor| factor.levels.len() == 1 && factor.keys.is_some();
    factors.into_iter().partition(constant)
}

/// Every level that a baseline fixes, or any of a list of them: the first that names a factor counts.
pub(crate) fn merged_baselines(node: &Node) -> Table {
    let tables = match &node.value {
        Value::Array(nodes) => nodes.iter().collect(),
        _ => vec![node],
    };
    let mut merged = Table::default();
    for node in tables {
        let Value::Table(table) = &node.value else {
            continue;
        };
        for entry in &table.entries {
            if merged.get(&entry.key).is_none() {
                merged.entries.push(entry.clone());
            }
        }
    }
    merged
}

/// The baseline without what it says of factors that vary nothing; of a list the first that fixes a
/// factor that varies.
pub(crate) fn chosen_baseline(node: &Node, constants: &[Factor]) -> Node {
    let Value::Array(nodes) = &node.value else {
        return without_keys(node, constants);
    };
    let mut left = nodes.iter().map(|node| without_keys(node, constants));
    let fixes_any = |node: &Node| match &node.value {
        Value::Table(table) => !table.entries.is_empty(),
        // Refused when it is read.
        _ => true,
    };
    let empty = Node {
        line: node.line,
        value: Value::Table(Table::default()),
    };
    left.find(fixes_any).unwrap_or(empty)
}

/// A baseline without what it says of these factors.
fn without_keys(baseline: &Node, constants: &[Factor]) -> Node {
    let mut baseline = baseline.clone();
    if let Value::Table(table) = &mut baseline.value {
        let constant = |key: &str| constants.iter().any(|factor| factor.name == key);
        table.entries.retain(|entry| !constant(&entry.key));
    }
    baseline
}

/// Whether a name can stand in templates; says so where not.
pub(crate) fn usable_name(what: &str, name: &str, line: usize, reader: &mut Reader<'_>) -> bool {
    if TEMPLATE_WORDS.contains(&name) {
        let text = format!("{what} \"{name}\" is called like a word of the template language");
        reader.refuse_with(Fault::BadValue, line, text, "take another name");
        return false;
    }
    if !is_name(name) {
        let mend: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        reader.refuse_with(
            Fault::BadValue,
            line,
            format!("{what} \"{name}\" can't be named in a template"),
            format!("letters, digits and _ only, a letter first, such as \"{mend}\""),
        );
        return false;
    }
    true
}

fn read_levels(factor: &str, node: &Node, reader: &mut Reader<'_>) -> Vec<Level> {
    let Value::Array(items) = &node.value else {
        let what = format!("factor \"{factor}\" is {}, not an array", node.value.kind());
        let mend = format!("write {factor} = [\"…\", \"…\"]");
        reader.refuse_with(Fault::WrongType, node.line, what, mend);
        return Vec::new();
    };
    if items.is_empty() {
        let what = format!("factor \"{factor}\" has no level");
        reader.refuse_with(Fault::Structure, node.line, what, "name at least two");
    }
    if items.len() > MOST_VARIANTS {
        let what = format!("factor \"{factor}\" has more than {MOST_VARIANTS} levels");
        reader.refuse(Fault::Structure, node.line, what);
        return Vec::new();
    }
    let mut levels: Vec<Level> = Vec::new();
    for item in items {
        let Some(name) = level_name(item, factor, reader) else {
            continue;
        };
        if levels.iter().any(|level| level.name == name) {
            let what = format!("factor \"{factor}\" has the level \"{name}\" twice");
            reader.refuse_with(
                Fault::Structure,
                item.line,
                what,
                "take one out or rename it",
            );
            continue;
        }
        levels.push(Level {
            name,
            node: item.clone(),
        });
    }
    levels
}

fn level_name(item: &Node, factor: &str, reader: &mut Reader<'_>) -> Option<String> {
    let name = match &item.value {
        Value::Table(table) => match table.get("name") {
            Some(name) => reader.scalar(name, &format!("the name of a level of \"{factor}\""))?,
            None => {
                let what = format!("a level of factor \"{factor}\" is a table without a name");
                let mend = "results call a level by its name: { name = \"…\", … }";
                reader.refuse_with(Fault::MissingKey, item.line, what, mend);
                return None;
            }
        },
        Value::Array(_) => {
            let what = format!("a level of factor \"{factor}\" is an array");
            let mend = "give it a name: { name = \"…\", values = […] }";
            reader.refuse_with(Fault::WrongType, item.line, what, mend);
            return None;
        }
        _ => reader.scalar(item, &format!("a level of \"{factor}\""))?,
    };
    if name.trim().is_empty() || name.len() > LONGEST_ID || name.chars().any(char::is_control) {
        let what = format!("the name of a level of factor \"{factor}\" can't be shown");
        let mend = format!("1 to {LONGEST_ID} bytes on one line, such as \"none\"");
        reader.refuse_with(Fault::BadValue, item.line, what, mend);
        return None;
    }
    Some(name)
}

/// Where one level is a table, a plain value beside it becomes a table with that name only.
fn unify(levels: &mut [Level]) -> Option<BTreeSet<String>> {
    let is_table = |level: &Level| matches!(level.node.value, Value::Table(_));
    if !levels.iter().any(is_table) {
        return None;
    }
    let mut keys = BTreeSet::new();
    for level in levels {
        let line = level.node.line;
        if let Value::Table(table) = &level.node.value {
            keys.extend(table.keys().map(str::to_owned));
        } else {
            let name = Node {
                line,
                value: Value::Text(level.name.clone()),
            };
            let entry = Entry {
                key: "name".to_owned(),
                line,
                node: name,
            };
            level.node.value = Value::Table(Table {
                line,
                entries: vec![entry],
            });
        }
    }
    Some(keys)
}

/// Reads `variants`, or makes all of them.
pub(crate) fn read_variants(
    listed: Option<&Node>,
    factors: &[Factor],
    line: usize,
    reader: &mut Reader<'_>,
) -> Vec<Variant> {
    let cells = match listed {
        None => product(factors, line, reader),
        Some(node) => read_cells(node, factors, reader),
    };
    let mut variants: Vec<Variant> = Vec::with_capacity(cells.len());
    for levels in cells {
        let id = free_id(&levels, &variants);
        variants.push(Variant { levels, id });
    }
    variants
}

fn product(factors: &[Factor], line: usize, reader: &mut Reader<'_>) -> Vec<Levels> {
    let number = factors
        .iter()
        .try_fold(1_usize, |product, factor| {
            product.checked_mul(factor.levels.len())
        })
        .filter(|number| *number <= MOST_VARIANTS);
    let Some(number) = number else {
        let what = format!("the factors' product has more than {MOST_VARIANTS} variants");
        let mend = "list those that you want: variants = [{ … }, { … }]";
        reader.refuse_with(Fault::Structure, line, what, mend);
        return Vec::new();
    };
    // The last factor varies fastest, as a table is read.
    (0..number)
        .map(|mut cell| {
            let mut levels: Vec<_> = factors
                .iter()
                .rev()
                .map(|factor| {
                    let level = &factor.levels[cell % factor.levels.len()];
                    cell /= factor.levels.len();
                    (factor.name.clone(), level.name.clone())
                })
                .collect();
            levels.reverse();
            Levels(levels)
        })
        .collect()
}

fn read_cells(node: &Node, factors: &[Factor], reader: &mut Reader<'_>) -> Vec<Levels> {
    let Value::Array(items) = &node.value else {
        let what = format!("variants is {}, not an array of tables", node.value.kind());
        reader.refuse(Fault::WrongType, node.line, what);
        return Vec::new();
    };
    if items.len() > MOST_VARIANTS {
        let what = format!("variants lists {}, more than {MOST_VARIANTS}", items.len());
        reader.refuse(Fault::Structure, node.line, what);
        return Vec::new();
    }
    let mut cells: Vec<Levels> = Vec::new();
    for item in items {
        let Some(table) = reader.table(item, "a variant") else {
            continue;
        };
        let Some(levels) = read_cell(table, item.line, factors, "the variant", reader) else {
            continue;
        };
        if let Some(missing) = factors.iter().find(|f| levels.get(&f.name).is_none()) {
            let what = format!("the variant names no level of factor \"{}\"", missing.name);
            reader.refuse(Fault::MissingKey, item.line, what);
        } else if cells.contains(&levels) {
            reader.refuse(Fault::Structure, item.line, "this variant is listed twice");
        } else {
            cells.push(levels);
        }
    }
    cells
}

/// Reads factor = level pairs, in the factors' order.
fn read_cell(
    table: &Table,
    line: usize,
    factors: &[Factor],
    owner: &str,
    reader: &mut Reader<'_>,
) -> Option<Levels> {
    let known: Vec<&str> = factors.iter().map(|factor| factor.name.as_str()).collect();
    reader.known_keys(table, owner, &known);
    let mut fine = table.keys().all(|key| known.contains(&key));
    let mut levels = Vec::new();
    for factor in factors {
        let Some(node) = table.get(&factor.name) else {
            continue;
        };
        let what = format!("{owner}'s level of \"{}\"", factor.name);
        let Some(name) = reader.scalar(node, &what) else {
            fine = false;
            continue;
        };
        if factor.level(&name).is_none() {
            let names = factor.levels.iter().map(|level| level.name.as_str());
            let mend = did_you_mean(&name, names.clone())
                .unwrap_or_else(|| format!("it has: {}", names.collect::<Vec<_>>().join(", ")));
            let what = format!("{owner} names \"{name}\", no level of \"{}\"", factor.name);
            reader.refuse_with(Fault::Structure, node.line.max(line), what, mend);
            fine = false;
            continue;
        }
        levels.push((factor.name.clone(), name));
    }
    fine.then_some(Levels(levels))
}

/// Reads `baseline`, the one that was [chosen](chosen_baseline); without one it is the first level of
/// every factor.
pub(crate) fn read_baseline(
    node: Option<&Node>,
    factors: &[Factor],
    variants: &[Variant],
    reader: &mut Reader<'_>,
) -> Option<Levels> {
    if variants.is_empty() || factors.is_empty() {
        return None; // What is wrong with the factors comes first.
    }
    let Some(node) = node else {
        let first = variants.first()?.levels.clone();
        check_baseline(&first, variants, factors.first()?.line, reader);
        return Some(first);
    };
    let table = reader.table(node, "baseline")?;
    let baseline = read_cell(table, node.line, factors, "the baseline", reader)?;
    if baseline.is_empty() {
        let what = "the baseline fixes no factor";
        reader.refuse_with(
            Fault::Structure,
            node.line,
            what,
            "name a level of at least one",
        );
        return None;
    }
    check_baseline(&baseline, variants, node.line, reader);
    Some(baseline)
}

fn check_baseline(baseline: &Levels, variants: &[Variant], line: usize, reader: &mut Reader<'_>) {
    if variants.len() < 2 {
        let what = "there is one variant; a comparison needs two";
        reader.refuse_with(
            Fault::Structure,
            line,
            what,
            "list another, or give a factor a level",
        );
        return;
    }
    let names: Vec<_> = baseline
        .iter()
        .map(|(f, l)| format!("{f} = \"{l}\""))
        .collect();
    if !variants
        .iter()
        .any(|variant| is_baseline(baseline, &variant.levels))
    {
        let what = format!(
            "the baseline {{ {} }} is none of the variants",
            names.join(", ")
        );
        reader.refuse_with(Fault::Structure, line, what, "list it under variants");
        return;
    }
    for variant in variants
        .iter()
        .filter(|variant| !is_baseline(baseline, &variant.levels))
    {
        if baseline_of(baseline, variants, &variant.levels).is_none() {
            let what = format!(
                "variant {} has no baseline: {} with its other levels is not listed",
                variant.id,
                names.join(", "),
            );
            reader.refuse_with(Fault::Structure, line, what, "list that variant too");
        }
    }
}

fn is_baseline(baseline: &Levels, levels: &Levels) -> bool {
    baseline
        .iter()
        .all(|(factor, level)| levels.get(factor) == Some(level))
}

/// The variant that `levels` is compared with: the baseline's levels, the others its own. A
/// baseline is its own.
pub(crate) fn baseline_of(
    baseline: &Levels,
    variants: &[Variant],
    levels: &Levels,
) -> Option<usize> {
    variants.iter().position(|candidate| {
        candidate
            .levels
            .iter()
            .all(|(factor, level)| baseline.get(factor).or(levels.get(factor)) == Some(level))
    })
}

/// The levels' names as one word for a folder, different from those of `taken`.
fn free_id(levels: &Levels, taken: &[Variant]) -> String {
    let word: String = levels
        .iter()
        .map(|(_, level)| level)
        .collect::<Vec<_>>()
        .join("-")
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') {
                c
            } else {
                '_'
            }
        })
        .take(LONGEST_ID)
        .collect();
    // A leading point would hide the folder, or climb out of it; a dash would look like a flag.
    let word = match word.strip_prefix(['.', '-']) {
        Some(rest) => format!("_{rest}"),
        None => word,
    };
    let free = |id: &String| taken.iter().all(|variant| variant.id != *id);
    std::iter::once(word.clone())
        .chain((2..).map(|number| format!("{word}~{number}")))
        .find(free)
        .unwrap_or(word)
}
