//! Parser of gates. Its errors include the position in the text.

use prony_record::measure::{self, Measure, Relation};

use super::error::GateError;
use super::rule::{Gate, GateLimit, GateReference, GateRule};
use super::scope::GateScope;
use crate::comparison::Verdict;
use crate::metric::{Metric, Scale};
use crate::observable::{self, Observable};

pub(super) fn parse_gate(input: &str, known: &GateScope) -> Result<Gate, GateError> {
    let mut reader = GateParser {
        input,
        at: 0,
        known,
    };
    reader.space();
    let start = reader.at;
    let word = reader.metric_name();
    if word.is_empty() {
        return Err(reader.wrong(
            start..reader.input.len(),
            "expected a metric, a comparison operator and a limit, such as 'p99 of new > baseline + 5%', \
             'failed > 0.1%' or 'verdict is slower'",
        ));
    }
    let (subjects, rule) = match word.as_str() {
        "verdict" if known.is_single_load() => {
            return Err(reader.wrong(start..reader.at, "a single load has no verdict"));
        }
        "verdict" => reader.verdict()?,
        name => {
            let observable = if known.is_single_load() {
                Observable::parse_of_load(name)
            } else {
                Observable::parse(name)
            };
            let observable =
                observable.map_err(|error| reader.wrong(start..reader.at, &error.to_string()))?;
            reader.figure(observable)?
        }
    };
    Ok(Gate {
        input: input.trim().to_owned(),
        subjects,
        rule,
    })
}

/// A parsed subject with its position in the text.
struct GateSubject {
    variants: Vec<usize>,
    from: usize,
    to: usize,
    /// False if the subject was omitted, which means every variant.
    is_named: bool,
}

struct GateParser<'a> {
    input: &'a str,
    at: usize,
    known: &'a GateScope,
}

impl<'a> GateParser<'a> {
    fn rest(&self) -> &'a str {
        &self.input[self.at..]
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Consumes letters, digits, periods and underscores.
    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Parses the name of a metric. `p(99)` is a synonym of `p99`, and `failed(STEP)` counts the
    /// failures of one step. Names of findings may contain hyphens.
    fn metric_name(&mut self) -> String {
        let rest = self.rest();
        let is_name = |c: char| c.is_ascii_alphabetic() || c == '-';
        let end = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
        if let Some(finding) = measure::finding(&rest[..end]) {
            self.at += end;
            return finding.to_string();
        }
        let word = self.word();
        let inner = self
            .rest()
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(')'));
        match inner {
            Some((digits, _)) if word == "p" || word.ends_with(".p") => {
                self.at += digits.len() + 2;
                format!("{word}{}", digits.trim())
            }
            Some((step, _)) if word == "failed" => {
                self.at += step.len() + 2;
                format!("{word}({})", step.trim())
            }
            // `first_event p95` is a synonym of `first_event.p95`.
            _ if measure::is_kind_of_time(word) => {
                let end = self.at;
                self.space();
                let figure = if self.rest().starts_with(['<', '>']) {
                    String::new()
                } else {
                    self.metric_name()
                };
                let name = format!("{word}.{figure}");
                if Measure::parse(&name).is_ok() {
                    return name;
                }
                self.at = end;
                word.to_owned()
            }
            _ => word.to_owned(),
        }
    }

    /// Consumes the next word if it equals `wanted`. Returns true if the word was consumed.
    fn takes(&mut self, wanted: &str) -> bool {
        self.space();
        let before = self.at;
        if self.word() == wanted {
            self.space();
            return true;
        }
        self.at = before;
        false
    }

    fn wrong(&self, place: std::ops::Range<usize>, what: &str) -> GateError {
        GateError {
            input: self.input.to_owned(),
            from: place.start,
            to: place.end,
            what: what.to_owned(),
        }
    }

    /// Returns the range from the current position to the next white space.
    fn here(&self) -> std::ops::Range<usize> {
        let rest = self.rest();
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        self.at..self.at + end
    }

    /// Parses the rest of a gate after `verdict`.
    fn verdict(&mut self) -> Result<(Vec<usize>, GateRule), GateError> {
        let mut metric = None;
        if self.takes("on") {
            let start = self.at;
            let name = self.metric_name();
            metric = observable::metric(&name);
            if metric.is_none() {
                let names: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
                let what = format!(
                    "there is no metric \"{name}\"; verdicts are given on rate, p50, p99 or the \
                        plan's metrics: {}",
                    names.join(", ")
                );
                return Err(self.wrong(start..self.at, &what));
            }
        }
        let subject = self.of()?;
        if !self.takes("is") {
            return Err(self.wrong(
                self.here(),
                "\"is\" is missing, as in 'verdict of new is slower'",
            ));
        }
        let is = !self.takes("not");
        let mut wanted = Vec::new();
        loop {
            let start = self.at;
            let word = self.word();
            wanted.push(match word {
                "faster" => Verdict::Faster,
                "slower" => Verdict::Slower,
                "equivalent" => Verdict::Equivalent,
                "undecided" => Verdict::Undecided,
                "withheld" => Verdict::Withheld,
                _ => {
                    let what = format!(
                        "unknown verdict \"{word}\"; verdicts are faster, slower, equivalent, undecided \
                         and withheld"
                    );
                    return Err(self.wrong(start..self.at, &what));
                }
            });
            if !self.takes("or") {
                break;
            }
        }
        self.end()?;
        Ok((subject.variants, GateRule::Verdict { metric, wanted, is }))
    }

    /// Parses the rest of a gate after the name of an observable.
    fn figure(&mut self, observable: Observable) -> Result<(Vec<usize>, GateRule), GateError> {
        let subject = self.of()?;
        self.space();
        if self.rest().is_empty() && measure::finding(&observable.name).is_some() {
            let (value, is_share) = (0.0, false);
            let rule = GateRule::Figure {
                observable,
                relation: Relation::Above,
                limit: GateLimit::Fixed { value, is_share },
            };
            return Ok((subject.variants, rule));
        }
        let Some((relation, rest)) = Relation::split(self.rest()) else {
            let what = "expected a comparison operator: >, >=, < or <=";
            return Err(self.wrong(self.here(), what));
        };
        self.at = self.input.len() - rest.len();
        self.space();
        let limit = self.limit(&observable, &subject)?;
        let subjects = self.concerned(subject, limit)?;
        let rule = GateRule::Figure {
            observable,
            relation,
            limit,
        };
        Ok((subjects, rule))
    }

    /// Parses the subject: `of …`. If it is omitted, the subject is every variant.
    fn of(&mut self) -> Result<GateSubject, GateError> {
        if !self.takes("of") {
            return Ok(GateSubject {
                variants: (0..self.known.variants.len()).collect(),
                from: self.at,
                to: self.at,
                is_named: false,
            });
        }
        let from = self.at;
        let variants = self.subject()?;
        Ok(GateSubject {
            variants,
            from,
            to: self.at,
            is_named: true,
        })
    }

    fn subject(&mut self) -> Result<Vec<usize>, GateError> {
        let start = self.at;
        if let Some(variants) = self.name()? {
            return Ok(variants);
        }
        let all = 0..self.known.variants.len();
        let word = self.word();
        match word {
            "any" => return Ok(all.collect()),
            "new" if self.known.stored.is_some() => return Ok(all.collect()),
            "new" | "baseline" if !self.known.baseline.is_empty() => {
                let own = |variant: &usize| self.known.counterpart(*variant) == Some(*variant);
                let wanted = word == "baseline";
                return Ok(all.filter(|variant| own(variant) == wanted).collect());
            }
            _ => {}
        }
        self.at = start;
        if let Some(variants) = self.levels()? {
            return Ok(variants);
        }
        let place = self.here();
        let name = &self.input[place.clone()];
        let what = format!("there is no variant \"{name}\"; {}", self.known.names());
        Err(self.wrong(place, &what))
    }

    /// Parses a variant's name: quoted, or the longest name that matches at the current position.
    fn name(&mut self) -> Result<Option<Vec<usize>>, GateError> {
        let rest = self.rest();
        let start = self.at;
        let names = || self.known.all_names().into_iter();
        if let Some(inner) = rest.strip_prefix('"') {
            let Some(end) = inner.find('"') else {
                return Err(self.wrong(start..self.input.len(), "the closing quote is missing"));
            };
            let name = &inner[..end];
            let mut places: Vec<usize> = names()
                .filter(|(_, known)| known == name)
                .map(|(place, _)| place)
                .collect();
            places.dedup();
            self.at += end + 2;
            if places.is_empty() {
                let what = format!("there is no variant \"{name}\"; {}", self.known.names());
                return Err(self.wrong(start..self.at, &what));
            }
            return Ok(Some(places));
        }
        let longest = names()
            .filter(|(_, name)| begins_with_word(rest, name))
            .max_by_key(|(_, name)| name.len());
        Ok(longest.map(|(place, name)| {
            self.at += name.len();
            vec![place]
        }))
    }

    /// Parses `socket=tcp`, or several levels separated by commas.
    fn levels(&mut self) -> Result<Option<Vec<usize>>, GateError> {
        let known = self.known;
        let mut kept: Vec<usize> = (0..known.variants.len()).collect();
        let mut any = false;
        loop {
            let start = self.at;
            let rest = self.rest();
            let factors = known.variants.first().into_iter();
            let mut factors = factors.flat_map(|variant| variant.levels.keys());
            let Some(factor) = factors.find(|factor| {
                let after = rest.strip_prefix(factor.as_str());
                after.is_some_and(|after| after.trim_start().starts_with('='))
            }) else {
                return if any {
                    Err(self.wrong(
                        self.here(),
                        "expected a factor and a level, such as socket=tcp",
                    ))
                } else {
                    Ok(None)
                };
            };
            self.at += rest.find('=').unwrap_or(0) + 1;
            self.space();
            let rest = self.rest();
            let levels = known.variants.iter();
            let mut levels: Vec<&str> = levels
                .filter_map(|variant| variant.levels.get(factor).map(String::as_str))
                .collect();
            levels.dedup();
            let longest = levels
                .iter()
                .filter(|level| begins_with_word(rest, level))
                .max_by_key(|level| level.len());
            let Some(level) = longest else {
                let what = format!(
                    "factor \"{factor}\" has no such level; it has {}",
                    levels.join(", ")
                );
                return Err(self.wrong(start..self.here().end, &what));
            };
            self.at += level.len();
            kept.retain(|&place| {
                known.variants[place].levels.get(factor).map(String::as_str) == Some(*level)
            });
            any = true;
            let after = self.rest().trim_start();
            if !after.starts_with(',') {
                break;
            }
            self.at = self.input.len() - after.len() + 1;
            self.space();
        }
        Ok(Some(kept))
    }

    fn limit(
        &mut self,
        observable: &Observable,
        subject: &GateSubject,
    ) -> Result<GateLimit, GateError> {
        let start = self.at;
        let text = self.rest().trim_end();
        if text.is_empty() {
            return Err(self.wrong(start..self.input.len(), "expected a limit"));
        }
        let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let fixed = match observable.value(&compact) {
            Ok((value, is_share)) => return Ok(GateLimit::Fixed { value, is_share }),
            Err(error) => error.to_string(),
        };
        let factor = self.factor(start)?;
        let is_single_load = self.known.is_single_load();
        let to = if is_single_load {
            None
        } else {
            self.reference(subject)?
        };
        let Some(to) = to else {
            let end = start + text.len();
            // Text that begins with a digit can only be a value, so the error reported is the one
            // from parsing the value.
            let what = if is_single_load || text.starts_with(|c: char| c.is_ascii_digit()) {
                fixed
            } else {
                format!(
                    "{fixed}, nor a reference: baseline{}; {}",
                    match &self.known.stored {
                        Some(label) => format!(", stored ({label})"),
                        None => String::new(),
                    },
                    self.known.names()
                )
            };
            return Err(self.wrong(start..end, &what));
        };
        let (factor, shift) = self.shift(observable, factor)?;
        self.end()?;
        Ok(GateLimit::Relative { to, factor, shift })
    }

    /// Parses a factor before a reference: `0.95 `, `0.95 * ` or `95% of `.
    fn factor(&mut self, start: usize) -> Result<f64, GateError> {
        let rest = self.rest();
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        if end == 0 {
            return Ok(1.0);
        }
        let number = rest[..end]
            .parse::<f64>()
            .ok()
            .filter(|number| *number > 0.0);
        let Some(mut factor) = number else {
            return Err(self.wrong(start..start + end, "a multiplier must be above 0"));
        };
        self.at += end;
        if self.rest().starts_with('%') {
            self.at += 1;
            factor /= 100.0;
            self.takes("of");
        }
        self.space();
        if let Some(rest) = self.rest().strip_prefix(['*', '×']) {
            self.at = self.input.len() - rest.len();
            self.space();
        }
        Ok(factor)
    }

    fn reference(&mut self, subject: &GateSubject) -> Result<Option<GateReference>, GateError> {
        let start = self.at;
        let by_name = self.name()?;
        if let Some(&[place]) = by_name.as_deref() {
            if subject.is_named && subject.variants == [place] {
                return Err(self.wrong(start..self.at, "a limit can't refer to the variant itself"));
            }
            return Ok(Some(GateReference::Variant(place)));
        }
        let word = self.word();
        let stored = self.known.stored.as_deref();
        match word {
            "baseline" if !self.known.baseline.is_empty() => {
                return Ok(Some(GateReference::Baseline));
            }
            // For a load, "baseline" means the stored load. "A" is accepted because earlier
            // versions of `prony report` used it as the name of the first of two runs.
            "baseline" | "stored" | "A" if stored.is_some() => {
                return Ok(Some(GateReference::Stored));
            }
            "baseline" => {
                let what = "a single load has no baseline (name another load with --against)";
                return Err(self.wrong(start..self.at, what));
            }
            "stored" => {
                let what = "there is no stored run to compare with (add --against DIR)";
                return Err(self.wrong(start..self.at, what));
            }
            word if stored == Some(word) && !word.is_empty() => {
                return Ok(Some(GateReference::Stored));
            }
            _ => {}
        }
        self.at = start;
        Ok(match self.levels()?.as_deref() {
            Some(&[place]) => Some(GateReference::Variant(place)),
            Some(_) => {
                let what = "several variants have this level; name one to compare with";
                return Err(self.wrong(start..self.at, what));
            }
            None => None,
        })
    }

    /// Parses a shift after a reference: ` + 5%` changes the factor, ` - 3ms` is an absolute shift.
    fn shift(&mut self, observable: &Observable, factor: f64) -> Result<(f64, f64), GateError> {
        self.space();
        let rest = self.rest();
        let sign = match rest.chars().next() {
            Some('+') => 1.0,
            Some('-' | '−') => -1.0,
            _ => return Ok((factor, 0.0)),
        };
        let mark = rest.chars().next().map_or(0, char::len_utf8);
        self.at += mark;
        self.space();
        let place = self.at..self.input.trim_end().len();
        let text: String = self.rest().chars().filter(|c| !c.is_whitespace()).collect();
        self.at = self.input.len();
        // For values that may be zero, a percentage means percentage points.
        if observable.scale() == Scale::Ratio
            && let Some(percent) = text.strip_suffix('%')
        {
            let percent = percent
                .parse::<f64>()
                .ok()
                .filter(|p| *p >= 0.0 && p.is_finite());
            let grown = percent.map(|percent| factor * (1.0 + sign * percent / 100.0));
            return match grown.filter(|grown| *grown > 0.0) {
                Some(grown) => Ok((grown, 0.0)),
                None => Err(self.wrong(
                    place,
                    "expected a percentage, below 100% if it is subtracted",
                )),
            };
        }
        match observable.value(&text) {
            Ok((value, _)) => Ok((factor, sign * value)),
            Err(error) => Err(self.wrong(place, &error.to_string())),
        }
    }

    /// Returns the variants that a limit applies to. Variants that have no baseline or would be
    /// compared with themselves are excluded.
    fn concerned(&self, subject: GateSubject, limit: GateLimit) -> Result<Vec<usize>, GateError> {
        let GateLimit::Relative { to, .. } = limit else {
            return Ok(subject.variants);
        };
        let has_other = |variant: usize| match to {
            GateReference::Stored => true,
            GateReference::Variant(other) => variant != other,
            GateReference::Baseline => self
                .known
                .counterpart(variant)
                .is_some_and(|against| against != variant),
        };
        let kept: Vec<usize> = subject
            .variants
            .into_iter()
            .filter(|&v| has_other(v))
            .collect();
        if kept.is_empty() {
            let what = "there is nothing to compare this variant with: it is its own baseline, or \
                            has none";
            Err(self.wrong(subject.from..subject.to, what))
        } else {
            Ok(kept)
        }
    }

    fn end(&mut self) -> Result<(), GateError> {
        self.space();
        if self.rest().is_empty() {
            Ok(())
        } else {
            Err(self.wrong(
                self.at..self.input.len(),
                "unexpected text after the end of the condition",
            ))
        }
    }
}

/// Returns true if `rest` begins with `name` as a whole word.
fn begins_with_word(rest: &str, name: &str) -> bool {
    let Some(after) = rest.strip_prefix(name) else {
        return false;
    };
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '=');
    !name.is_empty() && !after.starts_with(is_part)
}
