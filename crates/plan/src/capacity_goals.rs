//! Goals and limits of a capacity search, and a check that the limits suffice to judge the goals.

use std::fmt;
use std::time::Duration;

use prony_record::number;
use prony_stats::capacity::{Goal, SearchSettings};

/// The goals and limits of a server's capacity searches.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityGoals {
    /// Conditions that the server must meet.
    pub goals: Vec<Goal>,
    /// Time limit of each search. `None` means one minute, which is extended to at most five
    /// minutes for slow servers, and further for response time goals of about a second or longer.
    pub search_time: Option<Duration>,
    /// Duration of the measured part of each probe, if the user fixes it instead of limiting the
    /// time of the search.
    pub probe: Option<Duration>,
    /// Highest rate to probe, in requests per second.
    pub rate_max: Option<f64>,
}

/// Reason why the goals can't be judged within the limits.
#[derive(Debug, Clone, PartialEq)]
pub enum GoalsRefusal {
    /// Even at the highest rate, a search or probe contains too few requests to judge the goals.
    FewRequests {
        /// Highest rate to probe, in requests per second.
        rate_max: f64,
        /// Number of requests that a probe needs.
        requests: f64,
        /// Duration that a probe needs, in seconds; `None` if probes have no fixed duration.
        probe_s: Option<f64>,
        /// Duration that a search needs, in seconds.
        search_s: f64,
    },
    /// The search is too short for a goal that limits a response time.
    ShortTime {
        /// Duration that a search needs, in seconds.
        search_s: f64,
        /// Lowest rate that a search of this duration can judge, in requests per second.
        rate_min: f64,
    },
}

impl fmt::Display for GoalsRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GoalsRefusal::FewRequests {
                rate_max,
                requests,
                probe_s,
                search_s,
            } => {
                let requests = number::count(*requests as u64);
                write!(
                    f,
                    "a probe needs {requests} requests to judge the goals, but the highest rate is \
                        {} per second; ",
                    number::count(*rate_max as u64)
                )?;
                match probe_s {
                    Some(probe_s) => {
                        write!(f, "use probes of at least {}", number::span(probe_s.ceil()))
                    }
                    None => {
                        write!(
                            f,
                            "use a search of at least {}",
                            number::span(search_s.ceil())
                        )
                    }
                }
            }
            GoalsRefusal::ShortTime { search_s, rate_min } => write!(
                f,
                "a search of this length can't judge the goals at any rate; one of {} can judge \
                 them at {} and more, a longer one also at lower rates",
                number::span(search_s.ceil()),
                number::rate(*rate_min)
            ),
        }
    }
}

impl CapacityGoals {
    /// Returns the number of requests that a probe needs to judge all goals.
    fn requests_min(&self) -> f64 {
        self.goals
            .iter()
            .map(Goal::requests_min)
            .fold(0.0, f64::max)
    }

    /// Returns the settings of one search. `start_at` is the capacity that an earlier search found,
    /// in requests per second.
    pub fn search(&self, seed: u64, start_at: Option<f64>) -> SearchSettings {
        let limit_s = Goal::longest_limit_s(&self.goals);
        let (time_s, time_s_max) = match self.search_time {
            Some(time) => (time.as_secs_f64(), time.as_secs_f64()),
            None => SearchSettings::times_s_for(limit_s),
        };
        SearchSettings {
            requests_min: self.requests_min(),
            limit_s,
            time_s,
            time_s_max,
            probe_s: self.probe.map(|probe| probe.as_secs_f64()),
            rate_max: self.rate_max,
            start_at,
            seed,
        }
    }

    /// Checks that the limits allow enough requests to judge the goals.
    ///
    /// # Errors
    ///
    /// See [`GoalsRefusal`].
    pub fn check(&self) -> Result<(), GoalsRefusal> {
        let settings = self.search(0, None);
        let search_s = settings.time_s_to_judge(f64::INFINITY);
        if settings.probe_s.is_none() && settings.time_s_max < search_s {
            let long_enough = SearchSettings {
                time_s_max: search_s.ceil(),
                ..settings
            };
            return Err(GoalsRefusal::ShortTime {
                search_s,
                rate_min: long_enough.rate_min(),
            });
        }
        match self.rate_max {
            Some(rate_max) if rate_max < settings.rate_min() => Err(GoalsRefusal::FewRequests {
                rate_max,
                requests: settings.requests_min,
                probe_s: settings.probe_s.map(|_| settings.requests_min / rate_max),
                search_s: settings.time_s_to_judge(rate_max),
            }),
            _ => Ok(()),
        }
    }
}
