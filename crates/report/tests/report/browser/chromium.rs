//! A headless Chromium, controlled with the DevTools protocol over a pipe.
//!
//! Each message is JSON and ends with a zero byte. The browser reads messages from file descriptor
//! 3 and replies on file descriptor 4. It runs in a temporary folder, to which it writes all of its
//! files.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Maximum time for a reply from the browser. It is long because the machine may be busy.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// Switches that disable the browser's messages and network access, and allow it to run as root.
const SWITCHES: [&str; 13] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
];

pub(crate) struct Chromium {
    child: Child,
    to_browser: Option<ChildStdin>,
    from_browser: Receiver<Value>,
    last_id: u64,
    session: String,
    events: Vec<Value>,
    folder: TempDir,
}

/// The browser's path: the first known name that is installed.
fn installed() -> PathBuf {
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let folders: Vec<PathBuf> = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect())
        .unwrap_or_default();
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| path.is_file())
        .unwrap_or_else(|| {
            panic!(
                "no Chromium is installed (looked for {}): `cargo xtask test` installs it, or on \
                 Debian `apt-get install chromium`",
                names.join(", ")
            )
        })
}

impl Chromium {
    pub(crate) fn start() -> Chromium {
        let folder = tempfile::Builder::new()
            .prefix("prony-browser-")
            .tempdir()
            .unwrap();
        // The shell moves the pipes to the file descriptors that the browser expects.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null", "sh"])
            .arg(installed())
            .args(SWITCHES)
            .arg(format!(
                "--user-data-dir={}",
                folder.path().join("profile").display()
            ))
            .arg("about:blank")
            .env("HOME", folder.path())
            .env("TMPDIR", folder.path())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_CACHE_HOME")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let replies = BufReader::new(child.stdout.take().unwrap());
        let (send, from_browser) = channel();
        // The thread reads the browser's pipe, so it ends with the browser.
        std::thread::spawn(move || {
            for message in replies.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).unwrap_or(Value::Null);
                if send.send(message).is_err() {
                    break;
                }
            }
        });
        let mut chromium = Chromium {
            to_browser: child.stdin.take(),
            child,
            from_browser,
            last_id: 0,
            session: String::new(),
            events: Vec::new(),
            folder,
        };
        chromium.attach();
        chromium
    }

    /// Opens one page and subscribes to all events that report problems.
    fn attach(&mut self) {
        let target = self.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = self.call(
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        );
        self.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
    }

    /// Sends a command and waits for its result.
    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let pipe = self.to_browser.as_mut().unwrap();
        pipe.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let reply = self.next();
            if reply["id"] == json!(self.last_id) {
                assert!(reply.get("error").is_none(), "{method}: {reply}");
                return reply["result"].clone();
            }
            self.events.push(reply);
        }
    }

    #[track_caller]
    fn next(&mut self) -> Value {
        self.from_browser
            .recv_timeout(REPLY_TIMEOUT)
            .expect("the browser did not reply (check that it starts from a shell)")
    }

    /// Loads a page with this window size and color scheme, and returns all events until it has
    /// loaded.
    pub(crate) fn open(
        &mut self,
        url: &str,
        (width, height): (u32, u32),
        scheme: &str,
    ) -> Vec<Value> {
        // Windows have a minimum width, but emulated screens don't.
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}),
        );
        let scheme = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": scheme}));
        self.events.clear();
        self.call("Page.navigate", json!({"url": url}));
        let is_loaded = |event: &Value| event["method"] == "Page.loadEventFired";
        while !self.events.iter().any(is_loaded) {
            let event = self.next();
            self.events.push(event);
        }
        // Events that the page causes after loading arrive before this reply.
        self.evaluate("document.fonts.ready.then(() => 1)");
        std::mem::take(&mut self.events)
    }

    /// Evaluates a JavaScript expression in the page and returns its value.
    #[track_caller]
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let result = self.call(
            "Runtime.evaluate",
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true}),
        );
        assert!(result.get("exceptionDetails").is_none(), "{result}");
        result["result"]["value"].clone()
    }

    /// Ends the browser, and returns its processes that are still running.
    pub(crate) fn close(mut self) -> Vec<String> {
        self.end();
        processes_naming(&self.folder.path().display().to_string())
    }

    fn end(&mut self) {
        let Some(mut pipe) = self.to_browser.take() else {
            return;
        };
        let message = json!({"id": 0, "method": "Browser.close"});
        let _ = pipe.write_all(format!("{message}\0").as_bytes());
        // The browser ends when its pipe is closed, even if it ignored the command.
        drop(pipe);
        for _ in 0..100 {
            let ended = !matches!(self.child.try_wait(), Ok(None));
            if ended && processes_naming(&self.folder.path().display().to_string()).is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        self.end();
    }
}

/// Lists the processes whose arguments contain the name of `folder`.
fn processes_naming(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|arguments| String::from_utf8_lossy(&arguments).replace('\0', " "))
        .filter(|arguments| arguments.contains(folder))
        .collect()
}
