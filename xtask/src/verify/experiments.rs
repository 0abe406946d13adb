//! Runs ten real experiments that compare two origins of known cost, and reads the verdicts.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use super::figures::CheckFigure;
use super::program::Prony;

/// Number of experiments per check.
pub(super) const EXPERIMENTS: u64 = 10;

/// Cost of a request at two origins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OriginCosts {
    /// Cost at the baseline origin.
    pub(super) base: u64,
    /// Cost at the origin that is compared with the baseline.
    pub(super) other: u64,
    pub(super) unit: CostUnit,
}

/// Unit of a cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CostUnit {
    /// Rounds of busy work.
    Rounds,
    /// Microseconds of service time, one request at a time. The rate then hardly depends on the
    /// machine.
    Microseconds,
}

impl CostUnit {
    /// Returns the origin's option, and the unit of its value.
    fn option(self) -> (&'static str, &'static str) {
        match self {
            CostUnit::Rounds => ("--work", ""),
            CostUnit::Microseconds => ("--service-time", "us"),
        }
    }
}

/// Load of the experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExperimentLoad {
    pub(super) connections: u32,
    /// False to handle each response as it arrives.
    pub(super) coalesces: bool,
}

impl Default for ExperimentLoad {
    fn default() -> Self {
        ExperimentLoad {
            connections: 10,
            coalesces: true,
        }
    }
}

/// Conclusion of an experiment about the rate.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Conclusion {
    /// `faster`, `slower`, `equivalent`, `undecided` or `withheld`.
    pub(super) verdict: String,
    /// Ratio of the other variant's rate to the baseline's: estimate, and lower and upper limit of
    /// the interval.
    ratio: Option<[f64; 3]>,
    blocks: u64,
    findings: Vec<String>,
}

impl Conclusion {
    /// Ratio of the other variant's rate to the baseline's.
    pub(super) fn estimate(&self) -> Option<f64> {
        self.ratio.map(|[ratio, ..]| ratio)
    }

    /// Formats the conclusion as a line of the check's table.
    pub(super) fn figure(&self, seed: u64) -> CheckFigure {
        CheckFigure::shown(format!("experiment {seed}"), self.found())
    }

    /// Width of the ratio's interval on the logarithmic scale.
    pub(super) fn width(&self) -> Option<f64> {
        self.ratio.map(|[_, low, high]| (high / low).ln())
    }

    pub(super) fn found(&self) -> String {
        let ratio = match self.ratio {
            Some([ratio, low, high]) => format!("{ratio:.3} ({low:.3} to {high:.3})"),
            None => "no ratio".to_string(),
        };
        let mut found = format!("{}, {ratio}, {} blocks", self.verdict, self.blocks);
        if !self.findings.is_empty() {
            found.push_str(&format!(" [{}]", self.findings.join(" ")));
        }
        found
    }
}

/// Runs the experiments in sequence, each with its number as the seed.
pub(super) fn run(prony: &Prony, prices: OriginCosts) -> Result<Vec<Conclusion>, String> {
    let folder = ExperimentFolder::new(prony, prices, ExperimentLoad::default())?;
    let mut concluded = Vec::new();
    for seed in 1..=EXPERIMENTS {
        let said = folder.compare(prony, &seed.to_string(), seed, &[])?;
        println!("experiment {seed}: {}", said.found());
        concluded.push(said);
    }
    Ok(concluded)
}

/// A temporary folder with a plan and the results of its runs.
pub(super) struct ExperimentFolder(TemporaryFolder);

impl ExperimentFolder {
    pub(super) fn new(
        prony: &Prony,
        prices: OriginCosts,
        load: ExperimentLoad,
    ) -> Result<ExperimentFolder, String> {
        let folder = TemporaryFolder::new()?;
        let plan = plan_text(prony.path(), prices, load);
        fs::write(folder.path.join("plan.toml"), plan).map_err(|e| e.to_string())?;
        Ok(ExperimentFolder(folder))
    }

    /// Runs the plan once.
    pub(super) fn compare(
        &self,
        prony: &Prony,
        name: &str,
        seed: u64,
        args: &[&str],
    ) -> Result<Conclusion, String> {
        let (plan, out) = (
            self.0.path.join("plan.toml"),
            self.0.path.join(format!("out-{name}")),
        );
        let (plan, out_arg) = (plan.to_string_lossy(), out.to_string_lossy());
        let seed = seed.to_string();
        let mut all = vec!["compare", &plan, "--out", &out_arg, "--seed", &seed];
        all.extend(args);
        // Exit status 1: the experiment is complete and a verdict is withheld, which is a valid
        // result.
        prony.run(&all, &[0, 1])?;
        read_json(&out.join("verdict.json"))
    }
}

/// The plan, in which the variants differ only in the cost of a request.
fn plan_text(prony: &Path, prices: OriginCosts, load: ExperimentLoad) -> String {
    let OriginCosts { base, other, unit } = prices;
    let (option, unit) = unit.option();
    let ExperimentLoad {
        connections,
        coalesces,
    } = load;
    let no_coalescing = !coalesces;
    let program = Value::from(prony.to_string_lossy());
    format!(
        r#"name     = "known-prices"
question = "Is a known difference in the cost of a request detected?"
baseline = {{ price = "base" }}

[trials]
blocks   = {{ min = 5, max = 15 }}
warmup   = "500ms"
duration = "2s"

[factors]
price = [{{ name = "base", cost = {base} }}, {{ name = "other", cost = {other} }}]

[service.origin]
command = [{program}, "origin", "--listen", "{{{{ origin.address }}}}", "{option}", "{{{{ price.cost }}}}{unit}"]
cores   = "0"

[load]
target      = "origin"
model       = "closed"
connections = {connections}
no_coalescing = {no_coalescing}
cores       = "1"
"#
    )
}

fn read_json(path: &Path) -> Result<Conclusion, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let verdict: Value =
        serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    concluded(&verdict).ok_or_else(|| {
        format!(
            "{}: comparison of rate_per_s is \
        missing",
            path.display()
        )
    })
}

fn concluded(verdict: &Value) -> Option<Conclusion> {
    let comparison = verdict
        .get("comparisons")?
        .as_array()?
        .iter()
        .find(|c| c.get("metric").and_then(Value::as_str) == Some("rate_per_s"))?;
    let number = |key: &str| comparison.get(key).and_then(Value::as_f64);
    let findings = verdict
        .get("findings")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    Some(Conclusion {
        verdict: comparison.get("verdict")?.as_str()?.to_string(),
        ratio: number("ratio")
            .zip(number("low"))
            .zip(number("high"))
            .map(|((r, l), h)| [r, l, h]),
        blocks: verdict.get("blocks")?.as_u64()?,
        findings: findings
            .iter()
            .filter_map(|f| f.get("id").and_then(Value::as_str))
            .map(str::to_string)
            .collect(),
    })
}

/// A temporary folder, removed on drop.
pub(super) struct TemporaryFolder {
    pub(super) path: PathBuf,
}

impl TemporaryFolder {
    pub(super) fn new() -> Result<TemporaryFolder, String> {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("prony-verify-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(TemporaryFolder { path })
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_is_toml_and_differs_in_the_price_alone() {
        let text = plan_text(
            Path::new("/opt/a \"b\"/prony"),
            OriginCosts {
                base: 5_000,
                other: 5_600,
                unit: CostUnit::Rounds,
            },
            ExperimentLoad {
                connections: 64,
                coalesces: false,
            },
        );
        let plan: toml::Table = text.parse().unwrap();
        let levels = plan["factors"]["price"].as_array().unwrap();
        assert_eq!(plan["load"]["connections"].as_integer(), Some(64));
        assert_eq!(plan["load"]["no_coalescing"].as_bool(), Some(true));
        assert_eq!(levels[0]["cost"].as_integer(), Some(5_000));
        assert_eq!(levels[1]["cost"].as_integer(), Some(5_600));
        let command = plan["service"]["origin"]["command"].as_array().unwrap();
        assert_eq!(command[0].as_str(), Some("/opt/a \"b\"/prony"));
        assert_eq!(command.last().unwrap().as_str(), Some("{{ price.cost }}"));
    }

    #[test]
    fn a_verdict_is_read_with_its_findings() {
        let verdict = serde_json::json!({
            "blocks": 6,
            "comparisons": [
                {"metric": "p99_us", "verdict": "undecided"},
                {"metric": "rate_per_s", "verdict": "slower", "ratio": 0.909, "low": 0.9, "high": 0.92},
            ],
            "findings": [{"id": "noisy-machine", "severity": "warning", "text": ""}],
        });
        let said = concluded(&verdict).unwrap();
        let figure = said.figure(3);
        assert_eq!(figure.name, "experiment 3");
        assert_eq!(
            figure.found,
            "slower, 0.909 (0.900 to 0.920), 6 blocks [noisy-machine]"
        );
        assert_eq!(
            concluded(&serde_json::json!({"comparisons": [], "blocks": 5})),
            None
        );
    }
}
