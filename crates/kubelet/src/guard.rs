//! Who may use the kubelet's port.
//!
//! Who speaks is said by a client certificate of the cluster's authority, or by a bearer token that the API server reviews.
//! Who may is decided by the API server, too, and remembered for a while; `system:masters`, as which an API server comes, may
//! everything. Health is for everybody.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::{HeaderMap, Method};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::agent::{Agent, SharedAgent};

/// How long an allowance and a refusal are remembered; upstream's times.
const ALLOWED: Duration = Duration::from_secs(5 * 60);
const REFUSED: Duration = Duration::from_secs(30);
/// Decisions that are remembered.
const REMEMBERED: usize = 1024;
/// The group that may everything.
const MASTERS: &str = "system:masters";

/// Who speaks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct User {
    name: String,
    groups: Vec<String>,
}

impl User {
    /// The common name is the user, each organisation a group.
    fn of_certificate(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let subject = certificate.subject();
        let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
        let groups = subject.iter_organization().filter_map(|part| part.as_str().ok());
        (!name.is_empty()).then(|| Self { name, groups: groups.map(str::to_owned).collect() })
    }
}

/// Why a request is not let through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Nobody knows who asks.
    Unauthorized,
    /// The one who asks may not.
    Forbidden {
        /// What is missing, in words.
        message: String,
    },
}

/// Lets requests of one connection through, or not.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    agent: SharedAgent,
    user: Option<User>,
    decisions: Arc<Decisions>,
}

/// What a user wants to do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    user: User,
    verb: &'static str,
    subresource: &'static str,
}

/// What was decided before.
#[derive(Debug, Default)]
pub(crate) struct Decisions(Mutex<BTreeMap<Question, (bool, Instant)>>);

impl Decisions {
    fn remembered(&self, question: &Question) -> Option<bool> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (allowed, at) = known.get(question)?;
        (at.elapsed() < if *allowed { ALLOWED } else { REFUSED }).then_some(*allowed)
    }

    fn remember(&self, question: Question, allowed: bool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(question, (allowed, Instant::now()));
    }
}

/// What of a node a request is about, most particular first; upstream's names.
fn subresources(path: &str) -> &'static [&'static str] {
    match path.split('/').nth(1).unwrap_or_default() {
        "metrics" => &["metrics"],
        "pods" | "runningpods" => &["pods", "proxy"],
        _ => &["proxy"],
    }
}

fn verb(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "create",
    }
}

impl Guard {
    /// The guard of a connection whose peer showed that certificate (DER), already verified, or none.
    pub(crate) fn of_connection(
        agent: SharedAgent,
        certificate: Option<&[u8]>,
        decisions: Arc<Decisions>,
    ) -> Self {
        Self { agent, user: certificate.and_then(User::of_certificate), decisions }
    }

    /// Judges one request.
    pub(crate) async fn judge(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        if path == "/healthz" {
            return Ok(());
        }
        let user = match &self.user {
            Some(user) => user.clone(),
            None => self.token_user(headers).await.ok_or(Refusal::Unauthorized)?,
        };
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        let verb = verb(method);
        let subresources = subresources(path);
        for subresource in subresources {
            let question = Question { user: user.clone(), verb, subresource };
            if self.may(question).await {
                return Ok(());
            }
        }
        let node = &self.agent.config.node_name;
        let message = format!(
            "Forbidden (user={}, verb={verb}, resource=nodes, subresource(s)={subresources:?}, node={node})",
            user.name
        );
        Err(Refusal::Forbidden { message })
    }

    async fn may(&self, question: Question) -> bool {
        if let Some(allowed) = self.decisions.remembered(&question) {
            return allowed;
        }
        let Some(allowed) = review_access(&self.agent, &question).await else { return false };
        self.decisions.remember(question, allowed);
        allowed
    }

    /// Whom the API server takes a bearer token for.
    async fn token_user(&self, headers: &HeaderMap) -> Option<User> {
        let token = headers.get(http::header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), audiences: None },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.agent.client.clone());
        let status = reviews.create(&PostParams::default(), &review).await.ok()?.status?;
        let user = status.user.filter(|_| status.authenticated == Some(true))?;
        Some(User { name: user.username?, groups: user.groups.unwrap_or_default() })
    }
}

/// Asks the API server; `None` when it has no answer.
async fn review_access(agent: &Agent, question: &Question) -> Option<bool> {
    let attributes = ResourceAttributes {
        verb: Some(question.verb.to_owned()),
        resource: Some("nodes".to_owned()),
        subresource: Some(question.subresource.to_owned()),
        name: Some(agent.config.node_name.clone()),
        version: Some("v1".to_owned()),
        ..ResourceAttributes::default()
    };
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(question.user.name.clone()),
            groups: Some(question.user.groups.clone()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(agent.client.clone());
    match reviews.create(&PostParams::default(), &review).await {
        Ok(answer) => answer.status.map(|status| status.allowed),
        Err(error) => {
            tracing::warn!(%error, "the API server did not say whether somebody may use the node's port");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_is_about_is_named_as_upstream_names_it() {
        for (path, expected) in [
            ("/metrics", &["metrics"][..]),
            ("/pods", &["pods", "proxy"]),
            ("/runningpods/", &["pods", "proxy"]),
            ("/exec/ns/pod/c", &["proxy"]),
            ("/podsx", &["proxy"]),
            ("/", &["proxy"]),
            ("", &["proxy"]),
        ] {
            assert_eq!(subresources(path), expected, "{path}");
        }
        for (method, expected) in [
            (Method::GET, "get"),
            (Method::HEAD, "get"),
            (Method::POST, "create"),
            (Method::DELETE, "delete"),
        ] {
            assert_eq!(verb(&method), expected);
        }
    }

    #[test]
    fn decisions_are_remembered_and_have_a_limit() {
        let decisions = Decisions::default();
        let question = |number: usize| Question {
            user: User { name: format!("user-{number}"), groups: Vec::new() },
            verb: "get",
            subresource: "proxy",
        };
        assert_eq!(decisions.remembered(&question(0)), None);
        decisions.remember(question(0), true);
        decisions.remember(question(1), false);
        assert_eq!(decisions.remembered(&question(0)), Some(true));
        assert_eq!(decisions.remembered(&question(1)), Some(false));
        for number in 0..2 * REMEMBERED {
            decisions.remember(question(number), true);
        }
        assert!(decisions.0.lock().expect("whole").len() <= REMEMBERED);
    }
}
