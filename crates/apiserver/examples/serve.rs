//! An API server by itself, for trying it with any client: `cargo run -p apiserver --example serve -- DIRECTORY`.
//!
//! Writes DIRECTORY/kubeconfig, keeps the store there, and serves on a free port of 127.0.0.1 until it is killed.

use std::path::PathBuf;
use std::sync::Arc;

use apiserver::authority::{Authority, Kubeconfig, write_kubeconfig};
use apiserver::{ApiServer, ApiServerConfig, Identity, NoNodes, server_tls};
use store::Store;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = PathBuf::from(std::env::args().nth(1).ok_or("usage: serve DIRECTORY")?);
    let opened = Store::open(&directory.join("state.db"))?;
    if let Some(quarantine) = opened.quarantine {
        eprintln!(
            "the store was damaged and is kept as {}: {}",
            quarantine.moved_to.display(),
            quarantine.reason
        );
    }
    let authority = Authority::open(&directory.join("pki"))?;
    let credential = authority.server(&["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let admin = authority.client("admin", &Identity::admin())?;
    let kubeconfig = Kubeconfig {
        name: "coracle",
        server: &format!("https://{address}"),
        authority_pem: authority.certificate_pem(),
        credential: &admin,
    };
    let path = directory.join("kubeconfig");
    write_kubeconfig(&path, &kubeconfig)?;
    let config = ApiServerConfig {
        advertise: Some(address),
        authority_pem: Some(authority.certificate_pem().to_owned()),
        ..ApiServerConfig::default()
    };
    let server = ApiServer::new(config, opened.store, Arc::new(NoNodes)).await?;
    println!("export KUBECONFIG={}", path.display());
    let tls = server_tls(authority.certificate_pem(), &credential)?;
    server.serve(listener, tls, std::future::pending()).await;
    Ok(())
}
