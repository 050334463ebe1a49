//! The service account `default` of each namespace, which pods have that name none.
//!
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/>.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::Start;
use crate::each_namespace::{self, Everywhere};

/// Starts its controller.
pub(crate) fn start(start: &Start<'_>) {
    each_namespace::start(start, DefaultAccount);
}

struct DefaultAccount;

impl Everywhere for DefaultAccount {
    type Object = ServiceAccount;
    const CONTROLLER: &'static str = "service-account-controller";
    const NAME: &'static str = "default";
    const FIELDS: &'static str = "metadata.name=default";

    fn made(&self) -> ServiceAccount {
        ServiceAccount {
            metadata: ObjectMeta { name: Some(Self::NAME.to_owned()), ..ObjectMeta::default() },
            ..ServiceAccount::default()
        }
    }

    /// Whatever its owner makes of it is right.
    fn mended(&self, _: &ServiceAccount) -> Option<ServiceAccount> {
        None
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use serde_json::json;

    use super::*;
    use crate::each_namespace::{Step, decide};

    #[test]
    fn a_namespace_that_stays_has_a_default_account_whatever_else_is_in_it() {
        let namespace = |leaving: bool| -> Namespace {
            let at = leaving.then_some("2026-01-01T00:00:00Z");
            serde_json::from_value(json!({"metadata": {"name": "n", "deletionTimestamp": at}})).unwrap()
        };
        let changed: ServiceAccount = serde_json::from_value(
            json!({"metadata": {"name": "default"}, "imagePullSecrets": [{"name": "s"}]}),
        )
        .unwrap();
        let create = || Step::Create(DefaultAccount.made());
        let rows = [
            (Some(namespace(false)), None, create()),
            (Some(namespace(false)), Some(&changed), Step::Nothing),
            (Some(namespace(true)), None, Step::Nothing),
            (None, None, Step::Nothing),
        ];
        for (namespace, found, expected) in rows {
            assert_eq!(decide(&DefaultAccount, namespace.as_ref(), found), expected, "{namespace:?}");
        }
    }
}
