//! Finds the user's credentials for a registry where container tools keep them: containers' `auth.json` and docker's
//! `config.json` with their helper programs.
//!
//! No message of this module contains a user name, a password or anything a helper program printed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use serde::Deserialize;
use tokio::io::AsyncWriteExt as _;

use crate::reference::Reference;

/// How long a helper program may think (it may ask the user).
const HELPER_TIME: Duration = Duration::from_secs(60);
/// Largest configuration file that is read.
const MAX_FILE: u64 = 4 << 20;

/// What proves to a registry who asks. `Debug` prints nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials(Kind);

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Basic { username: String, password: String },
    Bearer(String),
}

impl Credentials {
    /// User name and password (or an access token in place of the password).
    pub fn basic(username: impl Into<String>, password: impl Into<String>) -> Credentials {
        Credentials(Kind::Basic { username: username.into(), password: password.into() })
    }

    /// A bearer token that the registry itself takes (`registrytoken`).
    pub fn bearer(token: impl Into<String>) -> Credentials {
        Credentials(Kind::Bearer(token.into()))
    }

    pub(crate) fn to_registry_auth(&self) -> oci_client::secrets::RegistryAuth {
        match &self.0 {
            Kind::Basic { username, password } => {
                oci_client::secrets::RegistryAuth::Basic(username.clone(), password.clone())
            }
            Kind::Bearer(token) => oci_client::secrets::RegistryAuth::Bearer(token.clone()),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

/// Why credentials that are there cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file that exists and cannot be read.
    #[error("credentials file {path} cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Not JSON of the expected shape. Says where, never what.
    #[error("credentials file {path} is damaged at line {line}, column {column}")]
    File {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// An `auth` entry that is not `user:password` in base64.
    #[error("credentials file {path}: the entry of {registry} is damaged: log in again")]
    Entry {
        /// The file.
        path: PathBuf,
        /// The entry.
        registry: String,
    },
    /// A token for a login service, which only the tool that made it can use.
    #[error(
        "the login for {registry} is an identity token, which is not supported: log in with a user name and an access token"
    )]
    IdentityToken {
        /// The entry.
        registry: String,
    },
    /// The helper program cannot be run, fails, or takes too long.
    #[error("credential helper docker-credential-{helper} {problem}")]
    Helper {
        /// Its name.
        helper: String,
        /// What went wrong.
        problem: &'static str,
    },
}

/// Files in which credentials are looked for, in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CredentialSources {
    files: Vec<PathBuf>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct AuthFile {
    #[serde(default)]
    auths: BTreeMap<String, AuthEntry>,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
    #[serde(default)]
    creds_store: Option<String>,
}

#[derive(Deserialize, Default)]
struct AuthEntry {
    #[serde(default)]
    auth: Option<String>,
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    password: Option<String>,
    #[serde(default)]
    identitytoken: Option<String>,
    #[serde(default)]
    registrytoken: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperAnswer {
    username: String,
    secret: String,
}

impl CredentialSources {
    /// Nowhere.
    pub fn none() -> CredentialSources {
        CredentialSources::default()
    }

    /// These files, of either format.
    pub fn files(files: Vec<PathBuf>) -> CredentialSources {
        CredentialSources { files }
    }

    /// Where the tools of this user keep them.
    pub fn of_user() -> CredentialSources {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = variable("HOME");
        let under_home = |path: &str| home.as_ref().map(|home| home.join(path));
        let containers = match variable("REGISTRY_AUTH_FILE") {
            Some(file) => vec![Some(file)],
            None => vec![
                variable("XDG_RUNTIME_DIR").map(|path| path.join("containers/auth.json")),
                variable("XDG_CONFIG_HOME")
                    .map(|path| path.join("containers/auth.json"))
                    .or_else(|| under_home(".config/containers/auth.json")),
            ],
        };
        let docker = variable("DOCKER_CONFIG")
            .map(|path| path.join("config.json"))
            .or_else(|| under_home(".docker/config.json"));
        CredentialSources { files: containers.into_iter().chain([docker]).flatten().collect() }
    }

    /// The credentials for a reference, or `None` to ask anonymously.
    pub async fn find(&self, reference: &Reference) -> Result<Option<Credentials>, CredentialsError> {
        for path in &self.files {
            let Some(file) = read(path)? else { continue };
            if let Some(found) = file.find(path, reference).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

fn read(path: &Path) -> Result<Option<AuthFile>, CredentialsError> {
    use std::io::Read;
    let failed = |source| CredentialsError::Read { path: path.to_path_buf(), source };
    let mut bytes = Vec::new();
    match std::fs::File::open(path) {
        Ok(file) => file.take(MAX_FILE).read_to_end(&mut bytes).map_err(failed)?,
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    serde_json::from_slice(&bytes).map(Some).map_err(|error| CredentialsError::File {
        path: path.to_path_buf(),
        line: error.line(),
        column: error.column(),
    })
}

impl AuthFile {
    async fn find(
        &self,
        path: &Path,
        reference: &Reference,
    ) -> Result<Option<Credentials>, CredentialsError> {
        for wanted in keys(reference) {
            if let Some((_, helper)) = self.cred_helpers.iter().find(|(key, _)| plain_key(key) == wanted) {
                return ask_helper(helper, &server_address(&wanted)).await;
            }
            let entry = self.auths.iter().find(|(key, _)| plain_key(key) == wanted);
            if let Some((key, entry)) = entry
                && let Some(found) = entry.credentials(path, key)?
            {
                return Ok(Some(found));
            }
        }
        match &self.creds_store {
            Some(helper) if !helper.is_empty() => {
                ask_helper(helper, &server_address(reference.domain())).await
            }
            _ => Ok(None),
        }
    }
}

impl AuthEntry {
    /// `None` for the empty entries that docker leaves beside a helper program.
    fn credentials(&self, path: &Path, registry: &str) -> Result<Option<Credentials>, CredentialsError> {
        let text = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        if let Some(token) = text(&self.registrytoken) {
            return Ok(Some(Credentials::bearer(token)));
        }
        if text(&self.identitytoken).is_some() {
            return Err(CredentialsError::IdentityToken { registry: registry.to_owned() });
        }
        if let (Some(username), Some(password)) = (text(&self.username), text(&self.password)) {
            return Ok(Some(Credentials::basic(username, password)));
        }
        let Some(encoded) = text(&self.auth) else { return Ok(None) };
        let damaged = || CredentialsError::Entry { path: path.to_path_buf(), registry: registry.to_owned() };
        let decoded =
            base64::engine::general_purpose::STANDARD.decode(encoded.trim()).map_err(|_| damaged())?;
        let decoded = String::from_utf8(decoded).map_err(|_| damaged())?;
        let (username, password) = decoded.split_once(':').ok_or_else(damaged)?;
        Ok(Some(Credentials::basic(username, password.trim_end_matches('\0'))))
    }
}

/// What entries may be called, most specific first: `host/path/name`, ..., `host`.
fn keys(reference: &Reference) -> Vec<String> {
    let mut key = reference.name();
    let mut keys = vec![key.clone()];
    while let Some(slash) = key.rfind('/') {
        key.truncate(slash);
        keys.push(key.clone());
    }
    keys
}

/// A key without scheme, version path and historical names: `https://index.docker.io/v1/` is `docker.io`.
fn plain_key(key: &str) -> String {
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let key = key.trim_end_matches('/');
    let key = key.strip_suffix("/v1").or_else(|| key.strip_suffix("/v2")).unwrap_or(key);
    match key {
        "index.docker.io" | "registry-1.docker.io" => "docker.io".to_owned(),
        key => key.to_owned(),
    }
}

/// What helper programs call a registry.
fn server_address(registry: &str) -> String {
    match registry {
        "docker.io" => "https://index.docker.io/v1/".to_owned(),
        other => other.to_owned(),
    }
}

/// Asks a helper program: the address on its standard input, JSON on its standard output.
async fn ask_helper(helper: &str, server: &str) -> Result<Option<Credentials>, CredentialsError> {
    let failed = |problem| CredentialsError::Helper { helper: helper.to_owned(), problem };
    if helper.contains('/') {
        return Err(failed("has a slash in its name"));
    }
    let mut child = tokio::process::Command::new(format!("docker-credential-{helper}"))
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                failed("is not installed: install it or remove it from the credentials file")
            }
            _ => failed("cannot be run"),
        })?;
    if let Some(mut input) = child.stdin.take() {
        // A helper that does not read its input answers something anyhow.
        let _ = input.write_all(server.as_bytes()).await;
    }
    let output = tokio::time::timeout(HELPER_TIME, child.wait_with_output())
        .await
        .map_err(|_| failed("takes longer than 60 seconds"))?
        .map_err(|_| failed("cannot be waited for"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout);
        // The protocol's way to say that there is no such entry.
        return match said.contains("credentials not found") {
            true => Ok(None),
            false => Err(failed("failed: run it with `get` to see why")),
        };
    }
    let answer: HelperAnswer =
        serde_json::from_slice(&output.stdout).map_err(|_| failed("gave an answer that is not readable"))?;
    match answer.username.as_str() {
        "<token>" => Err(CredentialsError::IdentityToken { registry: server.to_owned() }),
        _ => Ok(Some(Credentials::basic(answer.username, answer.secret))),
    }
}

#[cfg(test)]
mod tests;
