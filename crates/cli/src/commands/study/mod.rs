//! `prony study`: lists, copies and runs the experiments that are embedded in the binary.

mod adapt;
pub(crate) mod built_in_studies;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use include_dir::{Dir, DirEntry};
use prony_experiment::runner::ExperimentFolderError;
use prony_machine::profile::MachineProfile;
use prony_plan::Plan;

use self::adapt::CannotAdapt;
use self::built_in_studies::STUDIES;
use crate::arguments::{StudyArgs, StudyCommand, StudyRunArgs};
use crate::ending::{Ending, Failure};
use crate::experiment::plan_file;
use crate::runs_folder::ResultsFolder;
use crate::{experiment, terminal};

/// Subfolder of an experiment that holds the study's files. The experiment runner uses the same
/// name.
const FOLDER: &str = "study";

/// File name of a study's smaller plan, for machines that can't run the whole study.
const REDUCED: &str = "without-root.toml";

/// Runs `prony study`.
pub(crate) fn run(arguments: &StudyArgs) -> Result<Ending, Failure> {
    match &arguments.command {
        StudyCommand::List => Ok(list()),
        StudyCommand::Show { name } => show(name),
        StudyCommand::Run(run) => run_study(run),
        StudyCommand::Copy { name, dir } => copy(name, dir),
    }
}

fn list() -> Ending {
    let mut lines = String::new();
    let width = STUDIES
        .dirs()
        .map(|study| name_of(study).len())
        .max()
        .unwrap_or(0);
    for study in STUDIES.dirs() {
        lines += &format!("{:width$}  {}\n", name_of(study), question(study));
    }
    terminal::print(&lines);
    Ending::Done
}

fn show(name: &str) -> Result<Ending, Failure> {
    let study = find_study(name)?;
    let (readme, plan) = (file_text(study, "README.md"), file_text(study, "plan.toml"));
    terminal::print(&format!("{}\n\n## plan.toml\n\n{plan}", readme.trim_end()));
    Ok(Ending::Done)
}

fn copy(name: &str, dir: &Path) -> Result<Ending, Failure> {
    let study = find_study(name)?;
    match fs::read_dir(dir).map(|mut entries| entries.next().is_some()) {
        Ok(true) => {
            let what = format!("{} is not empty; name a new folder", dir.display());
            return Err(Failure::wrong(what));
        }
        Ok(false) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(Failure::wrong(format!("{}: {error}", dir.display()))),
    }
    write_files(study, dir)?;
    let plan = dir.join("plan.toml");
    terminal::print(&format!(
        "copied study {name} to {dir}; edit {plan}, then run: prony compare {plan}\n",
        dir = dir.display(),
        plan = plan.display()
    ));
    Ok(Ending::Done)
}

fn run_study(arguments: &StudyRunArgs) -> Result<Ending, Failure> {
    let study = find_study(&arguments.name)?;
    if let Some(dir) = &arguments.run.resume {
        let plan = plan_file::stored_plan(dir)?;
        if !dir.join(FOLDER).is_dir() || plan.question != question(study) {
            return Err(Failure::wrong(format!(
                "{} holds an experiment that is not study {} (prony compare --resume resumes it)",
                dir.display(),
                arguments.name
            )));
        }
        return experiment::run_plan(&plan, dir, arguments.seed, &arguments.run);
    }
    // The plan is checked in a temporary folder, so that a study that can't run leaves no files.
    let scratch = tempfile::Builder::new().prefix("prony-study-").tempdir();
    let scratch = scratch.map_err(Failure::refused)?;
    let plan = unpacked(study, scratch.path(), arguments)?;
    if arguments.run.dry_run {
        return experiment::run_plan(&plan, scratch.path(), arguments.seed, &arguments.run);
    }
    let folder = ResultsFolder::open(arguments.run.out.clone(), name_of(study))?;
    let out = folder.path();
    if fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::wrong(ExperimentFolderError::not_empty(
            out.to_owned(),
        )));
    }
    let plan = unpacked(study, &out.join(FOLDER), arguments)?;
    experiment::run_plan(&plan, out, arguments.seed, &arguments.run)
}

/// Writes a study's files to a folder and reads the plan there. Applies the levels and lengths from
/// the command line, and removes variants that this machine can't run.
fn unpacked(study: &Dir<'_>, into: &Path, arguments: &StudyRunArgs) -> Result<Plan, Failure> {
    let into = std::path::absolute(into).map_err(Failure::refused)?;
    write_files(study, &into)?;
    let path = into.join("plan.toml");
    let adapted = |name: &str| {
        let mut text = file_text(study, name).to_owned();
        for level in &arguments.level {
            text = adapt::with_level(&text, level)?;
        }
        let time = |time: Duration| format!("\"{}us\"", time.as_micros());
        let lengths = [
            ("duration", arguments.duration.map(time)),
            ("warmup", arguments.warmup.map(time)),
            (
                "requests",
                arguments.requests.map(|count| count.to_string()),
            ),
        ];
        for (key, value) in lengths {
            if let Some(value) = value {
                text = adapt::with_length(&text, key, &value);
            }
        }
        adapt::to_machine(&text, &path, &MachineProfile::this())
    };
    let adapted = match adapted("plan.toml") {
        Err(CannotAdapt::Lacks(why)) if study.get_file(study.path().join(REDUCED)).is_some() => {
            let mut reduced = adapted(REDUCED).map_err(Failure::from)?;
            let first = format!("this machine can't run the whole study: {why}");
            let then = format!("running {REDUCED} instead; the README describes the differences");
            reduced.left_out.splice(0..0, [first, then]);
            reduced
        }
        adapted => adapted.map_err(Failure::from)?,
    };
    fs::write(&path, &adapted.text).map_err(|error| Failure::file(path.display(), &error))?;
    let mut plan = Plan::read(&path, MachineProfile::this())
        .map_err(|errors| plan_file::wrong_plan(&errors))?;
    for level in &arguments.level {
        adapted.refuse_lost_level(level, &plan)?;
    }
    plan.notes.splice(0..0, adapted.left_out);
    Ok(plan)
}

fn write_files(dir: &Dir<'_>, into: &Path) -> Result<(), Failure> {
    let failed = |path: &Path, error: std::io::Error| Failure::file(path.display(), &error);
    fs::create_dir_all(into).map_err(|error| failed(into, error))?;
    for entry in dir.entries() {
        match entry {
            // Skip Python's bytecode cache, which isn't part of a study.
            DirEntry::Dir(dir) if dir.path().ends_with("__pycache__") => {}
            DirEntry::Dir(dir) => write_files(dir, &into.join(file_name(dir.path())))?,
            DirEntry::File(file) => {
                let path = into.join(file_name(file.path()));
                fs::write(&path, file.contents()).map_err(|error| failed(&path, error))?;
            }
        }
    }
    Ok(())
}

fn file_name(path: &Path) -> PathBuf {
    path.file_name().map(PathBuf::from).unwrap_or_default()
}

fn find_study(name: &str) -> Result<&'static Dir<'static>, Failure> {
    let known = || STUDIES.dirs().map(name_of).collect::<Vec<_>>().join(", ");
    STUDIES
        .dirs()
        .find(|study| name_of(study) == name)
        .ok_or_else(|| {
            Failure::wrong(format!(
                "no study is called \"{name}\"; the studies are: {}",
                known()
            ))
        })
}

fn name_of<'d>(study: &'d Dir<'_>) -> &'d str {
    study.path().to_str().unwrap_or_default()
}

/// Returns the content of a study's file, or an empty string if the file doesn't exist.
fn file_text<'d>(study: &'d Dir<'_>, name: &str) -> &'d str {
    let file = study.get_file(study.path().join(name));
    file.and_then(|file| file.contents_utf8())
        .unwrap_or_default()
}

fn question(study: &Dir<'_>) -> String {
    let plan: toml::Table = file_text(study, "plan.toml").parse().unwrap_or_default();
    let question = plan.get("question").and_then(toml::Value::as_str);
    question.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_study_has_a_question_a_readme_and_a_plan_that_can_be_read() {
        assert!(STUDIES.dirs().count() > 0);
        for study in STUDIES.dirs() {
            assert!(!question(study).is_empty(), "{}", name_of(study));
            assert!(
                !file_text(study, "README.md").is_empty(),
                "{}",
                name_of(study)
            );
        }
    }

    #[test]
    fn a_study_is_written_unchanged() {
        let scratch = tempfile::tempdir().unwrap();
        let study = find_study("gunicorn-sockets").unwrap();
        write_files(study, scratch.path()).unwrap();
        let plan = fs::read_to_string(scratch.path().join("plan.toml")).unwrap();
        assert_eq!(plan, file_text(study, "plan.toml"));
        assert!(scratch.path().join("shop/wsgi.py").is_file());
    }
}
