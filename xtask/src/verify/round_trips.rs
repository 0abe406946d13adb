//! Check: over a link with a round-trip time of 100 ms, each step of a request takes the round trips
//! that its protocol needs. The truth is the difference between 100 ms and 0 ms over the same kind
//! of link, so the time that the computers need cancels out. Needs root.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::experiments::TemporaryFolder;
use super::figures::CheckFigure;
use super::program::Prony;

/// Round-trip time of the slower link, in milliseconds.
const ROUND_TRIP_MS: f64 = 100.0;
/// Tolerance of a difference, relative to a round trip.
const TOLERANCE: f64 = 0.02;
/// Tolerance of the round-trip time that prony measures before a load, in milliseconds.
const LINK_TOLERANCE_MS: f64 = 0.3;
/// Number of trials of each variant. Their median is compared.
const BLOCKS: usize = 3;

/// Runs the loads over both links, and compares the differences with the protocols' round trips.
pub(super) fn run(prony: &Prony) -> Result<Vec<CheckFigure>, String> {
    let prony = &prony.first();
    let folder = TemporaryFolder::new()?;
    let (plan, out) = (folder.path.join("plan.toml"), folder.path.join("out"));
    fs::write(&plan, plan_text(prony.path())).map_err(|e| e.to_string())?;
    let (plan, out_argument) = (plan.to_string_lossy(), out.to_string_lossy());
    // Exit status 1: a verdict is withheld, such as on a noisy machine. The check judges the times.
    prony.run(&["compare", &plan, "--out", &out_argument], &[0, 1])?;
    let mut trials = Vec::new();
    for block in 1..=BLOCKS {
        for variant in VARIANTS {
            let folder = out.join(format!("trials/{block}-{variant}"));
            let record = read_json(&folder.join("record.json"))?;
            let trial = read_json(&folder.join("trial.json"))?;
            trials.push((variant.to_owned(), record, trial));
        }
    }
    figures(&trials)
}

/// Names of the variants in the folder of the experiment.
const VARIANTS: [&str; 6] = [
    "0ms-tls",
    "0ms-quic",
    "0ms-early",
    "100ms-tls",
    "100ms-quic",
    "100ms-early",
];

/// The plan: every request opens a connection.
fn plan_text(prony: &Path) -> String {
    let program = Value::from(prony.to_string_lossy());
    format!(
        r#"name     = "known-round-trips"
question = "Does each step of a request take the round trips that its protocol needs?"
baseline = {{ rtt = "0ms" }}

[trials]
blocks   = {BLOCKS}
warmup   = "1s"
duration = "5s"

[factors]
rtt     = ["0ms", "100ms"]
request = [
    {{ name = "tls", http = "1.1", early = false, listener = "https" }},
    {{ name = "quic", http = "3", early = false, listener = "quic" }},
    {{ name = "early", http = "3", early = true, listener = "quic" }},
]

[place.clients]
[place.server]

[link.wan]
between    = ["clients", "server"]
round_trip = "{{{{ rtt }}}}"

[service.origin]
place   = "server"
listen  = {{ https = "tcp", quic = "udp" }}
command = [{program}, "origin", "--listen", "{{{{ origin.https.address }}}}", "--tls", "--quic={{{{ origin.quic.address }}}}"]
cores   = "0"

[load]
place        = "clients"
target       = "origin.{{{{ request.listener }}}}"
http         = "{{{{ request.http }}}}"
early_data   = "{{{{ request.early }}}}"
no_keepalive = true
insecure     = true
connections  = 1
cores        = "1"
"#
    )
}

/// Compares trials: names of variants, records, and results.
fn figures(trials: &[(String, Value, Value)]) -> Result<Vec<CheckFigure>, String> {
    let ms = |variant: &str, metric: &str| {
        let of_variant = trials.iter().filter(|(name, ..)| name == variant);
        let mut values = Vec::new();
        for (_, record, _) in of_variant {
            let pointer = format!("/{metric}/p50");
            let value = record.pointer(&pointer).and_then(Value::as_f64);
            values.push(value.ok_or_else(|| format!("{variant}: {pointer} is missing"))? / 1e3);
        }
        median(values).ok_or_else(|| format!("{variant}: no trial"))
    };
    let added = |request: &str, metric: &str| {
        let slow = ms(&format!("100ms-{request}"), metric)?;
        Ok::<f64, String>(slow - ms(&format!("0ms-{request}"), metric)?)
    };
    let request = added("quic", "response_time_us")?;
    let steps = [
        ("TCP connect", 1.0, added("tls", "connect_time_us")?),
        ("TLS 1.3 handshake", 1.0, added("tls", "tls_time_us")?),
        ("HTTP/3 request on a new connection", 2.0, request),
        (
            "saved by 0-RTT",
            1.0,
            request - added("early", "response_time_us")?,
        ),
    ];
    let mut figures: Vec<CheckFigure> = steps
        .into_iter()
        .map(|(name, round_trips, found)| {
            let tolerance = ROUND_TRIP_MS * TOLERANCE;
            let expected = round_trips * ROUND_TRIP_MS;
            CheckFigure::judged(
                name,
                format!("{expected:.1} ms ± {tolerance:.1}"),
                format!("{found:.2} ms"),
                (found - expected).abs() <= tolerance,
            )
        })
        .collect();
    for (level, planned) in [("0ms", 0.0), ("100ms", ROUND_TRIP_MS)] {
        let of_level = trials.iter().filter(|(name, ..)| name.starts_with(level));
        let measured = of_level.filter_map(|(.., trial)| {
            let value = trial.pointer("/values/link_round_trip_us")?.as_f64()?;
            Some(value / 1e3)
        });
        let Some(found) = median(measured.collect()) else {
            return Err(format!("{level}: no round-trip time was measured"));
        };
        figures.push(CheckFigure::judged(
            &format!("round trip of the link of {level}"),
            format!("{planned:.1} ms ± {LINK_TOLERANCE_MS}"),
            format!("{found:.2} ms"),
            (found - planned).abs() <= LINK_TOLERANCE_MS,
        ));
    }
    Ok(figures)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn read_json(path: &Path) -> Result<Value, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_is_toml_with_a_variant_for_each_folder() {
        let plan: toml::Table = plan_text(Path::new("/opt/prony")).parse().unwrap();
        let names = |factor: &str| -> Vec<String> {
            let levels = plan["factors"][factor].as_array().unwrap().iter();
            let name = |level: &toml::Value| match level.get("name") {
                Some(name) => name.as_str().unwrap().to_owned(),
                None => level.as_str().unwrap().to_owned(),
            };
            levels.map(name).collect()
        };
        let requests = names("request");
        let folders = names("rtt").into_iter().flat_map(|rtt| {
            requests
                .clone()
                .into_iter()
                .map(move |it| format!("{rtt}-{it}"))
        });
        assert!(folders.eq(VARIANTS));
    }

    /// Trials in which TLS takes `tls` round trips.
    fn trials(tls: f64) -> Vec<(String, Value, Value)> {
        let trial = |variant: &&str| {
            let round_trip = match variant.split_once('-').unwrap() {
                ("100ms", _) => 100_000.0,
                _ => 100.0,
            };
            let response = match variant.rsplit_once('-').unwrap().1 {
                "early" => round_trip,
                _ => 2.0 * round_trip,
            };
            let record = serde_json::json!({
                "connect_time_us": {"p50": round_trip},
                "tls_time_us": {"p50": tls * round_trip + 900.0},
                "response_time_us": {"p50": response + 2_000.0},
            });
            let result = serde_json::json!({"values": {"link_round_trip_us": round_trip}});
            ((*variant).to_owned(), record, result)
        };
        VARIANTS.iter().map(trial).collect()
    }

    #[test]
    fn one_round_trip_for_tls_passes_and_two_fail() {
        let judged = |tls| {
            let figures = figures(&trials(tls)).unwrap();
            let failed = figures.iter().filter(|it| it.holds == Some(false));
            failed.map(|it| it.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(judged(1.0), Vec::<String>::new());
        assert_eq!(judged(2.0), ["TLS 1.3 handshake"]);
        assert!(figures(&[]).is_err());
    }
}
