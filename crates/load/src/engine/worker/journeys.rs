//! Journeys: each virtual user takes the steps in order, with its own variables, cookies and data
//! row.
//!
//! ```text
//!  idle ──due──► step ──► pause ──► step ──► … ──► complete ─┐
//!    ▲                     │ a check or a request fails      │
//!    └─────────────────────┴─────────────────────────────────┘
//! ```
//!
//! A user has one request slot. In a closed loop, a journey is due as soon as the user's last one
//! ended; in an open loop, journeys are due on the schedule, and users without a journey are idle
//! until then. The first step is due when the journey is, and each other one when the pause before
//! it ends. Times count from then.

use std::collections::VecDeque;
use std::sync::Arc;

use prony_record::{Exchange, Journey as EndedJourney, JourneyEnd, Nanos, Outcome};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::think_times::pause;
use crate::engine::sequence::RequestNumbers;
use crate::request::RequestParts;
use crate::request::journey::{Journey, Step, UserState};
use crate::request::template::{Variable, VariableValue, VariableValues};
use crate::spec::LoadSpec;
use crate::values::shard::Shard;
use crate::values::url::Url;

/// Index of the random stream that decides about steps.
const RANDOM_STREAM: u64 = 2;

/// The journeys of one worker's users.
pub(super) struct Journeys<'run> {
    journey: &'run Journey,
    users: Vec<JourneyUser>,
    /// Users without a journey, in the order in which they became idle.
    idle: VecDeque<u32>,
    /// Number of users in the middle of a journey.
    active: u32,
    /// Numbers and data rows of the journeys.
    numbers: RequestNumbers,
    random: ChaCha8Rng,
    seed: u64,
    /// Index of slot 0's user in the whole load.
    first_user: u64,
    /// Number of users in the whole load.
    all_users: u64,
    is_open: bool,
}

/// The number and the data row of a journey.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JourneyNumbers {
    pub(super) number: u64,
    pub(super) row: usize,
}

/// Stage of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The user has not begun its first journey.
    New,
    /// The user has no journey. The next one may begin at this time.
    Resting(Nanos),
    /// The user takes this step, `left` more times, at this time.
    Next { step: u16, left: u32, at: Nanos },
    /// The request of this step is in flight, or is about to begin.
    InStep { step: u16, left: u32 },
    /// The user requests the next part of this step's page, at this time.
    NextPart { step: u16, left: u32, at: Nanos },
    /// A request for a part of this step's page is in flight, or is about to begin.
    InPart { step: u16, left: u32 },
}

struct JourneyUser {
    stage: Stage,
    /// Intended start of the journey.
    intended: Nanos,
    /// Sum of the response times of the journey's steps.
    time: Nanos,
    numbers: JourneyNumbers,
    is_settling: bool,
    /// True if the user has taken its data row.
    has_row: bool,
    /// Number of pauses of the user so far.
    pauses: u64,
    /// The steps that the user has taken and takes only once.
    taken: u128,
    /// Values by variable; empty before the first capture.
    variables: Vec<VariableValue>,
    /// The parts of the page that the user has not requested yet.
    page: Option<Box<Page>>,
}

/// The parts of a page that remain to be requested, the next one last.
pub(super) struct Page {
    /// The request for the page.
    pub(super) request: Arc<RequestParts>,
    pub(super) target: u32,
    pub(super) parts: Vec<Url>,
}

impl UserState for JourneyUser {
    fn variable(&self, index: usize) -> &[u8] {
        VariableValues(&self.variables).get(index)
    }

    fn has_taken(&self, step: usize) -> bool {
        self.taken & (1 << step) != 0
    }
}

/// The next action of a user.
pub(super) enum NextAction {
    /// The user takes a step that was due at this time.
    Step { step: u16, due: Nanos },
    /// The user requests a part of a page, which was due at this time.
    Part(Nanos),
    /// The user pauses until this time.
    Pause(Nanos),
    /// The user has no journey.
    Rest,
}

impl<'run> Journeys<'run> {
    /// Creates the users of a worker with this number of slots; `None` if the load is not a
    /// journey.
    pub(super) fn new(spec: &'run LoadSpec, shard: Shard, slots: usize) -> Option<Journeys<'run>> {
        let journey = spec.journey.as_deref()?;
        let streams = u64::from(spec.transport.protocols.streams);
        let connections = u64::from(spec.connections);
        let mut random = ChaCha8Rng::seed_from_u64(spec.seed.wrapping_add(shard.worker));
        random.set_stream(RANDOM_STREAM);
        let rows = spec
            .templates
            .as_ref()
            .map_or(1, |templates| templates.rows());
        let user = || JourneyUser {
            stage: Stage::New,
            intended: Nanos::ZERO,
            time: Nanos::ZERO,
            numbers: JourneyNumbers::default(),
            is_settling: false,
            has_row: false,
            pauses: 0,
            taken: 0,
            variables: Vec::new(),
            page: None,
        };
        Some(Journeys {
            journey,
            users: (0..slots).map(|_| user()).collect(),
            idle: VecDeque::new(),
            active: 0,
            numbers: RequestNumbers::new(spec, shard, rows),
            random,
            seed: spec.seed,
            first_user: shard.items_before(connections) * streams,
            all_users: connections * streams,
            is_open: spec.info.is_open(),
        })
    }

    /// Returns true if a user is in the middle of a journey.
    pub(super) fn are_active(&self) -> bool {
        self.active > 0
    }

    /// Returns true if a user waits for a journey.
    pub(super) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// The values that a user's request contains.
    pub(super) fn values(&self, slot: u32) -> (JourneyNumbers, VariableValues<'_>) {
        let user = &self.users[slot as usize];
        (user.numbers, VariableValues(&user.variables))
    }

    /// Maximum number of bytes that are read of the body of a response to this request.
    pub(super) fn body_bytes(&self, request: u32) -> usize {
        match self.step(request) {
            Some(step) if step.reads_body() => self.journey.body_bytes(),
            Some(_) | None => 0,
        }
    }

    /// Returns the name of a variable that a user's step needs, and that no step has captured.
    pub(super) fn missing_variable(&self, slot: u32, step: u16) -> Option<&'run str> {
        let journey = self.journey;
        let values = VariableValues(&self.users[slot as usize].variables);
        let mut needed = journey.steps[usize::from(step)].needs.iter();
        let missing = needed.find(|index| !values.has(**index))?;
        journey.names.get(*missing).map(String::as_str)
    }

    /// Lets a user without a journey rest at least until this time.
    pub(super) fn rest_until(&mut self, slot: u32, until: Nanos) {
        if let Stage::Resting(at) = &mut self.users[slot as usize].stage {
            *at = until.max(*at);
        }
    }

    /// The step of a request.
    pub(super) fn step(&self, request: u32) -> Option<&'run Step> {
        self.journey.steps.get(request as usize)
    }

    /// Returns true if users keep their cookies from one journey to the next.
    pub(super) fn keeps_cookies(&self) -> bool {
        self.journey.keeps_users()
    }

    /// The variables of the journey.
    pub(super) fn variables(&self) -> &'run [Variable] {
        &self.journey.variables
    }

    /// Takes a user that waits for a journey.
    pub(super) fn take_idle(&mut self) -> Option<u32> {
        self.idle.pop_front()
    }

    /// Makes a user wait for a journey.
    pub(super) fn set_idle(&mut self, slot: u32) {
        self.idle.push_back(slot);
    }

    /// Returns the next action of a user whose slot is free.
    pub(super) fn next(&mut self, slot: u32, now: Nanos) -> NextAction {
        let index = self.first_user + u64::from(slot);
        let user = &mut self.users[slot as usize];
        match user.stage {
            Stage::New => {
                let ramp = self.journey.ramp_up.unwrap_or(Nanos::ZERO);
                let share = index as f64 / self.all_users.max(1) as f64;
                let at = Nanos((ramp.0 as f64 * share) as u64);
                user.stage = Stage::Resting(at);
                if at > now {
                    NextAction::Pause(at)
                } else {
                    NextAction::Rest
                }
            }
            Stage::Resting(at) if at > now => NextAction::Pause(at),
            Stage::Resting(_) => NextAction::Rest,
            Stage::Next { at, .. } if at > now => NextAction::Pause(at),
            Stage::Next { step, left, at } => {
                user.stage = Stage::InStep { step, left };
                NextAction::Step { step, due: at }
            }
            Stage::NextPart { step, left, at } => {
                user.stage = Stage::InPart { step, left };
                NextAction::Part(at)
            }
            // Not reached: the slot of a request in flight is not free.
            Stage::InStep { .. } | Stage::InPart { .. } => NextAction::Rest,
        }
    }

    /// Begins a journey of a user, due at `intended`. Returns its first step.
    pub(super) fn begin(&mut self, slot: u32, intended: Nanos, is_settling: bool) -> u16 {
        let journey = self.journey;
        let user = &mut self.users[slot as usize];
        user.intended = intended;
        user.time = Nanos::ZERO;
        user.is_settling = is_settling;
        user.numbers.number = self.numbers.take_number();
        if !(journey.keeps_users() && user.has_row) {
            user.numbers.row = self.numbers.take_row();
            user.has_row = true;
        }
        if !journey.keeps_users() {
            user.variables.clear();
        }
        let step = journey.next_step(0, user, &mut self.random);
        // A journey has at least one step that is always taken.
        let step = step.unwrap_or(0);
        let left = journey.repeats(step, &mut self.random) - 1;
        user.stage = Stage::InStep {
            step: step as u16,
            left,
        };
        self.active += 1;
        step as u16
    }

    /// Records the end of a slot's request. Returns the journey if the request ended it.
    pub(super) fn request_ended(
        &mut self,
        slot: u32,
        exchange: &Exchange,
        outcome: Outcome,
    ) -> Option<EndedJourney> {
        let journey = self.journey;
        let index = self.first_user + u64::from(slot);
        let user = &mut self.users[slot as usize];
        let (step, left, is_part) = match user.stage {
            Stage::InStep { step, left } => (step, left, false),
            Stage::InPart { step, left } => (step, left, true),
            _ => return None,
        };
        let ended = exchange.ended;
        user.time = user.time + ended.since(exchange.intended);
        let number = usize::from(step);
        // As in a browser, a part that fails does not keep the user from going on.
        let is_ok = outcome == Outcome::Ok || is_part && outcome != Outcome::Unfinished;
        if is_ok && user.page.is_some() {
            let at = ended;
            user.stage = Stage::NextPart { step, left, at };
            return None;
        }
        user.page = None;
        let think = journey.steps[number].think;
        let next_at = match think {
            Some(think) => {
                user.pauses += 1;
                ended + pause(think, self.seed, index, user.pauses)
            }
            None => ended,
        };
        let end = if is_ok {
            if journey.steps[number].once {
                user.taken |= 1 << step;
            }
            let next = match left {
                0 => journey.next_step(journey.after(number), user, &mut self.random),
                _ => Some(number),
            };
            if let Some(next) = next {
                let left = match left {
                    0 => journey.repeats(next, &mut self.random) - 1,
                    left => left - 1,
                };
                user.stage = Stage::Next {
                    step: next as u16,
                    left,
                    at: next_at,
                };
                return None;
            }
            JourneyEnd::Completed
        } else if outcome == Outcome::Unfinished {
            JourneyEnd::Unfinished
        } else {
            JourneyEnd::Failed
        };
        self.active -= 1;
        // In an open loop, the schedule determines when the next journey begins.
        user.stage = Stage::Resting(if self.is_open { ended } else { next_at });
        Some(EndedJourney {
            intended: user.intended,
            ended,
            time: user.time,
            end,
            is_settling: user.is_settling,
        })
    }

    /// Sets the parts of the page that a user requests next.
    pub(super) fn set_page(&mut self, slot: u32, page: Page) {
        self.users[slot as usize].page = Some(Box::new(page));
    }

    /// Removes and returns the next part of a user's page, with the request for the page and its
    /// target.
    pub(super) fn take_part(&mut self, slot: u32) -> Option<(Arc<RequestParts>, u32, Url)> {
        let page = &mut self.users[slot as usize].page;
        let rest = page.as_mut()?;
        let url = rest.parts.pop()?;
        let part = (rest.request.clone(), rest.target, url);
        if rest.parts.is_empty() {
            *page = None;
        }
        Some(part)
    }

    /// Index of the requests for parts of pages.
    pub(super) fn parts_index(&self) -> u32 {
        self.journey.parts_index()
    }

    /// Stores the value of a user's variable.
    pub(super) fn set_variable(&mut self, slot: u32, index: usize, value: &[u8]) {
        let variables = &mut self.users[slot as usize].variables;
        if variables.is_empty() {
            variables.resize_with(self.journey.variables.len(), VariableValue::default);
        }
        variables[index] = Some(value.into());
    }

    /// The journeys of users that are between two steps when the load ends.
    pub(super) fn unfinished(&self, ended: Nanos) -> Vec<EndedJourney> {
        let users = self.users.iter();
        let between =
            users.filter(|user| matches!(user.stage, Stage::Next { .. } | Stage::NextPart { .. }));
        let journeys = between.map(|user| EndedJourney {
            intended: user.intended,
            ended,
            time: user.time,
            end: JourneyEnd::Unfinished,
            is_settling: user.is_settling,
        });
        journeys.collect()
    }
}
