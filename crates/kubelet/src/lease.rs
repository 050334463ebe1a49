//! The node's lease in `kube-node-lease`: by renewing it the node shows that it lives.
//!
//! Source: <https://kubernetes.io/docs/concepts/architecture/leases/#node-heart-beats>.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::agent::SharedAgent;
use crate::api_error::Brief;

const NAMESPACE: &str = "kube-node-lease";

/// What the lease says of its length; who watches over nodes decides by itself.
const SECONDS: i32 = 40;

/// Renews the lease, for ever, if this node is to.
pub(crate) async fn keep_lease(agent: SharedAgent) {
    if !agent.config.renews_lease {
        return;
    }
    agent.node_known().await;
    loop {
        renew(&agent).await;
        tokio::time::sleep(agent.config.heartbeat).await;
    }
}

/// Renews the lease. What goes wrong is told; the next time will come.
pub(crate) async fn renew(agent: &SharedAgent) {
    let leases: Api<Lease> = Api::namespaced(agent.client.clone(), NAMESPACE);
    let name = &agent.config.node_name;
    let spec = json!({
        "holderIdentity": name, "leaseDurationSeconds": SECONDS, "renewTime": MicroTime(Timestamp::now()),
    });
    let patch = json!({"spec": spec});
    let result = match leases.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => create(agent, &leases, &spec).await,
        other => other.map(drop),
    };
    if let Err(error) = result {
        tracing::warn!(error = %Brief(&error), "the lease of the node was not renewed");
    }
}

async fn create(agent: &SharedAgent, leases: &Api<Lease>, spec: &serde_json::Value) -> kube::Result<()> {
    let name = &agent.config.node_name;
    // It goes with the node's object.
    let node = Api::<Node>::all(agent.client.clone()).get(name).await?;
    let lease = serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": NAMESPACE,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}],
        },
        "spec": spec,
    }))
    .map_err(kube::Error::SerdeError)?;
    leases.create(&PostParams::default(), &lease).await.map(drop)
}
