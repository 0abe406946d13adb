//! Emulates siege's arguments and output. Virtual users request a list of URLs, store cookies,
//! follow redirects, and fetch the parts of pages.

mod arguments;
mod challenge;
mod clock;
mod listed;
mod log;
mod notation;
mod page;
mod rc;
mod report;
mod request;
mod response;
mod script;
mod settings;
mod shown;
mod tally;
mod url;
mod user;
mod variables;
mod verbose;

pub(crate) use notation::NOTATION;

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use prony_load::{HttpProxy, HttpVersion, LoadSettings, LoadSpec, SettingsError, SpecError};

use self::arguments::SiegeArguments;
use self::listed::{ListedRequest, Method, UrlFile};
use self::rc::RcFile;
use self::report::SiegeReport;
use self::request::RequestForm;
use self::script::SiegeDirector;
use self::settings::SiegeSettings;
use self::user::SharedSettings;
use self::verbose::LinePrinter;
use crate::output::{complain, print, print_error};
use crate::session::{self, ToolEnding, ToolSession};
use crate::tool::{Tool, openssl_groups};

/// Duration of a load without a limit on time or repetitions: fifty years.
const UNLIMITED_DURATION: Duration = Duration::from_secs(50 * 365 * 86_400);

/// Runs siege's front end; see [`crate::Tool::run`].
pub(crate) fn run(arguments: &[OsString], session: &ToolSession) -> ToolEnding {
    match prepare(arguments) {
        Ok(PreparedRun::Printed) => ToolEnding::Done,
        Ok(PreparedRun::Load(shared)) => besiege(&shared, session),
        Err(error) => session::report_error(&error, Tool::Siege),
    }
}

/// Outcome of processing the arguments.
enum PreparedRun {
    /// The requested text has been printed, and no load runs.
    Printed,
    /// A load to run.
    Load(Box<SharedSettings>),
}

fn prepare(words: &[OsString]) -> Result<PreparedRun, SpecError> {
    let arguments = SiegeArguments::parse(words)?;
    let last = |letter: char| arguments.flags.iter().rev().find(|flag| flag.0 == letter);
    if last('V').is_some() {
        print_error(&format!("{}\n", shown::version()));
        return Ok(PreparedRun::Printed);
    }
    if last('h').is_some() {
        print_error(&format!("{}\n", shown::version()));
        print(shown::usage());
        return Ok(PreparedRun::Printed);
    }
    let named_file = last('R').and_then(|(_, file)| file.as_deref());
    let mut rc = RcFile::load(named_file.map(Path::new))?;
    rc.settings.type_over(&arguments.flags)?;
    for remark in &rc.remarks {
        complain("siege", remark);
    }
    let mut operands = arguments.operands;
    if let Some(url) = operands.pop() {
        rc.settings.url = Some(url);
    }
    for unused in operands {
        complain(
            "siege",
            &format!("\"{unused}\" is not used: the URL is the last argument"),
        );
    }
    if let Some(conflict) = rc.settings.settle() {
        print_error(&format!("{conflict}\n"));
    }
    if last('C').is_some() {
        print(&shown::configuration(&rc));
        return Ok(PreparedRun::Printed);
    }
    shared_settings(rc.settings).map(|shared| PreparedRun::Load(Box::new(shared)))
}

/// Reads the list of URLs and prepares the load.
fn shared_settings(settings: SiegeSettings) -> Result<SharedSettings, SpecError> {
    let list = match &settings.url {
        Some(url) => {
            let mut wanted = ListedRequest::parse(url, settings.escape)?;
            if settings.get && wanted.method == Method::Get {
                wanted.method = settings.get_method;
            }
            vec![wanted]
        }
        None if settings.get => {
            print("ERROR: -g/--get requires a commandline URL\n");
            let error = SettingsError::from("-g/--get requires a commandline URL");
            return Err(error.into());
        }
        None => {
            let file = UrlFile::read(&settings.file, settings.escape)?;
            for remark in &file.remarks {
                complain("siege", remark);
            }
            file.wanted
        }
    };
    if list.is_empty() {
        let error = SettingsError::from("the file contains no URLs").hint("write one per line");
        return Err(error.at(settings.file.display().to_string()).into());
    }
    let logins = settings
        .login_urls
        .iter()
        .map(|url| ListedRequest::parse(url, settings.escape).map(Arc::new))
        .collect::<Result<_, SettingsError>>()
        .map_err(|error| error.at("login-url"))?;
    Ok(SharedSettings {
        list: list.into_iter().map(Arc::new).collect(),
        logins,
        settings,
    })
}

/// Returns the engine's settings for the load. A script provides the requests.
fn engine_settings(settings: &SiegeSettings) -> Result<LoadSettings, SettingsError> {
    let timeout = Duration::from_secs(settings.timeout_s.max(1));
    if settings.key.is_some() && settings.certificate.is_none() {
        return Err("ssl-key needs an ssl-cert".into());
    }
    let proxy_login = settings
        .proxy_login()
        .map(|login| format!("{}:{}", login.name, login.password));
    let proxy = settings.proxy_host.as_ref().map(|host| {
        let address = if host.contains(':') {
            format!("[{host}]:{}", settings.proxy_port)
        } else {
            format!("{host}:{}", settings.proxy_port)
        };
        let proxy: HttpProxy = address
            .parse()
            .map_err(|error: SettingsError| error.at("proxy-host"))?;
        Ok::<_, SettingsError>(match proxy_login {
            Some(login) => proxy.with_login(login),
            None => proxy,
        })
    });
    Ok(LoadSettings {
        proxy: proxy.transpose()?,
        connections: Some(settings.users),
        duration: Some(
            settings
                .time_s
                .map_or(UNLIMITED_DURATION, Duration::from_secs),
        ),
        http: Some(if settings.http11 && !settings.get && !settings.print {
            HttpVersion::Http11
        } else {
            HttpVersion::Http10
        }),
        path_as_is: true,
        no_keepalive: !settings.keep_alive,
        timeout: Some(timeout),
        connect_timeout: Some(timeout),
        // Like siege, don't verify certificates.
        insecure: true,
        groups: openssl_groups(),
        cert: settings.certificate.clone(),
        // The file with the certificate may also contain the key.
        key: settings.key.clone().or(settings.certificate.clone()),
        ciphers: settings
            .ciphers
            .iter()
            .flat_map(|list| list.split([':', ',']).map(str::to_owned))
            .collect(),
        ..LoadSettings::from_environment()
    })
}

fn besiege(shared: &SharedSettings, session: &ToolSession) -> ToolEnding {
    let settings = &shared.settings;
    let resolved = RequestForm::new(settings)
        .map_err(SpecError::from)
        .and_then(|form| {
            let spec =
                session::resolve_literal(&shared.list[0].url.text(), &engine_settings(settings)?)?;
            check_requests(shared, &form, &spec)?;
            Ok((form, spec))
        });
    let (form, spec) = match resolved {
        Ok(resolved) => resolved,
        Err(error) => return session::report_error(&error, Tool::Siege),
    };
    let is_announced = !settings.get && !settings.quiet;
    if is_announced {
        let end = if settings.verbose { "\n" } else { "" };
        print_error(&format!(
            "** {}\n** Preparing {} concurrent users for battle.\nThe server is now under siege...{end}",
            shown::version(),
            settings.users
        ));
    }
    let printer = LinePrinter::start(verbose::LineFormat::new(settings));
    let siege = SiegeDirector::new(shared, &form, spec.writer(), printer.lines());
    let loaded = session::run_load(session, &spec, Some(&siege), None);
    let tally = siege.into_tally();
    printer.finish();
    let elapsed_s = match loaded {
        Ok(loaded) => loaded.record.totals.elapsed_s,
        Err(error) => return session::report_error(&error, Tool::Siege),
    };
    let is_interrupted = session.stop.is_asked();
    if !settings.quiet && !settings.get && (is_interrupted || settings.time_s.is_some()) {
        print_error("\nLifting the server siege...");
    }
    let report = SiegeReport { tally, elapsed_s };
    print_report(settings, &report);
    session.ending(report.tally.successful > 0)
}

/// Checks that every request of the list can be built. During the load, a request can then fail to
/// be built only if its URL comes from a response.
fn check_requests(
    shared: &SharedSettings,
    form: &RequestForm,
    spec: &LoadSpec,
) -> Result<(), SpecError> {
    let writer = spec.writer();
    for wanted in shared.list.iter().chain(&shared.logins) {
        let bytes = form.write(wanted, None, None);
        let url = wanted.url.text();
        writer
            .raw_to(&url, wanted.method.name(), bytes)
            .map_err(|error| error.at(url.as_str()))?;
    }
    Ok(())
}

/// Prints the report and writes the log file.
fn print_report(settings: &SiegeSettings, report: &SiegeReport) {
    let is_given_up = settings.failures > 0 && report.tally.failed >= settings.failures;
    if settings.json {
        print(&report.json());
    } else if !settings.quiet {
        if is_given_up {
            let begin = if settings.verbose { "" } else { "\n" };
            print_error(&format!(
                "{begin}siege aborted due to excessive socket failure; you\n\
                 can change the failure threshold, failures, in the configuration file\n"
            ));
        }
        print_error(&format!("\n{}", report.text()));
    }
    if !settings.logging {
        return;
    }
    let mut lines = vec![report.log_line(&clock::time())];
    if is_given_up {
        lines.push(log::marked(
            "siege aborted due to excessive socket failure.",
        ));
    }
    let shown = settings.log.display();
    if settings.show_log && !settings.quiet {
        print(&format!(
            "LOG FILE: {shown}\nYou can disable this log file notification by editing\n\
             the configuration file and changing 'show-logfile' to false.\n"
        ));
    }
    if let Err(error) = log::append(&settings.log, settings.mark.as_deref(), &lines) {
        print_error(&format!(
            "[error] unable to create log file: {shown}: {error}\n"
        ));
    }
}
