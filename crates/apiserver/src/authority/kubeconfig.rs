//! The kubeconfig file: how clients find the server and prove who they are.

use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::{Credential, files};

/// What a kubeconfig file says: one cluster, one user, one context.
#[derive(Clone, Debug)]
pub struct Kubeconfig<'k> {
    /// Name of cluster, user and context.
    pub name: &'k str,
    /// `https://ADDRESS:PORT`.
    pub server: &'k str,
    /// The authority's certificate in PEM form.
    pub authority_pem: &'k str,
    /// The user's certificate and key.
    pub credential: &'k Credential,
}

impl Kubeconfig<'_> {
    /// The file's content.
    pub fn to_yaml(&self) -> String {
        let name = self.name;
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: {name}\n\
             \x20 cluster:\n\
             \x20   server: {server}\n\
             \x20   certificate-authority-data: {authority}\n\
             users:\n\
             - name: {name}\n\
             \x20 user:\n\
             \x20   client-certificate-data: {certificate}\n\
             \x20   client-key-data: {key}\n\
             contexts:\n\
             - name: {name}\n\
             \x20 context:\n\
             \x20   cluster: {name}\n\
             \x20   user: {name}\n\
             \x20   namespace: default\n\
             current-context: {name}\n",
            server = self.server,
            authority = BASE64_STANDARD.encode(self.authority_pem),
            certificate = BASE64_STANDARD.encode(self.credential.certificate_pem()),
            key = BASE64_STANDARD.encode(self.credential.key_pem()),
        )
    }
}

/// Writes a kubeconfig file that only its owner may read; replaces it as a whole.
///
/// # Errors
/// When the file cannot be written.
pub fn write_kubeconfig(path: &Path, kubeconfig: &Kubeconfig<'_>) -> std::io::Result<()> {
    files::write_private(path, kubeconfig.to_yaml().as_bytes())
}
