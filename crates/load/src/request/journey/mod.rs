//! Journeys: the steps that each virtual user takes in order, with what they read from responses.
//!
//! [`Journey`] is the checked form of the settings' steps. The worker asks it which step comes
//! next, and passes it each response.

mod capture;
mod html;
mod json_pointer;

use std::borrow::Cow;
use std::collections::HashSet;

use prony_record::Nanos;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use self::capture::{BodyCheck, CAPTURED_BODY_BYTES_MAX};
pub(crate) use self::capture::{Capture, CaptureFailure, StepResponse};
pub(crate) use self::html::page_parts;
use crate::request::entries::Entries;
use crate::request::grpc::{CallReader, ResponseDecoder};
use crate::request::template::{Value, Variable};
use crate::settings::{JourneyStep, LoadSettings, Repeat, STEPS_MAX, ThinkTime};
use crate::values::error::SettingsError;

/// Name of the entry of the parts of pages.
const PARTS_NAME: &str = "parts of pages";
/// Maximum number of variables in a journey.
const VARIABLES_MAX: usize = 200;

/// The steps of a load's journey.
#[derive(Debug, Clone)]
pub(crate) struct Journey {
    pub(crate) steps: Vec<Step>,
    /// The variables that steps capture, with the parts of requests in which they are used.
    pub(crate) variables: Vec<Variable>,
    /// Names of the variables.
    pub(crate) names: Vec<String>,
    /// Time over which the users begin their first journeys.
    pub(crate) ramp_up: Option<Nanos>,
}

/// A step of a journey. Its request has the same index in the load's list.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) name: String,
    /// Pause after the step.
    pub(crate) think: Option<ThinkTime>,
    when: When,
    pub(crate) repeat: Repeat,
    /// True if each user takes the step only in its first journey.
    pub(crate) once: bool,
    /// The group of adjacent steps with weights that the step belongs to.
    choice: Option<Choice>,
    /// True if the response is read as a stream of events.
    pub(crate) stream: bool,
    /// True if the parts of the page are requested after the step.
    pub(crate) page: bool,
    pub(crate) captures: Vec<Capture>,
    /// Indices of the variables that the request contains.
    pub(crate) needs: Vec<usize>,
    pub(crate) body: Option<BodyCheck>,
    /// Reads the response if the step is a gRPC call.
    decoder: Option<ResponseDecoder>,
}

/// A group of adjacent steps, of which one is chosen.
#[derive(Debug, Clone, Copy)]
struct Choice {
    /// Index of the first step, and the index after the last one.
    steps: (usize, usize),
    /// Sum of the weights before this step, and with it.
    cumulative: (f64, f64),
    /// Sum of all weights of the group.
    total: f64,
}

/// Condition for a step.
#[derive(Debug, Clone, PartialEq)]
enum When {
    Always,
    /// In this share of the journeys, from 0 to 1.
    Share(f64),
    /// If a variable has a value, or does not have one.
    Set {
        variable: usize,
        is_set: bool,
    },
    /// If a variable has this value, or has another one.
    Equal {
        variable: usize,
        text: String,
        is_equal: bool,
    },
}

/// The state of a user that decides about its next step.
pub(crate) trait UserState {
    /// The value of a variable; empty if it has none.
    fn variable(&self, index: usize) -> &[u8];

    /// Returns true if the user has taken a step that is taken once.
    fn has_taken(&self, step: usize) -> bool;
}

impl Journey {
    /// Checks the steps of a load. Returns `None` if the load has none.
    ///
    /// # Errors
    ///
    /// An error that names the step.
    pub(crate) fn new(
        steps: &[JourneyStep],
        settings: &LoadSettings,
        columns: &[String],
    ) -> Result<Option<Journey>, SettingsError> {
        if !settings.has_steps() {
            return Ok(None);
        }
        if steps.is_empty() {
            return Err(SettingsError::about("steps").text("the file contains no step"));
        }
        if steps.len() > STEPS_MAX {
            return Err(SettingsError::about("steps").text(format!(
                "{} steps; a journey has at most {STEPS_MAX}",
                steps.len()
            )));
        }
        check_streams(steps, settings)?;
        let variables = variables(steps, columns)?;
        let names = step_names(steps)?;
        let mut journey = Journey {
            steps: Vec::with_capacity(steps.len()),
            ramp_up: settings.ramp_up.map(Nanos::from),
            variables: Vec::new(),
            names: Vec::new(),
        };
        for (index, (step, name)) in steps.iter().zip(names).enumerate() {
            let within = |error: SettingsError| in_step(step, index, error);
            let captures = step.capture.0.iter().map(|(name, place)| {
                let variable = variables.iter().position(|own| own == name);
                Capture::new(variable.unwrap_or_default(), name, place)
                    .map_err(|error| error.at(format!("capture {name}")))
            });
            journey.steps.push(Step {
                think: match step.think {
                    Some(think) => think.0,
                    None => settings.think,
                },
                when: When::new(step.when.as_deref(), &variables).map_err(within)?,
                repeat: step.repeat.unwrap_or(Repeat { min: 1, max: 1 }),
                once: step.once,
                stream: step.stream,
                page: step.page,
                choice: None,
                needs: Vec::new(),
                captures: captures.collect::<Result<_, _>>().map_err(within)?,
                body: step
                    .expect_body
                    .as_ref()
                    .map(BodyCheck::new)
                    .transpose()
                    .map_err(within)?,
                decoder: None,
                name,
            });
        }
        journey.set_choices(steps)?;
        journey.check_progress()?;
        journey.variables = vec![Variable::default(); variables.len()];
        journey.names = variables;
        Ok(Some(journey))
    }

    /// The steps as the entries of the load.
    pub(crate) fn entries(&self) -> Entries {
        let parts = self.has_pages().then(|| PARTS_NAME.to_owned());
        let names = self.steps.iter().map(|step| step.name.clone());
        Entries::of_steps(names.chain(parts))
    }

    /// Returns true if the parts of a page are requested.
    pub(crate) fn has_pages(&self) -> bool {
        self.steps.iter().any(|step| step.page)
    }

    /// Returns true if users pause between steps.
    pub(crate) fn has_pauses(&self) -> bool {
        self.steps.iter().any(|step| step.think.is_some())
    }

    /// Index of the requests for parts of pages, after those of the steps.
    pub(crate) fn parts_index(&self) -> u32 {
        self.steps.len() as u32
    }

    /// Lets the steps that are gRPC calls read their responses as JSON.
    pub(crate) fn decode_calls(
        &mut self,
        steps: &[JourneyStep],
        calls: Option<&CallReader<'_>>,
    ) -> Result<(), SettingsError> {
        for (step, given) in self.steps.iter_mut().zip(steps) {
            let method = calls.zip(given.grpc.as_ref());
            let method = method.map(|(calls, name)| calls.method(name)).transpose()?;
            step.decoder = method.map(|method| method.decoder());
        }
        Ok(())
    }

    /// Records in which parts of a step's request the variables are used.
    pub(crate) fn note_uses<'v>(&mut self, step: usize, values: impl Iterator<Item = &'v Value>) {
        for value in values {
            if let Value::Composed(composed) = value {
                self.note_uses(step, composed.parts().iter());
            }
            if let Value::Variable(used) = value
                && let Some(variable) = self.variables.get_mut(used.index)
            {
                variable.note_use(*used);
                let needs = &mut self.steps[step].needs;
                if !needs.contains(&used.index) {
                    needs.push(used.index);
                }
            }
        }
    }

    /// Sets the groups of adjacent steps with weights.
    fn set_choices(&mut self, steps: &[JourneyStep]) -> Result<(), SettingsError> {
        let mut first = 0;
        while first < steps.len() {
            let group = steps[first..].iter().map_while(|step| step.weight);
            let weights: Vec<f64> = group.collect();
            let end = first + weights.len();
            let total: f64 = weights.iter().sum();
            let mut before = 0.0;
            for (index, weight) in (first..).zip(&weights) {
                if !(*weight > 0.0 && *weight <= 1e9) {
                    let text = format!("weight {weight}: must be above 0 and at most 1e9");
                    return Err(in_step(&steps[index], index, text.into()));
                }
                self.steps[index].choice = Some(Choice {
                    steps: (first, end),
                    cumulative: (before, before + weight),
                    total,
                });
                before += weight;
            }
            first = end.max(first + 1);
        }
        Ok(())
    }

    /// Checks that each journey takes at least one step. Otherwise, users could repeat journeys
    /// without ever sending a request.
    fn check_progress(&self) -> Result<(), SettingsError> {
        let is_certain = |step: &Step| step.when == When::Always && !step.once;
        let is_certain_choice = |step: &Step| match step.choice {
            Some(choice) => self.steps[choice.steps.0..choice.steps.1]
                .iter()
                .all(is_certain),
            None => is_certain(step),
        };
        if self.steps.iter().any(is_certain_choice) {
            return Ok(());
        }
        let error = SettingsError::about("steps").text("no step is part of every journey");
        Err(error.hint("add a step without when and once"))
    }

    /// Maximum number of bytes of a response's body that the steps read.
    pub(crate) fn body_bytes(&self) -> usize {
        if self.steps.iter().any(Step::reads_body) {
            CAPTURED_BODY_BYTES_MAX
        } else {
            0
        }
    }

    /// Returns true if users keep something from one journey to the next: what they captured in
    /// steps that are taken once, and their cookies.
    pub(crate) fn keeps_users(&self) -> bool {
        self.steps.iter().any(|step| step.once)
    }

    /// Returns the next step of a user at or after `from`; `None` if the journey is complete.
    pub(crate) fn next_step(
        &self,
        mut from: usize,
        user: &impl UserState,
        random: &mut ChaCha8Rng,
    ) -> Option<usize> {
        loop {
            let step = self.steps.get(from)?;
            let (chosen, after) = match step.choice {
                Some(choice) if choice.steps.0 == from => {
                    let drawn = random.random::<f64>() * choice.total;
                    let group = &self.steps[from..choice.steps.1];
                    let is_before = |step: &Step| {
                        step.choice
                            .is_some_and(|choice| choice.cumulative.1 <= drawn)
                    };
                    let chosen = group.partition_point(is_before);
                    (from + chosen.min(group.len() - 1), choice.steps.1)
                }
                // A journey never continues within a group; see `after`.
                Some(_) | None => (from, from + 1),
            };
            let step = &self.steps[chosen];
            let is_due = !(step.once && user.has_taken(chosen)) && step.when.holds(user, random);
            if is_due {
                return Some(chosen);
            }
            from = after;
        }
    }

    /// Index after a step that was taken, and after the other steps of its group.
    pub(crate) fn after(&self, step: usize) -> usize {
        self.steps[step]
            .choice
            .map_or(step + 1, |choice| choice.steps.1)
    }

    /// Draws the number of times that a step is taken.
    pub(crate) fn repeats(&self, step: usize, random: &mut ChaCha8Rng) -> u32 {
        let Repeat { min, max } = self.steps[step].repeat;
        if min == max {
            min
        } else {
            random.random_range(min..=max)
        }
    }
}

impl Step {
    /// Returns true if the bodies of responses to the step are read.
    pub(crate) fn reads_body(&self) -> bool {
        self.page || self.body.is_some() || self.captures.iter().any(Capture::reads_body)
    }

    /// Reads a response: checks its body, and captures values for variables.
    ///
    /// # Errors
    ///
    /// The first check or capture that fails.
    pub(crate) fn read(
        &self,
        variables: &[Variable],
        response: &StepResponse<'_>,
        mut set: impl FnMut(usize, &[u8]),
    ) -> Result<(), CaptureFailure> {
        if self.body.is_none() && self.captures.is_empty() {
            return Ok(());
        }
        let body = match &self.decoder {
            _ if !self.reads_body() => Default::default(),
            None => response.decoded_body(),
            Some(decoder) => decoder
                .json(response.body)
                .map(Cow::Owned)
                .map_err(CaptureFailure::Body)?,
        };
        if let Some(check) = &self.body {
            check.judge(&body, response)?;
        }
        for capture in &self.captures {
            let value = capture.find(&body, response)?;
            variables[capture.variable]
                .check(&value)
                .map_err(|reason| capture.unusable(&value, reason))?;
            set(capture.variable, &value);
        }
        Ok(())
    }
}

impl When {
    fn new(text: Option<&str>, variables: &[String]) -> Result<When, SettingsError> {
        let Some(text) = text.map(str::trim) else {
            return Ok(When::Always);
        };
        if let Some(percent) = text.strip_suffix('%') {
            let share = percent.trim().parse::<f64>().ok();
            let share = share.filter(|share| *share > 0.0 && *share <= 100.0);
            return share
                .map(|share| When::Share(share / 100.0))
                .ok_or_else(|| {
                    format!("when = \"{text}\": a share is above 0% and at most 100%").into()
                });
        }
        let variable = |name: &str| {
            let name = name.trim();
            let found = variables.iter().position(|own| own == name);
            found.ok_or_else(|| {
                SettingsError::from(format!("when = \"{text}\": no step captures \"{name}\""))
                    .hint("write a share such as \"30%\", a variable, or \"VARIABLE == value\"")
            })
        };
        for (operator, is_equal) in [("==", true), ("!=", false)] {
            if let Some((name, value)) = text.split_once(operator) {
                return Ok(When::Equal {
                    variable: variable(name)?,
                    text: value.trim().trim_matches(['"', '\'']).to_owned(),
                    is_equal,
                });
            }
        }
        let (name, is_set) = match text.strip_prefix("not ") {
            Some(name) => (name, false),
            None => (text, true),
        };
        Ok(When::Set {
            variable: variable(name)?,
            is_set,
        })
    }

    fn holds(&self, user: &impl UserState, random: &mut ChaCha8Rng) -> bool {
        match self {
            When::Always => true,
            When::Share(share) => random.random::<f64>() < *share,
            When::Set { variable, is_set } => user.variable(*variable).is_empty() != *is_set,
            When::Equal {
                variable,
                text,
                is_equal,
            } => (user.variable(*variable) == text.as_bytes()) == *is_equal,
        }
    }
}

/// Applies the checks and captures of a step to a response, of which `head` are the status line and
/// the fields. Returns the variables with their values. Cookies are not captured.
///
/// # Errors
///
/// The step is not valid, or a check or a capture failed.
pub fn captures_in(
    step: &JourneyStep,
    head: &[u8],
    body: &[u8],
) -> Result<Vec<(String, String)>, String> {
    let settings = LoadSettings {
        step: vec![step.clone()],
        ..LoadSettings::default()
    };
    let journey =
        Journey::new(&settings.step, &settings, &[]).map_err(|error| error.to_string())?;
    let Some(journey) = journey else {
        return Ok(Vec::new());
    };
    let names = variables(&settings.step, &[]).map_err(|error| error.to_string())?;
    let response = StepResponse {
        head,
        body: &body[..body.len().min(CAPTURED_BODY_BYTES_MAX)],
        length: body.len() as u64,
        cookie: &|_| None,
    };
    let mut values = Vec::new();
    let set = |index: usize, value: &[u8]| {
        let value = String::from_utf8_lossy(value).into_owned();
        values.push((names[index].clone(), value));
    };
    let read = journey.steps[0].read(&journey.variables, &response, set);
    match read {
        Ok(()) => Ok(values),
        Err(CaptureFailure::Body(text) | CaptureFailure::Capture(text)) => Err(text),
    }
}

/// Checks that the steps that are streams have events, and that there is such a step if the load has
/// events.
fn check_streams(steps: &[JourneyStep], settings: &LoadSettings) -> Result<(), SettingsError> {
    let first = steps.iter().position(|step| step.stream);
    match (first, settings.events) {
        (Some(index), None) => {
            let error = SettingsError::from("stream = true needs ").and_value("events", "sse");
            Err(in_step(&steps[index], index, error))
        }
        (None, Some(format)) => {
            let error = SettingsError::value("events", format.name());
            let error = error.text(": no step has stream = true");
            Err(error.hint("add it to the steps whose responses are streams"))
        }
        _ => Ok(()),
    }
}

/// Adds the place of a step to an error: its line, or its number and name.
pub(crate) fn in_step(step: &JourneyStep, index: usize, error: SettingsError) -> SettingsError {
    let place = if step.place.is_empty() {
        let name = step.name.as_ref();
        let name = name.map_or(String::new(), |name| format!(" (\"{name}\")"));
        format!("step {}{name}", index + 1)
    } else {
        step.place.clone()
    };
    SettingsError::about("steps").at(place).append(error)
}

/// Returns the names of the steps: their own, or method and URL.
fn step_names(steps: &[JourneyStep]) -> Result<Vec<String>, SettingsError> {
    let mut used = HashSet::new();
    let mut names = Vec::with_capacity(steps.len());
    for (index, step) in steps.iter().enumerate() {
        let name = match &step.name {
            Some(name) => {
                if name.trim().is_empty() || name.chars().any(char::is_control) {
                    let text = "the name of a step can't be empty or contain control characters";
                    return Err(in_step(step, index, text.into()));
                }
                if steps[..index]
                    .iter()
                    .any(|it| it.name.as_ref() == Some(name))
                {
                    let text = format!("another step has the name \"{name}\"");
                    return Err(in_step(
                        step,
                        index,
                        SettingsError::from(text).hint("rename one"),
                    ));
                }
                name.clone()
            }
            None => match &step.grpc {
                Some(method) => format!("{}{method}", step.url),
                None => format!("{} {}", step.method(), step.url),
            },
        };
        let name = prony_record::truncated(&name, NAME_CHARS_MAX).into_owned();
        let mut unique = name.clone();
        let mut number = 2;
        while !used.insert(unique.clone()) {
            unique = format!("{name} ({number})");
            number += 1;
        }
        names.push(unique);
    }
    Ok(names)
}

/// Maximum length of a step's name, in characters.
const NAME_CHARS_MAX: usize = 100;

/// Returns the names of the variables that the steps capture, in order of their first capture. The
/// variables that have a value before a step are the first ones, as many as
/// [`variables_before`] returns.
pub(crate) fn variables(
    steps: &[JourneyStep],
    columns: &[String],
) -> Result<Vec<String>, SettingsError> {
    let mut names: Vec<String> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        for (name, _) in &step.capture.0 {
            let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
            let cause = if name.is_empty() || !name.chars().all(is_word) {
                "a variable's name consists of letters, digits, _ and -"
            } else if ["seq", "uuid", "random"].contains(&name.as_str()) {
                "this is the name of a function"
            } else if columns.contains(name) {
                "a column of the data file has this name"
            } else if names.len() >= VARIABLES_MAX {
                "the journey has too many variables"
            } else {
                if !names.contains(name) {
                    names.push(name.clone());
                }
                continue;
            };
            let error = SettingsError::from(format!("capture {name}: {cause}"));
            return Err(in_step(step, index, error.hint("choose another name")));
        }
    }
    Ok(names)
}

/// Number of variables that the steps before this one capture.
pub(crate) fn variables_before(steps: &[JourneyStep], index: usize) -> usize {
    let captures = steps[..index].iter().flat_map(|step| &step.capture.0);
    captures.map(|(name, _)| name).collect::<HashSet<_>>().len()
}

impl JourneyStep {
    /// Method of the step's request.
    pub(crate) fn method(&self) -> &str {
        let has_body = self.body.is_some()
            || self.body_file.is_some()
            || !self.form.0.is_empty()
            || !self.multipart.is_empty();
        let default = if has_body { "POST" } else { "GET" };
        self.method.as_deref().unwrap_or(default)
    }
}
