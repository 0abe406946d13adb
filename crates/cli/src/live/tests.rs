//! Renders pages from fixed states at several terminal sizes, and compares them with the files in
//! `tests/`. `UPDATE_GOLDEN=1 cargo test -p prony live` rewrites those files; review the changes.

use std::fs;
use std::path::Path;
use std::time::Duration;

use prony_experiment::runner::Forecast;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;

use super::agents::AgentStates;
use super::experiment_state::ExperimentState;
use super::{Theme, ViewContext, capacity_page, experiment_page, load_page};
use sample_pages::{DrawnPage, beginning, pages};

mod sample_pages;

const SIZES: [(u16, u16); 4] = [(80, 24), (60, 24), (200, 50), (40, 10)];

/// Draws a page on a terminal of the given size.
fn drawn((width, height): (u16, u16), page: &DrawnPage, theme: Theme) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let messages = ["prony: interrupted; stopping the services and cleaning up".to_owned()];
    let context = ViewContext {
        theme,
        messages: if page.is_stopping() { &messages } else { &[] },
        keys: "q or Ctrl-C: stop, and print the results so far",
    };
    let draw = |frame: &mut ratatui::Frame<'_>| match page {
        DrawnPage::Load(figures) => load_page::draw(frame, figures, &context),
        DrawnPage::Capacity(state) => capacity_page::draw(frame, state, &context),
        DrawnPage::Experiment(state) => experiment_page::draw(frame, state, &context),
    };
    terminal.draw(draw).unwrap();
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width);
    let rows = buffer.content.chunks(width).map(|row| {
        let row: String = row.iter().map(|cell| cell.symbol()).collect();
        row.trim_end().to_owned() + "\n"
    });
    rows.collect()
}

#[test]
fn pages_match_their_reviewed_snapshots() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/live/tests");
    for (name, page) in pages() {
        for size in SIZES {
            let seen = text(&drawn(size, &page, Theme::new(true)));
            let path = folder.join(format!("{name}-{}x{}.txt", size.0, size.1));
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                fs::create_dir_all(&folder).unwrap();
                fs::write(&path, &seen).unwrap();
            }
            let kept = fs::read_to_string(&path).unwrap_or_default();
            assert!(kept == seen, "{} differs:\n{seen}", path.display());
        }
    }
}

#[test]
fn no_size_is_too_small_or_odd() {
    for (name, page) in pages() {
        for width in (1..12).chain([20, 39, 59, 60, 80, 109, 110, 120, 300]) {
            for height in (1..26).chain([60]) {
                let buffer = drawn((width, height), &page, Theme::new(true));
                assert_eq!(buffer.area.width, width, "{name}");
            }
        }
    }
}

#[test]
fn without_colors_the_text_is_the_same() {
    for (name, page) in pages() {
        let colored = drawn((100, 30), &page, Theme::new(true));
        let plain = drawn((100, 30), &page, Theme::new(false));
        assert_eq!(text(&colored), text(&plain), "{name}");
        let colors = |buffer: &Buffer| {
            let mut cells = buffer.content.iter();
            cells.any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
        };
        assert!(!colors(&plain), "{name}");
        assert!(
            colors(&colored)
                || ["experiment-begins", "agents-get-ready", "capacity-begins"].contains(&name)
        );
    }
}

#[test]
fn remaining_time_reaches_zero_and_stays_within_the_budget() {
    let mut state = beginning();
    assert_eq!(state.left().unwrap().1, Duration::from_millis(49_400));
    let mut before = Duration::MAX;
    for trial in 1..=24 {
        state.trials_ended = trial;
        state.elapsed = Duration::from_secs(2) * trial;
        state.trials_took = state.elapsed;
        let (least, most) = state.left().unwrap();
        assert!(
            least <= most && most <= before,
            "{trial}: {least:?} {most:?}"
        );
        assert!(state.elapsed + most <= Duration::from_secs(51) || least == most);
        before = most;
    }
    assert_eq!(before, Duration::ZERO);
    // Blocks that were completed before the resumption don't run again.
    state.resumed = 4;
    state.trials_ended = 4;
    state.trials_took = Duration::from_secs(8);
    state.elapsed = Duration::from_secs(9);
    let seconds = |(least, most): (Duration, Duration)| (least.as_secs(), most.as_secs());
    assert_eq!(seconds(state.left().unwrap()), (0, 23));
}

#[test]
fn the_pre_check_replaces_the_forecast_and_counts_for_no_trial() {
    let seconds = Duration::from_secs;
    let mut state = ExperimentState {
        elapsed: seconds(5),
        budget: None,
        ..beginning()
    };
    state.check_ended(&Forecast {
        variants: 2,
        blocks: (5, 12),
        time: Some((seconds(45), seconds(108))),
        budget: None,
    });
    assert_eq!(state.left(), Some((seconds(45), seconds(108))));
    // The trials of the two variants take 7 s and 2 s.
    for (ended, elapsed, left) in [(1, 12, (38, 101)), (2, 14, (36, 99))] {
        state.elapsed = seconds(elapsed);
        state.trial_ended(String::new());
        assert_eq!(state.trials_ended, ended);
        assert_eq!(state.left(), Some((seconds(left.0), seconds(left.1))));
    }
}

#[test]
fn an_unknown_trial_length_is_not_guessed() {
    let mut state = ExperimentState {
        time: None,
        budget: None,
        ..beginning()
    };
    assert_eq!(state.left(), None);
    // The experiment has 5 to 12 blocks of two trials each, and 4 blocks are complete.
    state.resume(4, Some(Duration::from_secs(20)));
    state.elapsed = Duration::ZERO;
    let seconds = |(least, most): (Duration, Duration)| (least.as_secs(), most.as_secs());
    assert_eq!(state.left().map(seconds), Some((20, 160)));
    state.trials_ended = 1;
    state.trials_took = Duration::from_secs(3);
    state.elapsed = Duration::from_secs(3);
    assert_eq!(state.left().map(seconds), Some((3, 45)));
}

/// Formats the line about agents for a terminal of the given width.
fn agents_line(agents: &AgentStates, width: u16) -> String {
    let line = agents.line(width, Theme::new(false));
    line.spans.iter().map(|span| &*span.content).collect()
}

#[test]
fn names_of_agents_are_shown_if_there_is_space() {
    let mut agents = AgentStates {
        all: 3,
        loading: 2,
        lost: vec!["a-rather-long-name".to_owned()],
        ..AgentStates::default()
    };
    let long = "agents 2 of 3 loading, lost: a-rather-long-name";
    assert_eq!(agents_line(&agents, 47), long);
    assert_eq!(agents_line(&agents, 46), "agents 2 of 3 loading, 1 lost");
    agents.quiet.push(("b".to_owned(), Duration::from_secs(12)));
    assert_eq!(
        agents_line(&agents, 40),
        "agents 2 of 3 loading, 1 lost, 1 quiet"
    );
    assert_eq!(agents_line(&agents, 32), "agents 2 of 3, 1 lost, 1 quiet");
    assert!(agents_line(&agents, 80).ends_with("-name, quiet: b for 12 s"));
    agents = AgentStates::default();
    assert_eq!(agents_line(&agents, 40), "agents being selected");
    agents.all = 3;
    assert_eq!(agents_line(&agents, 40), "agents 3 getting ready");
    agents.ended = 3;
    assert_eq!(agents_line(&agents, 40), "agents 0 of 3 loading");
}
