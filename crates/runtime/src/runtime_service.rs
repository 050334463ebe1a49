//! The calls of the protocol about sandboxes and containers: one line or few each, the work is elsewhere.

use std::collections::BTreeMap;
use std::time::Duration;

use cri::v1;
use cri::v1::runtime_service_server::RuntimeService;
use futures::StreamExt as _;
use tokio_stream::wrappers::BroadcastStream;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use crate::call_error::CallError;
use crate::compose::limits;
use crate::container::Container;
use crate::execute::Copies;
use crate::launch::{LaunchSpec, ProcessRecord, Variable, files};
use crate::runtime::{Runtime, now};
use crate::state_files;
use crate::status;
use crate::streaming::{StreamRequest, WantedStreams};

type Answer<T> = Result<Response<T>, Status>;

fn required<T>(value: Option<T>, field: &'static str) -> Result<T, CallError> {
    value.ok_or(CallError::Missing { field })
}

fn details<T: serde::de::DeserializeOwned>(container: &Container, file: &str) -> Option<T> {
    state_files::read_json(&container.directory.join(file)).unwrap_or_else(|error| {
        tracing::warn!(container = %container.record.id, %error, "details of a container cannot be read");
        None
    })
}

fn seconds(value: i64) -> Duration {
    Duration::from_secs(u64::try_from(value).unwrap_or(0))
}

#[allow(
    clippy::fn_params_excessive_bools,
    reason = "four switches, named by the two messages that have them"
)]
fn wanted_streams(stdin: bool, stdout: bool, stderr: bool, terminal: bool) -> WantedStreams {
    // A terminal has one output.
    WantedStreams { stdin, stdout, stderr: stderr && !terminal, terminal }
}

#[tonic::async_trait]
impl RuntimeService for Runtime {
    async fn version(&self, _: Request<v1::VersionRequest>) -> Answer<v1::VersionResponse> {
        Ok(Response::new(v1::VersionResponse {
            version: "0.1.0".to_owned(),
            runtime_name: "coracle".to_owned(),
            runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
            runtime_api_version: "v1".to_owned(),
        }))
    }

    async fn status(&self, request: Request<v1::StatusRequest>) -> Answer<v1::StatusResponse> {
        let network = self.network_problem();
        let conditions = vec![
            v1::RuntimeCondition { r#type: "RuntimeReady".to_owned(), status: true, ..Default::default() },
            v1::RuntimeCondition {
                r#type: "NetworkReady".to_owned(),
                status: network.is_none(),
                reason: network.as_ref().map(|_| "NoPodNetwork".to_owned()).unwrap_or_default(),
                message: network.unwrap_or_default(),
            },
        ];
        let info = if request.into_inner().verbose {
            let info = serde_json::json!({
                "dataDir": self.state.config.data_dir,
                "cgroupRoot": self.state.cgroup_root(),
                "podMaxPids": self.state.config.pod_max_pids,
            });
            BTreeMap::from([("config".to_owned(), info.to_string())])
        } else {
            BTreeMap::new()
        };
        Ok(Response::new(v1::StatusResponse {
            status: Some(v1::RuntimeStatus { conditions }),
            info,
            runtime_handlers: vec![v1::RuntimeHandler {
                name: String::new(),
                features: Some(v1::RuntimeHandlerFeatures {
                    recursive_read_only_mounts: true,
                    user_namespaces: false,
                }),
            }],
            features: Some(v1::RuntimeFeatures {
                supplemental_groups_policy: true,
                user_namespaces_host_network: false,
            }),
        }))
    }

    async fn runtime_config(
        &self,
        _: Request<v1::RuntimeConfigRequest>,
    ) -> Answer<v1::RuntimeConfigResponse> {
        let linux = v1::LinuxRuntimeConfiguration { cgroup_driver: v1::CgroupDriver::Cgroupfs.into() };
        Ok(Response::new(v1::RuntimeConfigResponse { linux: Some(linux) }))
    }

    async fn update_runtime_config(
        &self,
        _: Request<v1::UpdateRuntimeConfigRequest>,
    ) -> Answer<v1::UpdateRuntimeConfigResponse> {
        // The only thing that can be said here is the pods' range, which follows from the data directory.
        Ok(Response::new(v1::UpdateRuntimeConfigResponse {}))
    }

    async fn run_pod_sandbox(
        &self,
        request: Request<v1::RunPodSandboxRequest>,
    ) -> Answer<v1::RunPodSandboxResponse> {
        let request = request.into_inner();
        let config = required(request.config, "config")?;
        let pod_sandbox_id = self.run_sandbox(config, request.runtime_handler).await?;
        Ok(Response::new(v1::RunPodSandboxResponse { pod_sandbox_id }))
    }

    async fn stop_pod_sandbox(
        &self,
        request: Request<v1::StopPodSandboxRequest>,
    ) -> Answer<v1::StopPodSandboxResponse> {
        let id = request.into_inner().pod_sandbox_id;
        // A caller that goes away in the meantime changes nothing.
        let runtime = self.clone();
        let stopped = tokio::spawn(async move { runtime.stop_sandbox_in_order(&id).await }).await;
        match stopped.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic())) {
            // Stopping is idempotent: what is not there does not run.
            Ok(()) | Err(CallError::NotFound { .. } | CallError::SetAside { .. }) => {
                Ok(Response::new(v1::StopPodSandboxResponse {}))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn remove_pod_sandbox(
        &self,
        request: Request<v1::RemovePodSandboxRequest>,
    ) -> Answer<v1::RemovePodSandboxResponse> {
        self.remove_sandbox(&request.into_inner().pod_sandbox_id).await?;
        Ok(Response::new(v1::RemovePodSandboxResponse {}))
    }

    async fn pod_sandbox_status(
        &self,
        request: Request<v1::PodSandboxStatusRequest>,
    ) -> Answer<v1::PodSandboxStatusResponse> {
        let request = request.into_inner();
        let sandbox = self.state.sandbox(&request.pod_sandbox_id)?;
        let info = if request.verbose { status::sandbox_info(&sandbox) } else { BTreeMap::new() };
        Ok(Response::new(v1::PodSandboxStatusResponse {
            status: Some(status::sandbox_status(&sandbox)),
            info,
            containers_statuses: Vec::new(),
            timestamp: now(),
        }))
    }

    async fn list_pod_sandbox(
        &self,
        request: Request<v1::ListPodSandboxRequest>,
    ) -> Answer<v1::ListPodSandboxResponse> {
        let filter = request.into_inner().filter.unwrap_or_default();
        let items = self
            .state
            .sandboxes()
            .iter()
            .filter(|sandbox| status::is_wanted_sandbox(sandbox, &filter))
            .map(|sandbox| status::sandbox_item(sandbox))
            .collect();
        Ok(Response::new(v1::ListPodSandboxResponse { items }))
    }

    async fn update_pod_sandbox_resources(
        &self,
        request: Request<v1::UpdatePodSandboxResourcesRequest>,
    ) -> Answer<v1::UpdatePodSandboxResourcesResponse> {
        let request = request.into_inner();
        let sandbox = self.state.sandbox(&request.pod_sandbox_id)?;
        // The group belongs to the kubelet when it named one; it has changed it itself by now.
        let record = sandbox.record();
        if record.made_cgroup_parent
            && let Some(resources) = request.resources
        {
            for warning in self.state.cgroup(&record.cgroup_parent).limit(&limits(&resources)) {
                tracing::warn!(sandbox = %record.id, "{warning}");
            }
        }
        Ok(Response::new(v1::UpdatePodSandboxResourcesResponse {}))
    }

    async fn create_container(
        &self,
        request: Request<v1::CreateContainerRequest>,
    ) -> Answer<v1::CreateContainerResponse> {
        let request = request.into_inner();
        let config = required(request.config, "config")?;
        let container_id = Runtime::create_container(self, &request.pod_sandbox_id, config).await?;
        Ok(Response::new(v1::CreateContainerResponse { container_id }))
    }

    async fn start_container(
        &self,
        request: Request<v1::StartContainerRequest>,
    ) -> Answer<v1::StartContainerResponse> {
        Runtime::start_container(self, &request.into_inner().container_id).await?;
        Ok(Response::new(v1::StartContainerResponse {}))
    }

    async fn stop_container(
        &self,
        request: Request<v1::StopContainerRequest>,
    ) -> Answer<v1::StopContainerResponse> {
        let request = request.into_inner();
        match Runtime::stop_container(self, &request.container_id, seconds(request.timeout)).await {
            Ok(()) | Err(CallError::NotFound { .. } | CallError::SetAside { .. }) => {
                Ok(Response::new(v1::StopContainerResponse {}))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn remove_container(
        &self,
        request: Request<v1::RemoveContainerRequest>,
    ) -> Answer<v1::RemoveContainerResponse> {
        Runtime::remove_container(self, &request.into_inner().container_id).await?;
        Ok(Response::new(v1::RemoveContainerResponse {}))
    }

    async fn list_containers(
        &self,
        request: Request<v1::ListContainersRequest>,
    ) -> Answer<v1::ListContainersResponse> {
        let filter = request.into_inner().filter.unwrap_or_default();
        let containers = self
            .state
            .containers()
            .iter()
            .filter(|container| status::is_wanted_container(container, &filter))
            .map(|container| status::container_item(container))
            .collect();
        Ok(Response::new(v1::ListContainersResponse { containers }))
    }

    async fn container_status(
        &self,
        request: Request<v1::ContainerStatusRequest>,
    ) -> Answer<v1::ContainerStatusResponse> {
        let request = request.into_inner();
        let container = self.state.container(&request.container_id)?;
        // Damaged details must not hide that a container runs, or how it ended.
        let process = || details::<ProcessRecord>(&container, files::PROCESS);
        let mut status = status::container_status(&container);
        status.user = container.user(|| process().as_ref().map(status::container_user));
        let info = if request.verbose {
            let process = process();
            let launch: Option<LaunchSpec> = details(&container, files::LAUNCH);
            status::container_info(&container, launch.as_ref(), process.as_ref())
        } else {
            BTreeMap::new()
        };
        Ok(Response::new(v1::ContainerStatusResponse { status: Some(status), info }))
    }

    async fn update_container_resources(
        &self,
        request: Request<v1::UpdateContainerResourcesRequest>,
    ) -> Answer<v1::UpdateContainerResourcesResponse> {
        let request = request.into_inner();
        self.update_resources(&request.container_id, &required(request.linux, "linux")?)?;
        Ok(Response::new(v1::UpdateContainerResourcesResponse {}))
    }

    async fn reopen_container_log(
        &self,
        request: Request<v1::ReopenContainerLogRequest>,
    ) -> Answer<v1::ReopenContainerLogResponse> {
        self.reopen_log(&request.into_inner().container_id).await?;
        Ok(Response::new(v1::ReopenContainerLogResponse {}))
    }

    async fn exec_sync(&self, request: Request<v1::ExecSyncRequest>) -> Answer<v1::ExecSyncResponse> {
        let request = request.into_inner();
        let timeout = Some(seconds(request.timeout)).filter(|timeout| !timeout.is_zero());
        let environment = request.coracle_environment.into_iter();
        let environment =
            environment.map(|variable| Variable { name: variable.key, value: variable.value }).collect();
        let copies = Copies::to(&request.coracle_stdout_pipe, &request.coracle_stderr_pipe);
        let answer =
            self.execute_and_wait(&request.container_id, request.cmd, environment, timeout, copies).await?;
        Ok(Response::new(answer))
    }

    async fn exec(&self, request: Request<v1::ExecRequest>) -> Answer<v1::ExecResponse> {
        let request = request.into_inner();
        let container = self.running_container(&request.container_id)?;
        if request.cmd.is_empty() {
            return Err(CallError::Missing { field: "cmd" }.into());
        }
        let streams = wanted_streams(request.stdin, request.stdout, request.stderr, request.tty);
        let url = self.url_for(StreamRequest::Execute {
            sandbox: container.record.sandbox.clone(),
            container: container.record.id.clone(),
            command: request.cmd,
            streams,
        })?;
        Ok(Response::new(v1::ExecResponse { url }))
    }

    async fn attach(&self, request: Request<v1::AttachRequest>) -> Answer<v1::AttachResponse> {
        let request = request.into_inner();
        let container = self.running_container(&request.container_id)?;
        let streams = wanted_streams(request.stdin, request.stdout, request.stderr, container.config.tty);
        let url = self.url_for(StreamRequest::Attach {
            sandbox: container.record.sandbox.clone(),
            container: container.record.id.clone(),
            streams,
        })?;
        Ok(Response::new(v1::AttachResponse { url }))
    }

    async fn port_forward(
        &self,
        request: Request<v1::PortForwardRequest>,
    ) -> Answer<v1::PortForwardResponse> {
        let request = request.into_inner();
        let sandbox = self.state.sandbox(&request.pod_sandbox_id)?;
        let ports = request
            .port
            .iter()
            .map(|port| u16::try_from(*port).ok().filter(|port| *port != 0))
            .collect::<Option<Vec<u16>>>()
            .ok_or(CallError::Invalid {
                field: "port",
                problem: "a port is between 1 and 65535".to_owned(),
            })?;
        let url = self.url_for(StreamRequest::PortForward { sandbox: sandbox.id(), ports })?;
        Ok(Response::new(v1::PortForwardResponse { url }))
    }

    async fn container_stats(
        &self,
        request: Request<v1::ContainerStatsRequest>,
    ) -> Answer<v1::ContainerStatsResponse> {
        let container = self.state.container(&request.into_inner().container_id)?;
        let stats = self.measure_containers(vec![container]).await.into_iter().next();
        Ok(Response::new(v1::ContainerStatsResponse { stats }))
    }

    async fn list_container_stats(
        &self,
        request: Request<v1::ListContainerStatsRequest>,
    ) -> Answer<v1::ListContainerStatsResponse> {
        let filter = request.into_inner().filter.unwrap_or_default();
        let mut containers = self.state.containers();
        containers.retain(|container| {
            (filter.id.is_empty() || container.record.id.starts_with(&filter.id))
                && (filter.pod_sandbox_id.is_empty()
                    || container.record.sandbox.starts_with(&filter.pod_sandbox_id))
                && status::labels_match(&container.config.labels, &filter.label_selector)
        });
        let stats = self.measure_containers(containers).await;
        Ok(Response::new(v1::ListContainerStatsResponse { stats }))
    }

    async fn pod_sandbox_stats(
        &self,
        request: Request<v1::PodSandboxStatsRequest>,
    ) -> Answer<v1::PodSandboxStatsResponse> {
        let sandbox = self.state.sandbox(&request.into_inner().pod_sandbox_id)?;
        let stats = self.measure_sandbox(sandbox).await;
        Ok(Response::new(v1::PodSandboxStatsResponse { stats: Some(stats) }))
    }

    async fn list_pod_sandbox_stats(
        &self,
        request: Request<v1::ListPodSandboxStatsRequest>,
    ) -> Answer<v1::ListPodSandboxStatsResponse> {
        let filter = request.into_inner().filter.unwrap_or_default();
        let mut stats = Vec::new();
        for sandbox in self.state.sandboxes() {
            if (filter.id.is_empty() || sandbox.id().starts_with(&filter.id))
                && status::labels_match(&sandbox.config.labels, &filter.label_selector)
            {
                stats.push(self.measure_sandbox(sandbox).await);
            }
        }
        Ok(Response::new(v1::ListPodSandboxStatsResponse { stats }))
    }

    async fn list_metric_descriptors(
        &self,
        _: Request<v1::ListMetricDescriptorsRequest>,
    ) -> Answer<v1::ListMetricDescriptorsResponse> {
        Ok(Response::new(v1::ListMetricDescriptorsResponse::default()))
    }

    async fn list_pod_sandbox_metrics(
        &self,
        _: Request<v1::ListPodSandboxMetricsRequest>,
    ) -> Answer<v1::ListPodSandboxMetricsResponse> {
        Ok(Response::new(v1::ListPodSandboxMetricsResponse::default()))
    }

    async fn checkpoint_container(
        &self,
        _: Request<v1::CheckpointContainerRequest>,
    ) -> Answer<v1::CheckpointContainerResponse> {
        Err(CallError::Unsupported("checkpointing a container").into())
    }

    async fn get_container_events(
        &self,
        _: Request<v1::GetEventsRequest>,
    ) -> Answer<BoxStream<v1::ContainerEventResponse>> {
        let events = BroadcastStream::new(self.state.subscribe()).map(|event| {
            // Whoever is too slow has to list again, and learns so by the end of the stream.
            event.map_err(|_| {
                Status::data_loss("events were lost because the reader was too slow; list again")
            })
        });
        Ok(Response::new(Box::pin(events)))
    }
}

impl Runtime {
    fn running_container(&self, id: &str) -> Result<std::sync::Arc<crate::container::Container>, CallError> {
        let container = self.state.container(id)?;
        match container.phase() {
            crate::container::Phase::Running(_) => Ok(container),
            phase @ (crate::container::Phase::Created | crate::container::Phase::Exited { .. }) => {
                let state = phase.name().to_owned();
                Err(CallError::WrongState { kind: "container", id: container.record.id.clone(), state })
            }
        }
    }

    fn url_for(&self, request: StreamRequest) -> Result<String, CallError> {
        Ok(self.state.streaming.url_for(request)?)
    }
}
