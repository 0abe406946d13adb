//! Metrics that a load's record yields without telemetry of the server.

use prony_record::Record;

use crate::metric::Metric;
use crate::trials::Values;

/// Returns true if the metric can be computed from a load's record alone.
pub(crate) fn is_of_record(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::RatePerS
            | Metric::P50Us
            | Metric::P99Us
            | Metric::TlsP50Us
            | Metric::TotalTimeUs
            | Metric::EventsPerS
            | Metric::FirstEventP50Us
            | Metric::FirstEventP99Us
            | Metric::EventGapP50Us
            | Metric::EventGapP99Us
            | Metric::FailedShare
            | Metric::TlsResumedShare
            | Metric::QuicLostShare
            | Metric::EarlyDataShare
            | Metric::JourneysPerS
            | Metric::JourneyP50Us
            | Metric::JourneyP99Us
            | Metric::JourneyFailedShare
            | Metric::GeneratorCpuUsPerRequest
            | Metric::BytesInPerRequest
            | Metric::BodyBytesInPerRequest
            | Metric::ConnectionsPerRequest
            | Metric::TlsHandshakesPerRequest
    )
}

/// Returns the metrics computed from this record alone. A load without a successful request has no
/// rate and no times.
pub fn of_record(record: &Record) -> Values {
    let mut values = Values::new();
    let totals = &record.totals;
    if totals.ok > 0 {
        values.insert(Metric::RatePerS, record.rate.ok_per_s);
        values.insert(Metric::P50Us, record.response_time_us.p50);
        values.insert(Metric::P99Us, record.response_time_us.p99);
    }
    if let Some(journeys) = &record.journeys {
        if journeys.completed > 0 {
            values.insert(Metric::JourneysPerS, journeys.completed_per_s);
            values.insert(Metric::JourneyP50Us, journeys.journey_time_us.p50);
            values.insert(Metric::JourneyP99Us, journeys.journey_time_us.p99);
        }
        if journeys.completed + journeys.failed > 0 {
            values.insert(Metric::JourneyFailedShare, journeys.failed_share());
        }
    }
    if let Some(events) = &record.events
        && events.events > 0
    {
        values.insert(Metric::EventsPerS, events.events_per_s);
        let (first, gap) = (&events.first_event_us, &events.event_gap_us);
        let times = [
            (Metric::FirstEventP50Us, first.p50),
            (Metric::FirstEventP99Us, first.p99),
            (Metric::EventGapP50Us, gap.p50),
            (Metric::EventGapP99Us, gap.p99),
        ];
        // Gaps of events that arrive together are zero, which can't be compared by ratio.
        values.extend(times.into_iter().filter(|(_, time)| *time > 0.0));
    }
    let completed = match &record.journeys {
        Some(journeys) => journeys.completed,
        None => totals.ok,
    };
    // A load with failed requests may have ended sooner than one in which all succeeded.
    if record.load.requests == Some(completed) {
        values.insert(Metric::TotalTimeUs, totals.elapsed_s * 1e6);
    }
    if totals.started > 0 {
        let share = totals.failed as f64 / totals.started as f64;
        values.insert(Metric::FailedShare, share);
    }
    let ended = totals.ok + totals.failed;
    if ended > 0 {
        values.extend(per_request(record, ended as f64));
    }
    if totals.tls_handshakes > 0 {
        let share = totals.tls_resumed as f64 / totals.tls_handshakes as f64;
        values.insert(Metric::TlsResumedShare, share);
        values.insert(Metric::TlsP50Us, record.tls_time_us.p50);
    }
    if let Some(used) = &record.quic {
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let lost = share(used.packets_lost, used.packets_sent);
        values.extend(lost.map(|share| (Metric::QuicLostShare, share)));
        let accepted = share(used.early_data_accepted, used.early_data_offered);
        values.extend(accepted.map(|share| (Metric::EarlyDataShare, share)));
    }
    values
}

/// Returns the load's totals, each divided by the number of completed requests.
fn per_request(record: &Record, ended: f64) -> Values {
    let totals = &record.totals;
    let generator = &record.generator;
    let cpu_s = generator.cpu_user_s + generator.cpu_system_s;
    let mut values = Values::from([
        (Metric::GeneratorCpuUsPerRequest, cpu_s * 1e6 / ended),
        (Metric::BytesInPerRequest, totals.bytes_in as f64 / ended),
        (
            Metric::BodyBytesInPerRequest,
            totals.body_bytes_in as f64 / ended,
        ),
        (
            Metric::ConnectionsPerRequest,
            totals.connections_opened as f64 / ended,
        ),
    ]);
    if record.load.tls.is_some() {
        let handshakes = totals.tls_handshakes as f64 / ended;
        values.insert(Metric::TlsHandshakesPerRequest, handshakes);
    }
    values
}

#[cfg(test)]
mod tests {
    use prony_record::QuicUse;

    use super::*;

    #[test]
    fn quic_shares_exist_only_for_connections_that_used_it() {
        let mut record = Record::default();
        assert!(!of_record(&record).contains_key(&Metric::QuicLostShare));
        record.quic = Some(QuicUse {
            packets_sent: 200,
            packets_lost: 3,
            ..QuicUse::default()
        });
        let values = of_record(&record);
        assert_eq!(values[&Metric::QuicLostShare], 0.015);
        assert!(!values.contains_key(&Metric::EarlyDataShare));
        let used = record.quic.as_mut().unwrap();
        (used.early_data_offered, used.early_data_accepted) = (4, 3);
        assert_eq!(of_record(&record)[&Metric::EarlyDataShare], 0.75);
    }
}
