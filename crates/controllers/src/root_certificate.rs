//! The ConfigMap `kube-root-ca.crt` of each namespace: the certificates by which its pods know the API server.
//!
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/>.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::Start;
use crate::each_namespace::{self, Everywhere};

/// Starts its publisher, if it is known which certificates these are.
pub(crate) fn start(start: &Start<'_>) {
    if let Some(pem) = &start.config.root_certificates {
        let data = BTreeMap::from([("ca.crt".to_owned(), pem.clone())]);
        each_namespace::start(start, RootCertificate { data });
    }
}

struct RootCertificate {
    data: BTreeMap<String, String>,
}

impl Everywhere for RootCertificate {
    type Object = ConfigMap;
    const CONTROLLER: &'static str = "root-ca-cert-publisher";
    const NAME: &'static str = "kube-root-ca.crt";
    const FIELDS: &'static str = "metadata.name=kube-root-ca.crt";

    fn made(&self) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta { name: Some(Self::NAME.to_owned()), ..ObjectMeta::default() },
            data: Some(self.data.clone()),
            ..ConfigMap::default()
        }
    }

    /// The authority may have been made anew since, or somebody has put in another one.
    fn mended(&self, found: &ConfigMap) -> Option<ConfigMap> {
        let is_right = found.data.as_ref().is_some_and(|data| {
            data.len() == self.data.len()
                && self.data.iter().all(|(key, pem)| data.get(key).is_some_and(|own| is_same(own, pem)))
        });
        (!is_right).then(|| ConfigMap { data: Some(self.data.clone()), ..found.clone() })
    }
}

/// Whether two PEM texts say the same: where their lines end is of no account.
fn is_same(one: &str, other: &str) -> bool {
    let letters = |text: &str| text.split_whitespace().collect::<String>();
    letters(one) == letters(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_in_lines_of_another_length_are_the_same() {
        assert!(is_same(
            "-----BEGIN X-----\r\nab\r\ncd\r\n-----END X-----",
            "-----BEGIN X-----\nabcd\n-----END X-----\n"
        ));
        assert!(!is_same("-----BEGIN X-----\nab\n", "-----BEGIN X-----\nac\n"));
    }

    #[test]
    fn certificates_that_are_not_the_authoritys_are_replaced_and_what_else_the_map_says_stays() {
        let data = BTreeMap::from([("ca.crt".to_owned(), "ours".to_owned())]);
        let publisher = RootCertificate { data: data.clone() };
        let mut found = publisher.made();
        assert_eq!(publisher.mended(&found), None);
        found.metadata.labels = Some(BTreeMap::from([("a".to_owned(), "b".to_owned())]));
        found.metadata.resource_version = Some("7".to_owned());
        assert_eq!(publisher.mended(&found), None);
        for wrong in [None, Some(BTreeMap::from([("ca.crt".to_owned(), "theirs".to_owned())]))] {
            found.data = wrong;
            let mended = publisher.mended(&found).expect("wrong");
            assert_eq!(mended.data.as_ref(), Some(&data));
            assert_eq!(
                mended.metadata, found.metadata,
                "of this version, so that no change of others is lost"
            );
        }
    }
}
