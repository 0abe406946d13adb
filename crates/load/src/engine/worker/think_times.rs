//! Think times: pauses that the virtual users of a closed loop make between their requests.
//!
//! A pause begins at the end of a request, even if the request failed. The next request is due when
//! the pause is over, so its response time includes any delay by the generator. Users also pause
//! before their first request, so the rate is the same from the start: with constant think times
//! the first requests are spread evenly over one think time, and with exponential ones the first
//! pause is like any other.

use prony_record::Nanos;

use crate::settings::{ThinkDistribution, ThinkTime};
use crate::spec::LoadSpec;
use crate::values::shard::Shard;
use prony_record::random_at;

/// Stage of a virtual user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UserStage {
    /// The user has not sent a request yet.
    New,
    /// The user's request is in flight, or is about to begin.
    Active,
    /// The user's request finished at this time, and the pause has not been scheduled.
    Ended(Nanos),
    /// The user's pause is scheduled.
    Pausing,
}

/// The think times of a worker's virtual users, one per request slot.
pub(super) struct ThinkTimes {
    time: ThinkTime,
    seed: u64,
    /// Index of slot 0's user in the whole load.
    first_user: u64,
    /// Number of users in the whole load.
    all_users: u64,
    /// Stage of each slot's user, and the number of the user's earlier pauses.
    users: Vec<(UserStage, u64)>,
}

impl ThinkTimes {
    /// Creates the think times of a worker with this number of slots; `None` if the load has none.
    pub(super) fn new(spec: &LoadSpec, shard: Shard, slots: usize) -> Option<ThinkTimes> {
        let time = spec.think?;
        let streams = u64::from(spec.transport.protocols.streams);
        let connections = u64::from(spec.connections);
        Some(ThinkTimes {
            time,
            seed: spec.seed,
            first_user: shard.items_before(connections) * streams,
            all_users: connections * streams,
            users: vec![(UserStage::New, 0); slots],
        })
    }

    /// Records the end of a slot's request.
    pub(super) fn request_ended(&mut self, slot: u32, at: Nanos) {
        self.users[slot as usize].0 = UserStage::Ended(at);
    }

    /// Schedules the pause of a slot's user. Returns the end of the pause, or `None` if the user
    /// sends a request now.
    pub(super) fn next_pause(&mut self, slot: u32) -> Option<Nanos> {
        let user = self.first_user + u64::from(slot);
        let (stage, pauses) = &mut self.users[slot as usize];
        let until = match *stage {
            UserStage::Pausing | UserStage::Active => {
                *stage = UserStage::Active;
                return None;
            }
            UserStage::New => match self.time.distribution {
                ThinkDistribution::Constant => {
                    let share = user as f64 / self.all_users.max(1) as f64;
                    Nanos::from(self.time.mean.mul_f64(share))
                }
                ThinkDistribution::Exponential => pause(self.time, self.seed, user, 0),
            },
            UserStage::Ended(at) => {
                *pauses += 1;
                at + pause(self.time, self.seed, user, *pauses)
            }
        };
        *stage = UserStage::Pausing;
        Some(until)
    }
}

/// Length of pause number `number` of a user. It depends only on the arguments, so pauses are
/// reproducible with any number of workers and any response times.
pub(super) fn pause(time: ThinkTime, seed: u64, user: u64, number: u64) -> Nanos {
    let mean = time.mean.as_secs_f64();
    match time.distribution {
        ThinkDistribution::Constant => Nanos::from(time.mean),
        ThinkDistribution::Exponential => {
            let bits = random_at(random_at(seed, user), number);
            // A number in (0, 1], with 53 random bits.
            let uniform = ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64;
            Nanos((-uniform.ln() * mean * 1e9) as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn think(distribution: ThinkDistribution) -> ThinkTime {
        ThinkTime {
            mean: Duration::from_secs(2),
            distribution,
        }
    }

    #[test]
    fn exponential_pauses_have_their_distribution_for_users_and_over_time() {
        let time = think(ThinkDistribution::Exponential);
        for by_user in [true, false] {
            let draw = |i: u64| {
                if by_user {
                    pause(time, 7, i, 1)
                } else {
                    pause(time, 7, 1, i)
                }
            };
            let seconds: Vec<f64> = (0..20_000).map(|i| draw(i).as_secs_f64()).collect();
            let mean = seconds.iter().sum::<f64>() / 20_000.0;
            assert!((mean / 2.0 - 1.0).abs() < 0.03, "{mean}");
            // Expected shares of pauses longer than one, two and three means: e^-1, e^-2 and e^-3.
            for (means, share) in [(1.0, 0.3679), (2.0, 0.1353), (3.0, 0.0498)] {
                let beyond = seconds.iter().filter(|&&s| s > 2.0 * means).count();
                let beyond = beyond as f64 / 20_000.0;
                assert!((beyond - share).abs() < 0.01, "{means}: {beyond}");
            }
        }
        assert_ne!(pause(time, 7, 3, 5), pause(time, 8, 3, 5));
        assert_eq!(pause(time, 7, 3, 5), pause(time, 7, 3, 5));
    }

    #[test]
    fn constant_pauses_have_their_length() {
        let time = think(ThinkDistribution::Constant);
        assert_eq!(pause(time, 7, 3, 5), Nanos::from_secs(2));
    }
}
