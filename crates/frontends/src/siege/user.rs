//! State of a virtual user: its position in the list, the parts and redirects that it will request,
//! its cookies and its credentials.

use std::sync::Arc;
use std::time::SystemTime;

use prony_load::CookieJar;
use prony_record::Nanos;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::arguments::Repetitions;
use super::challenge::Authentication;
use super::listed::{ListedRequest, Method};
use super::page::PageReferences;
use super::response::ResponseHead;
use super::settings::SiegeSettings;
use super::url::SiegeUrl;

/// Maximum number of consecutive redirects. siege has no limit and eventually crashes.
pub(super) const REDIRECTS_MAX: u32 = 50;

/// Maximum nesting depth of parts of pages. Without this limit, a server that sends its start page
/// for every URL would cause endless nesting.
pub(super) const PART_DEPTH_MAX: u32 = 8;

/// Settings and list of requests that all users share.
#[derive(Debug, Clone)]
pub(super) struct SharedSettings {
    pub(super) settings: SiegeSettings,
    /// List of requests, which is never empty.
    pub(super) list: Vec<Arc<ListedRequest>>,
    /// Login requests. Each user sends one of these before the requests of the list; successive
    /// users send successive ones.
    pub(super) logins: Vec<Arc<ListedRequest>>,
}

/// A request that a user will send.
#[derive(Debug, Clone)]
pub(super) struct UserRequest {
    pub(super) wanted: Arc<ListedRequest>,
    /// Index of the request in the list, if it comes from the list.
    pub(super) listed: Option<usize>,
    /// Number of redirects that led to this request.
    redirects: u32,
    /// Number of attempts at authentication so far.
    tries: u64,
    /// Nesting depth, if the request is for part of a page.
    depth: u32,
}

/// Next action of a user.
#[derive(Debug, Clone)]
pub(super) enum UserAction {
    UserRequest(UserRequest),
    Rest(Nanos),
    Leave,
}

/// A virtual user.
#[derive(Debug)]
pub(super) struct SiegeUser {
    /// Index of the user's next request in the list.
    place: usize,
    /// Number of pages requested so far.
    pages: u64,
    /// True from the request for a page until the pause after the page's parts.
    is_on_page: bool,
    login: Option<Arc<ListedRequest>>,
    /// Request for the target of the redirect in the last response.
    onward: Option<UserRequest>,
    /// Parts of the page that have not been requested yet, in reverse order.
    parts: Vec<PagePart>,
    jar: CookieJar,
    authentication: Option<Authentication>,
    dice: ChaCha8Rng,
}

/// Part of a page, with its [`UserRequest::depth`].
#[derive(Debug, Clone)]
struct PagePart {
    url: SiegeUrl,
    depth: u32,
}

impl SiegeUser {
    /// Creates the user with this number. Each user starts at a different position if the list is
    /// long enough.
    pub(super) fn new(number: u32, shared: &SharedSettings, seed: u64) -> SiegeUser {
        let step = shared.list.len() as u64 / shared.settings.users;
        let place = match shared.settings.reps {
            Repetitions::Once => 0,
            Repetitions::Times(_) | Repetitions::Forever => u64::from(number) * step,
        };
        let logins = &shared.logins;
        let login = logins.get(number as usize % logins.len().max(1)).cloned();
        SiegeUser {
            place: place as usize,
            pages: 0,
            is_on_page: false,
            login,
            onward: None,
            parts: Vec::new(),
            jar: CookieJar::default(),
            authentication: None,
            dice: ChaCha8Rng::seed_from_u64(seed.wrapping_add(u64::from(number))),
        }
    }

    /// Returns the next action. `failures` is the number of failed requests by all users.
    pub(super) fn turn(&mut self, shared: &SharedSettings, failures: u64) -> UserAction {
        if let Some(ask) = self.onward.take() {
            return UserAction::UserRequest(ask);
        }
        if let Some(PagePart { url, depth }) = self.parts.pop() {
            let ask = UserRequest::first(Arc::new(ListedRequest::get(url)), None);
            return UserAction::UserRequest(UserRequest { depth, ..ask });
        }
        let settings = &shared.settings;
        if std::mem::take(&mut self.is_on_page) && settings.delay_s > 0.0 {
            let rest_s = self.dice.random_range(0.0..=settings.delay_s);
            return UserAction::Rest(Nanos::from_secs_f64(rest_s));
        }
        if settings.failures > 0 && failures >= settings.failures {
            return UserAction::Leave;
        }
        if let Some(login) = self.login.take() {
            return UserAction::UserRequest(UserRequest::first(login, None));
        }
        let is_over = match settings.reps {
            Repetitions::Forever => false,
            Repetitions::Times(pages) => self.pages >= pages,
            // With a time limit, the list is repeated until the time is over.
            Repetitions::Once => {
                settings.time_s.is_none() && self.pages >= shared.list.len() as u64
            }
        };
        if is_over {
            return UserAction::Leave;
        }
        let place = self.next_place(shared);
        self.pages += 1;
        self.is_on_page = true;
        UserAction::UserRequest(UserRequest::first(shared.list[place].clone(), Some(place)))
    }

    fn next_place(&mut self, shared: &SharedSettings) -> usize {
        let count = shared.list.len();
        if shared.settings.internet {
            return self.dice.random_range(0..count);
        }
        if self.place >= count {
            self.place = 0;
            if shared.settings.expire_session {
                self.jar.clear();
            }
        }
        self.place += 1;
        self.place - 1
    }

    /// Handles a complete response. Returns a message if its redirect can't be followed.
    pub(super) fn responded(
        &mut self,
        shared: &SharedSettings,
        ask: &UserRequest,
        head: &ResponseHead<'_>,
        body: &[u8],
    ) -> Option<String> {
        let settings = &shared.settings;
        let url = &ask.wanted.url;
        if settings.cookies && !head.set_cookies.is_empty() {
            let now = SystemTime::now();
            for set in &head.set_cookies {
                self.jar.set(set, url.cookie_url(), now);
            }
        }
        if head.status == 401 {
            self.challenged(shared, ask, head);
            return None;
        }
        let mut leads = None;
        if settings.parser && head.is_html && head.status < 300 {
            let page = PageReferences::read(body, head.coding, url, settings.escape);
            let is_left_alone = |part: &SiegeUrl| {
                let host = part.host().to_ascii_lowercase();
                let mut names = settings.left_alone.iter();
                names.any(|name| host.contains(&name.to_ascii_lowercase()))
            };
            let depth = ask.depth + 1;
            let new = page.parts.into_iter().filter(|part| !is_left_alone(part));
            let mut new = new.map(|url| PagePart { url, depth }).peekable();
            if let Some(first) = new.peek().filter(|_| depth > PART_DEPTH_MAX) {
                return Some(format!(
                    "parts: nested more than {PART_DEPTH_MAX} levels deep; {} is not requested",
                    first.url.text()
                ));
            }
            self.parts.extend(new);
            if head.status == 200 && settings.follow {
                leads = page.refresh.map(|to| (to, Method::Get));
            }
        }
        if let (301 | 302 | 303 | 307 | 308, true, Some(location)) =
            (head.status, settings.follow, head.location)
        {
            let method = match head.status {
                307 | 308 => ask.wanted.method,
                _ => Method::Get,
            };
            match url.join(location, settings.escape) {
                Ok(to) => leads = Some((to, method)),
                Err(error) => return Some(format!("redirect: {error}")),
            }
        }
        let (to, method) = leads?;
        if ask.redirects >= REDIRECTS_MAX {
            return Some(format!(
                "redirect: more than {REDIRECTS_MAX} consecutive redirects; {} is not requested",
                to.text()
            ));
        }
        let body = if method.has_body() {
            ask.wanted.body.clone()
        } else {
            Arc::from([])
        };
        let wanted = ListedRequest {
            url: to,
            method,
            body,
        };
        self.onward = Some(UserRequest {
            redirects: ask.redirects + 1,
            depth: ask.depth,
            ..UserRequest::first(Arc::new(wanted), None)
        });
        None
    }

    fn challenged(&mut self, shared: &SharedSettings, ask: &UserRequest, head: &ResponseHead<'_>) {
        let settings = &shared.settings;
        if ask.tries + 1 >= settings.attempts {
            return;
        }
        let authentication =
            Authentication::choose(&head.challenges, &settings.logins, &ask.wanted.url);
        if authentication.is_some() {
            self.authentication = authentication;
            self.onward = Some(UserRequest {
                tries: ask.tries + 1,
                ..ask.clone()
            });
        }
    }

    /// Returns the Authorization header of a request.
    pub(super) fn authorization(&mut self, wanted: &ListedRequest) -> Option<String> {
        let authentication = self.authentication.as_mut()?;
        authentication.header(wanted.method, &wanted.url, &wanted.body)
    }

    /// Returns the Cookie header of a request.
    pub(super) fn cookie(&self, wanted: &ListedRequest) -> Option<String> {
        if self.jar.is_empty() {
            None
        } else {
            self.jar.header(wanted.url.cookie_url(), SystemTime::now())
        }
    }
}

impl UserRequest {
    fn first(wanted: Arc<ListedRequest>, listed: Option<usize>) -> UserRequest {
        UserRequest {
            wanted,
            listed,
            redirects: 0,
            tries: 0,
            depth: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::SiegeLogin;
    use super::*;

    fn shared(urls: &[&str], change: impl FnOnce(&mut SiegeSettings)) -> SharedSettings {
        let mut settings = SiegeSettings::template();
        settings.users = 1;
        change(&mut settings);
        let wanted = |url: &&str| Arc::new(ListedRequest::parse(url, true).unwrap());
        SharedSettings {
            settings,
            list: urls.iter().map(wanted).collect(),
            logins: Vec::new(),
        }
    }

    fn asked(user: &mut SiegeUser, shared: &SharedSettings) -> UserRequest {
        match user.turn(shared, 0) {
            UserAction::UserRequest(ask) => ask,
            other => panic!("{other:?}"),
        }
    }

    fn shown(ask: &UserRequest) -> String {
        format!("{} {}", ask.wanted.method.name(), ask.wanted.url.path())
    }

    /// Returns the next requests of a user that always receives the same response.
    fn walk(
        user: &mut SiegeUser,
        shared: &SharedSettings,
        head: &str,
        count: usize,
    ) -> Vec<String> {
        let walked = (0..count).map(|_| {
            let ask = asked(user, shared);
            let status = head[9..12].parse().unwrap();
            user.responded(
                shared,
                &ask,
                &ResponseHead::parse(head.as_bytes(), status),
                b"",
            );
            shown(&ask)
        });
        walked.collect()
    }

    const OK: &str = "HTTP/1.1 200 OK\r\n\r\n";

    #[test]
    fn users_start_at_different_positions_of_the_list() {
        let urls = ["a.test/0", "a.test/1", "a.test/2", "a.test/3", "a.test/4"];
        let shared = shared(&urls, |settings| {
            settings.users = 2;
            settings.reps = Repetitions::Times(4);
        });
        let mut one = SiegeUser::new(0, &shared, 0);
        assert_eq!(
            walk(&mut one, &shared, OK, 4),
            ["GET /0", "GET /1", "GET /2", "GET /3"]
        );
        assert!(matches!(one.turn(&shared, 0), UserAction::Leave));
        let mut two = SiegeUser::new(1, &shared, 0);
        assert_eq!(
            walk(&mut two, &shared, OK, 4),
            ["GET /2", "GET /3", "GET /4", "GET /0"]
        );
    }

    #[test]
    fn once_is_the_whole_list_for_each() {
        let shared = shared(&["a.test/0", "a.test/1"], |settings| {
            settings.users = 2;
            settings.reps = Repetitions::Once;
        });
        let mut user = SiegeUser::new(1, &shared, 0);
        assert_eq!(walk(&mut user, &shared, OK, 2), ["GET /0", "GET /1"]);
        assert!(matches!(user.turn(&shared, 0), UserAction::Leave));
    }

    #[test]
    fn in_internet_mode_every_entry_is_requested() {
        let shared = shared(&["a.test/0", "a.test/1", "a.test/2"], |settings| {
            settings.internet = true;
        });
        let mut user = SiegeUser::new(0, &shared, 1);
        let mut counts = [0; 3];
        for _ in 0..600 {
            counts[asked(&mut user, &shared).listed.unwrap()] += 1;
        }
        assert!(counts.iter().all(|&count| count > 140), "{counts:?}");
    }

    #[test]
    fn rests_follow_pages_and_stay_within_the_delay() {
        let shared = shared(&["a.test/0"], |settings| {
            settings.delay_s = 2.0;
            settings.reps = Repetitions::Times(2);
        });
        let mut user = SiegeUser::new(0, &shared, 0);
        for _ in 0..2 {
            asked(&mut user, &shared);
            match user.turn(&shared, 0) {
                UserAction::Rest(rest) => assert!(rest <= Nanos::from_secs(2)),
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(user.turn(&shared, 0), UserAction::Leave));
    }

    #[test]
    fn redirects_are_followed_as_their_status_says() {
        let shared = shared(&["a.test/0 POST x=1"], |_| {});
        for (status, then) in [
            (301, "GET /b"),
            (302, "GET /b"),
            (303, "GET /b"),
            (307, "POST /b"),
            (308, "POST /b"),
            (304, "POST /0"),
        ] {
            let mut user = SiegeUser::new(0, &shared, 0);
            let head = format!("HTTP/1.1 {status} x\r\nLocation: /b\r\n\r\n");
            assert_eq!(
                walk(&mut user, &shared, &head, 2),
                ["POST /0", then],
                "{status}"
            );
        }
    }

    #[test]
    fn redirects_end_and_can_be_refused() {
        let head = "HTTP/1.1 302 x\r\nLocation: /0\r\n\r\n";
        let parsed = ResponseHead::parse(head.as_bytes(), 302);
        let shared = shared(&["a.test/0"], |_| {});
        let mut user = SiegeUser::new(0, &shared, 0);
        let first = asked(&mut user, &shared);
        let mut complaint = user.responded(&shared, &first, &parsed, b"");
        for _ in 0..REDIRECTS_MAX {
            assert_eq!(complaint, None);
            let ask = asked(&mut user, &shared);
            complaint = user.responded(&shared, &ask, &parsed, b"");
        }
        assert!(
            complaint
                .unwrap()
                .starts_with("redirect: more than 50 consecutive redirects")
        );
        assert!(asked(&mut user, &shared).listed.is_some());
        let mut shared = shared;
        shared.settings.follow = false;
        let mut user = SiegeUser::new(0, &shared, 0);
        let ask = asked(&mut user, &shared);
        user.responded(&shared, &ask, &parsed, b"");
        assert!(asked(&mut user, &shared).listed.is_some());
    }

    #[test]
    fn parts_of_a_page_come_before_the_next_page() {
        let shared = shared(&["a.test/0"], |settings| settings.delay_s = 1.0);
        let mut user = SiegeUser::new(0, &shared, 0);
        let ask = asked(&mut user, &shared);
        let head = ResponseHead::parse(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", 200);
        let html = b"<img src=/a><img src=//x.ads.pubsqrd.com/b><img src=/c>";
        user.responded(&shared, &ask, &head, html);
        assert_eq!(shown(&asked(&mut user, &shared)), "GET /c");
        assert_eq!(shown(&asked(&mut user, &shared)), "GET /a");
        assert!(matches!(user.turn(&shared, 0), UserAction::Rest(_)));
    }

    #[test]
    fn a_page_that_is_its_own_part_ends() {
        let shared = shared(&["a.test/"], |settings| {
            settings.reps = Repetitions::Times(1)
        });
        let mut user = SiegeUser::new(0, &shared, 0);
        let head = ResponseHead::parse(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", 200);
        let mut asked = Vec::new();
        let mut complaints = Vec::new();
        while let UserAction::UserRequest(ask) = user.turn(&shared, 0) {
            complaints.extend(user.responded(&shared, &ask, &head, b"<img src=x/y>"));
            asked.push(shown(&ask));
        }
        assert_eq!(asked.len(), 1 + PART_DEPTH_MAX as usize, "{asked:?}");
        assert_eq!(asked[2], "GET /x/x/y");
        assert_eq!(complaints.len(), 1);
        assert!(
            complaints[0].starts_with("parts: nested more than 8 levels deep; "),
            "{complaints:?}"
        );
    }

    #[test]
    fn cookies_are_kept_and_expire_with_the_session() {
        let mut shared = shared(&["a.test/0"], |settings| settings.expire_session = true);
        let head = ResponseHead::parse(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\n\r\n", 200);
        let mut user = SiegeUser::new(0, &shared, 0);
        let ask = asked(&mut user, &shared);
        assert_eq!(user.cookie(&ask.wanted), None);
        user.responded(&shared, &ask, &head, b"");
        assert_eq!(user.cookie(&ask.wanted).as_deref(), Some("a=1"));
        asked(&mut user, &shared);
        assert_eq!(user.cookie(&ask.wanted), None);
        shared.settings.cookies = false;
        user.responded(&shared, &ask, &head, b"");
        assert_eq!(user.cookie(&ask.wanted), None);
    }

    #[test]
    fn the_number_of_authentication_attempts_is_limited() {
        let shared = shared(&["a.test/0"], |settings| {
            settings.attempts = 3;
            settings.logins = vec![SiegeLogin::parse("a:b")];
        });
        let head = ResponseHead::parse(
            b"HTTP/1.1 401 x\r\nWWW-Authenticate: Basic realm=\"r\"\r\n\r\n",
            401,
        );
        let mut user = SiegeUser::new(0, &shared, 0);
        let mut listed = Vec::new();
        for _ in 0..4 {
            let ask = asked(&mut user, &shared);
            listed.push((user.pages, user.authorization(&ask.wanted).is_some()));
            user.responded(&shared, &ask, &head, b"");
        }
        assert_eq!(listed, [(1, false), (1, true), (1, true), (2, true)]);
    }

    #[test]
    fn login_urls_come_first_and_failures_end_it() {
        let mut shared = shared(&["a.test/0"], |settings| settings.failures = 3);
        let login =
            |path: &str| Arc::new(ListedRequest::parse(&format!("a.test/{path}"), true).unwrap());
        shared.logins = vec![login("in1"), login("in2")];
        let mut user = SiegeUser::new(3, &shared, 0);
        assert_eq!(walk(&mut user, &shared, OK, 2), ["GET /in2", "GET /0"]);
        assert!(matches!(user.turn(&shared, 2), UserAction::UserRequest(_)));
        assert!(matches!(user.turn(&shared, 3), UserAction::Leave));
    }
}
