//! Formats the configuration of a plan's variants for a dry run: first the settings that all
//! variants share, then those that a level of one factor determines, then those of a single
//! variant.

use std::collections::{BTreeMap, BTreeSet};

use prony_plan::Plan;

/// Maximum number of printed lines in a file, counting only lines that differ between variants.
const FILE_LINES_MAX: usize = 8;
/// Maximum length of a printed line in characters.
const LINE_CHARS_MAX: usize = 100;
/// Maximum size in bytes of a file whose lines are compared. Larger files are only named.
const FILE_BYTES_MAX: usize = 256 << 10;

/// One setting of a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownSetting {
    /// The object that the setting configures: a service, `load`, a place or a link.
    pub(crate) subject: String,
    /// Name of the setting, unique within its subject.
    pub(crate) part: String,
    pub(crate) value: SettingValue,
}

/// Value of a setting, classified by the form in which it is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SettingValue {
    /// Words that are printed on one line with the other words of the same subject.
    Words(String),
    /// Text that is printed on a separate line.
    Line(String),
    /// Content of a rendered file, of which only the lines that differ are printed.
    File(Vec<u8>),
}

impl ShownSetting {
    pub(crate) fn new(subject: &str, part: &str, value: SettingValue) -> ShownSetting {
        ShownSetting {
            subject: subject.to_owned(),
            part: part.to_owned(),
            value,
        }
    }

    fn key(&self) -> (&str, &str) {
        (&self.subject, &self.part)
    }
}

/// Renders the settings of all variants, in the plan's order, as indented lines.
pub(crate) fn folded(plan: &Plan, variants: &[Vec<ShownSetting>]) -> String {
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for setting in variants.iter().flatten() {
        if !keys.contains(&setting.key()) {
            keys.push(setting.key());
        }
    }
    let mut common: Vec<ShownSetting> = Vec::new();
    let mut of_levels: BTreeMap<(usize, usize), Vec<ShownSetting>> = BTreeMap::new();
    let mut of_variants: BTreeMap<usize, Vec<ShownSetting>> = BTreeMap::new();
    let mut folded_factors = BTreeSet::new();
    for key in keys {
        let values: Vec<Option<ShownSetting>> = shown(key, variants);
        if values.windows(2).all(|pair| pair[0] == pair[1]) {
            common.extend(values.into_iter().next().flatten());
            continue;
        }
        match factor_of(plan, &values) {
            Some(factor) => {
                folded_factors.insert(factor);
                for (level, value) in by_level(plan, factor, values) {
                    of_levels.entry((factor, level)).or_default().extend(value);
                }
            }
            None => {
                for (variant, value) in values.into_iter().enumerate() {
                    of_variants.entry(variant).or_default().extend(value);
                }
            }
        }
    }
    let mut text = String::new();
    if !common.is_empty() {
        text += &section("every variant", &common);
    }
    for factor in folded_factors {
        let of = &plan.factors[factor];
        for (level, named) in of.levels.iter().enumerate() {
            let settings = of_levels.remove(&(factor, level)).unwrap_or_default();
            text += &section(&format!("{} = {}", of.name, named.name), &settings);
        }
    }
    for (variant, settings) in of_variants {
        text += &section(&plan.variant_name(variant), &settings);
    }
    text
}

/// Returns the printed form of a setting for each variant. Of a file, only the lines that differ
/// are printed.
fn shown(
    (subject, part): (&str, &str),
    variants: &[Vec<ShownSetting>],
) -> Vec<Option<ShownSetting>> {
    let find = |settings: &Vec<ShownSetting>| {
        let mut settings = settings.iter();
        settings.find(|it| it.key() == (subject, part)).cloned()
    };
    let mut values: Vec<Option<ShownSetting>> = variants.iter().map(find).collect();
    let files: Vec<&[u8]> = values
        .iter()
        .flatten()
        .filter_map(|setting| match &setting.value {
            SettingValue::File(bytes) => Some(&bytes[..]),
            _ => None,
        })
        .collect();
    if files.is_empty() {
        return values;
    }
    let is_same = files.len() == values.len() && files.windows(2).all(|pair| pair[0] == pair[1]);
    let lines_of = |bytes: &[u8]| -> BTreeSet<String> {
        let text = String::from_utf8_lossy(bytes);
        text.lines().map(|line| line.trim().to_owned()).collect()
    };
    let everywhere = if is_same {
        BTreeSet::new()
    } else {
        let mut sets = files.iter().map(|bytes| lines_of(bytes));
        let first = sets.next().unwrap_or_default();
        sets.fold(first, |common, set| {
            common.intersection(&set).cloned().collect()
        })
    };
    for setting in &mut values {
        let Some(own) = setting else { continue };
        let SettingValue::File(bytes) = &own.value else {
            continue;
        };
        *setting = if is_same {
            None
        } else {
            Some(ShownSetting::new(
                subject,
                part,
                SettingValue::Line(file_lines(part, bytes, &everywhere)),
            ))
        };
    }
    values
}

fn file_lines(name: &str, bytes: &[u8], everywhere: &BTreeSet<String>) -> String {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if bytes.len() <= FILE_BYTES_MAX => text,
        _ => return format!("{name} ({} bytes)", bytes.len()),
    };
    let own: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !everywhere.contains(*line))
        .collect();
    let mut lines = vec![format!("{name}:")];
    for line in own.iter().take(FILE_LINES_MAX) {
        let cut: String = line.chars().take(LINE_CHARS_MAX).collect();
        let dots = if cut.len() < line.len() { "…" } else { "" };
        lines.push(format!("  {cut}{dots}"));
    }
    match own.len().saturating_sub(FILE_LINES_MAX) {
        0 if own.is_empty() => lines.push("  (no specific settings)".to_owned()),
        0 => {}
        more => lines.push(format!("  … and {more} more lines")),
    }
    lines.join("\n")
}

/// Returns the index of the factor that alone determines a setting, if there is one.
fn factor_of(plan: &Plan, values: &[Option<ShownSetting>]) -> Option<usize> {
    plan.factors.iter().position(|factor| {
        let mut seen: BTreeMap<&str, &Option<ShownSetting>> = BTreeMap::new();
        plan.variants.iter().zip(values).all(|(variant, value)| {
            let level = variant.levels.get(&factor.name).unwrap_or_default();
            *seen.entry(level).or_insert(value) == value
        })
    })
}

fn by_level(
    plan: &Plan,
    factor: usize,
    values: Vec<Option<ShownSetting>>,
) -> BTreeMap<usize, Option<ShownSetting>> {
    let factor = &plan.factors[factor];
    let mut levels = BTreeMap::new();
    for (variant, value) in plan.variants.iter().zip(values) {
        let name = variant.levels.get(&factor.name).unwrap_or_default();
        let level = factor.levels.iter().position(|level| level.name == name);
        levels.entry(level.unwrap_or_default()).or_insert(value);
    }
    levels
}

/// Formats a heading and the settings below it. All words of a subject share a line.
fn section(heading: &str, settings: &[ShownSetting]) -> String {
    if settings.is_empty() {
        return format!("  {heading}: no further settings\n");
    }
    let mut lines: Vec<(String, bool, String)> = Vec::new();
    for setting in settings {
        let subject = &setting.subject;
        match &setting.value {
            SettingValue::Words(words) => {
                let of_subject = |line: &&mut (String, bool, String)| line.1 && line.0 == *subject;
                match lines.iter_mut().find(of_subject) {
                    Some((_, _, line)) => *line += &format!(" {words}"),
                    None => lines.push((subject.clone(), true, words.clone())),
                }
            }
            SettingValue::Line(line) => lines.push((subject.clone(), false, line.clone())),
            SettingValue::File(_) => {}
        }
    }
    let mut text = format!("  {heading}:\n");
    for (subject, _, line) in lines {
        let line = line.replace('\n', "\n    ");
        text += &format!("    {subject}: {line}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use prony_machine::profile::MachineProfile;

    use super::*;

    /// Returns a plan with two factors, each with two levels.
    fn plan() -> Plan {
        let text = r#"
baseline = { site = "plain", cores = 1 }
[factors]
site = ["plain", "tuned"]
cores = [1, 2]
[service.web]
remote = "127.0.0.1:80"
[load]
target = "web"
path = "/{{ site }}/{{ cores }}"
"#;
        Plan::from_str(text, Path::new("plan.toml"), MachineProfile::this())
            .unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn words(part: &str, words: &str) -> ShownSetting {
        ShownSetting::new("load", part, SettingValue::Words(words.to_owned()))
    }

    fn settings(of: impl Fn(&str, &str) -> Vec<ShownSetting>) -> String {
        let plan = plan();
        let variants = plan.variants.iter().map(|variant| {
            let level = |factor| variant.levels.get(factor).unwrap_or_default();
            of(level("site"), level("cores"))
        });
        let variants: Vec<Vec<ShownSetting>> = variants.collect();
        folded(&plan, &variants)
    }

    #[test]
    fn settings_are_printed_once_for_all_variants_or_per_level() {
        let text = settings(|site, cores| {
            let mut all = vec![words("", "prony load"), words("c", "--connections=4")];
            all.extend((site == "tuned").then(|| words("k", "--no-keepalive")));
            let env = SettingValue::Line(format!("env THREADS={cores}"));
            all.push(ShownSetting::new("web", "THREADS", env));
            all
        });
        let expected = "  every variant:\n    load: prony load --connections=4\n  \
                        site = plain: no further settings\n  site = tuned:\n    \
                        load: --no-keepalive\n  cores = 1:\n    web: env THREADS=1\n  \
                        cores = 2:\n    web: env THREADS=2\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn settings_that_depend_on_two_factors_are_listed_by_variant() {
        let text = settings(|site, cores| vec![words("", &format!("{site}{cores}"))]);
        assert!(
            text.contains("  site = tuned, cores = 2:\n    load: tuned2\n"),
            "{text}"
        );
    }

    #[test]
    fn files_are_reduced_to_the_lines_that_differ() {
        let text = settings(|site, _| {
            let file = format!("worker 1\n  tcp_nopush {site};\n\nend");
            let file = SettingValue::File(file.into_bytes());
            let same = SettingValue::File(b"equal".to_vec());
            vec![
                ShownSetting::new("web", "nginx.conf", file),
                ShownSetting::new("web", "page.html", same),
            ]
        });
        assert!(
            text.contains("  site = tuned:\n    web: nginx.conf:\n      tcp_nopush tuned;\n"),
            "{text}"
        );
        assert!(
            !text.contains("page.html") && !text.contains("worker 1"),
            "{text}"
        );
    }
}
