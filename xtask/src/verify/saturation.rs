//! Check: `generator-saturated` is reported if the generator limits the rate, and is not reported
//! if the server does. The bottleneck of each case is known by construction.

use serde_json::Value;

use super::figures::CheckFigure;
use super::program::Prony;

const FINDING: &str = "generator-saturated";

/// Path of a response that is expensive for the generator, which hashes it, but not for the server.
/// Its content is constant.
const HASHED: &str = "/bytes/100K";
const HASH: [&str; 2] = [
    "--expect-sha256",
    "ac21dd4c7d7cdf932d2600caaf9a344cec997f5f4cc49874211f4f46de3cff8a",
];

/// A load with a known bottleneck.
struct Case {
    name: &'static str,
    /// Additional CPU time of the server per request.
    server_work: Option<&'static str>,
    hashed: bool,
    args: &'static [&'static str],
    /// True if another generator runs on the same core.
    shares_core: bool,
    /// True if the generator is the bottleneck.
    generator: bool,
}

const CASES: &[Case] = &[
    Case {
        name: "slow server, closed loop",
        server_work: Some("200us"),
        hashed: false,
        args: &["-c", "64"],
        shares_core: false,
        generator: false,
    },
    Case {
        name: "slow server, open loop above its capacity",
        server_work: Some("200us"),
        hashed: false,
        args: &["-c", "64", "--rate", "10000"],
        shares_core: false,
        generator: false,
    },
    Case {
        name: "one connection",
        server_work: Some("20us"),
        hashed: false,
        args: &["-c", "1"],
        shares_core: false,
        generator: false,
    },
    Case {
        name: "half the capacity of both",
        server_work: None,
        hashed: false,
        args: &["-c", "64", "--rate", "20000"],
        shares_core: false,
        generator: false,
    },
    Case {
        name: "expensive responses, closed loop",
        server_work: None,
        hashed: true,
        args: &["-c", "64"],
        shares_core: false,
        generator: true,
    },
    Case {
        name: "expensive responses, open loop above the generator's capacity",
        server_work: None,
        hashed: true,
        args: &["-c", "64", "--rate", "100000"],
        shares_core: false,
        generator: true,
    },
    Case {
        name: "another generator on the same core",
        server_work: None,
        hashed: false,
        args: &["-c", "64"],
        shares_core: true,
        generator: true,
    },
];

/// Runs all cases.
pub(super) fn run(prony: &Prony) -> Result<Vec<CheckFigure>, String> {
    CASES.iter().map(|case| measure_case(prony, case)).collect()
}

fn measure_case(prony: &Prony, case: &Case) -> Result<CheckFigure, String> {
    let work: Vec<&str> = match case.server_work {
        Some(time) => vec!["--work", time],
        None => Vec::new(),
    };
    let origin = prony.origin(&work)?;
    let load = |hashed: bool, more: &[&str]| -> Vec<String> {
        let url = origin.url(if hashed { HASHED } else { "/" });
        let mut args = vec!["load", "-t", "1", "--cores", "1", "--progress", "none"];
        args.extend(["--json", "-", &url]);
        if hashed {
            args.extend(HASH);
        }
        args.extend(more);
        args.into_iter().map(str::to_owned).collect()
    };
    let _other_generator = if case.shares_core {
        Some(prony.start(&load(true, &["-c", "64", "-d", "1m"]))?)
    } else {
        None
    };
    let mut args = load(case.hashed, case.args);
    args.extend(["-d", "2s"].map(str::to_owned));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = prony.run(&args, &[0])?;
    let record: Value = serde_json::from_slice(&output.stdout)
        .map_err(|e| format!("the record is not JSON: {e}"))?;
    case_figure(case, &record)
}

fn case_figure(case: &Case, record: &Value) -> Result<CheckFigure, String> {
    let findings = record.pointer("/findings").and_then(Value::as_array);
    let findings = findings.ok_or("findings are missing in the record")?;
    let severity = findings
        .iter()
        .find(|finding| finding["id"] == FINDING)
        .and_then(|finding| finding["severity"].as_str());
    let percent = |name: &str| -> Result<f64, String> {
        let share = record.pointer("/generator").and_then(|g| g[name].as_f64());
        Ok(share.ok_or_else(|| format!("generator/{name} is missing in the record"))? * 100.0)
    };
    Ok(CheckFigure::judged(
        case.name,
        if case.generator {
            "reported"
        } else {
            "not reported"
        }
        .to_owned(),
        format!(
            "{} ({:.0}% busy, {:.0}% without a core, {:.0}% of connections in its queue)",
            severity.unwrap_or("not reported"),
            percent("busy_share")?,
            percent("starved_share")?,
            percent("queue_share")?,
        ),
        severity.is_some() == case.generator,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(findings: Value) -> Value {
        serde_json::json!({
            "generator": {"busy_share": 0.99, "starved_share": 0.0, "queue_share": 0.7},
            "findings": findings,
        })
    }

    #[test]
    fn the_finding_is_expected_exactly_if_the_generator_is_the_limit() {
        let said = record(serde_json::json!([{"id": FINDING, "severity": "error"}]));
        let silent = record(serde_json::json!([{"id": "errors", "severity": "note"}]));
        for case in CASES {
            let holds = |record| case_figure(case, record).unwrap().holds;
            assert_eq!(holds(&said), Some(case.generator), "{}", case.name);
            assert_eq!(holds(&silent), Some(!case.generator), "{}", case.name);
        }
        assert!(case_figure(&CASES[0], &serde_json::json!({})).is_err());
    }
}
