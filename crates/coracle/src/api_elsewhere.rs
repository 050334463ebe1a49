//! An API server of another process, as a kubeconfig leads to it.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::failure::{Failure, INPUT};

/// The way to it.
pub(crate) struct ApiElsewhere {
    /// Speaks as whom the kubeconfig names.
    pub(crate) client: kube::Client,
    /// Its authorities' certificates (DER), as far as the kubeconfig names them.
    pub(crate) authorities: Vec<Vec<u8>>,
}

impl ApiElsewhere {
    /// Reads a kubeconfig; nothing is connected yet. What is written is noted as `agent`'s.
    ///
    /// # Errors
    ///
    /// What is wrong with the file.
    pub(crate) async fn of_kubeconfig(file: &Path, agent: &'static str) -> Result<Self, Failure> {
        Self::read(file, agent).await.map_err(|error| {
            Failure::new(INPUT, &*error)
                .place(file.display().to_string())
                .hint("name a kubeconfig with an address and credentials, as `coracle kubeconfig` prints one")
        })
    }

    async fn read(file: &Path, agent: &'static str) -> Result<Self, Box<dyn std::error::Error>> {
        let kubeconfig = Kubeconfig::read_from(file)?;
        let mut config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(agent)));
        let authorities = config.root_cert.clone().unwrap_or_default();
        Ok(Self { client: kube::Client::try_from(config)?, authorities })
    }

    /// The authorities' certificates in PEM form; none when the kubeconfig names none.
    pub(crate) fn authorities_pem(&self) -> Option<String> {
        let pem = |der: &Vec<u8>| {
            use base64::Engine as _;
            let text = base64::engine::general_purpose::STANDARD.encode(der);
            let lines: Vec<&str> =
                text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
            format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
        };
        (!self.authorities.is_empty()).then(|| self.authorities.iter().map(pem).collect())
    }
}
