//! Responds to authentication challenges: Basic (RFC 7617) and Digest (RFC 7616).

use http_auth::{PasswordClient, PasswordParams};

use super::listed::Method;
use super::settings::SiegeLogin;
use super::url::SiegeUrl;

/// A user's credentials for one server, which requested them with a challenge. They are sent only
/// to that server.
#[derive(Debug)]
pub(super) struct Authentication {
    client: PasswordClient,
    login: (String, String),
    server: SiegeUrl,
}

impl Authentication {
    /// Selects credentials for the challenges from the server in `url`. Returns `None` if no login
    /// or scheme matches.
    pub(super) fn choose(
        challenges: &[&str],
        logins: &[SiegeLogin],
        url: &SiegeUrl,
    ) -> Option<Authentication> {
        let mut builder = PasswordClient::builder();
        for challenge in challenges {
            builder = builder.challenges(challenge);
        }
        let client = builder.build().ok()?;
        let realm = match &client {
            PasswordClient::Basic(client) => client.realm(),
            PasswordClient::Digest(client) => client.realm(),
            _ => "",
        };
        let own = |login: &SiegeLogin| (login.name.clone(), login.password.clone());
        let of_realm = logins
            .iter()
            .find(|login| login.realm.as_deref() == Some(realm));
        let of_all = || logins.iter().find(|login| login.realm.is_none());
        let of_url = || {
            url.login()
                .map(|(name, password)| (name.to_owned(), password.to_owned()))
        };
        let login = of_realm
            .map(own)
            .or_else(of_url)
            .or_else(|| of_all().map(own))?;
        Some(Authentication {
            client,
            login,
            server: url.clone(),
        })
    }

    /// Returns the value of the Authorization header, or `None` if the URL belongs to another
    /// server.
    pub(super) fn header(&mut self, method: Method, url: &SiegeUrl, body: &[u8]) -> Option<String> {
        if !self.server.is_same_server(url) {
            return None;
        }
        let asked = PasswordParams {
            username: &self.login.0,
            password: &self.login.1,
            uri: url.path(),
            method: method.name(),
            body: Some(body),
        };
        // If no header can be computed, the request is sent without one, and the server rejects it
        // again.
        self.client.respond(&asked).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> SiegeUrl {
        SiegeUrl::parse(text, true).unwrap()
    }

    fn header(challenges: &[&str], logins: &[&str], at: &str) -> Option<String> {
        let logins: Vec<SiegeLogin> = logins
            .iter()
            .map(|login| SiegeLogin::parse(login))
            .collect();
        Authentication::choose(challenges, &logins, &url(at))?.header(Method::Get, &url(at), b"")
    }

    #[test]
    fn basic_by_realm_then_url_then_all() {
        let asked = ["Basic realm=\"R\""];
        let own = Some("Basic YTpi".to_owned());
        assert_eq!(header(&asked, &["x:y:Q", "a:b:R"], "http://h.test/"), own);
        assert_eq!(header(&asked, &["x:y:Q", "a:b"], "http://h.test/"), own);
        assert_eq!(header(&asked, &["x:y"], "http://a:b@h.test/"), own);
        assert_eq!(header(&asked, &["x:y:Q"], "http://h.test/"), None);
        assert_eq!(header(&["NTLM"], &["a:b"], "http://h.test/"), None);
    }

    #[test]
    fn digest_counts_its_uses() {
        let asked = ["Digest realm=\"R\", nonce=\"abc\", qop=\"auth\", opaque=\"o\""];
        let login = [SiegeLogin::parse("me:secret:R")];
        let mut authentication =
            Authentication::choose(&asked, &login, &url("http://h.test/")).unwrap();
        let to = url("http://h.test/x?y=1");
        for count in ["nc=00000001", "nc=00000002"] {
            let header = authentication.header(Method::Get, &to, b"").unwrap();
            assert!(
                header.starts_with("Digest username=\"me\", realm=\"R\", uri=\"/x?y=1\""),
                "{header}"
            );
            assert!(header.contains(count), "{header}");
        }
    }

    #[test]
    fn credentials_are_not_sent_to_other_servers() {
        let login = [SiegeLogin::parse("a:b")];
        let mut authentication =
            Authentication::choose(&["Basic realm=\"R\""], &login, &url("http://h.test/")).unwrap();
        assert!(
            authentication
                .header(Method::Get, &url("http://i.test/"), b"")
                .is_none()
        );
        assert!(
            authentication
                .header(Method::Get, &url("https://h.test/"), b"")
                .is_none()
        );
    }
}
