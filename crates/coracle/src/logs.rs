//! The command `coracle logs`: what a container of a pod, or one of its hooks, has written. Read over the API, as it is.
//!
//! Exit statuses: 0; 1 when the log cannot be read; 2 when the command line cannot be used.

use std::io::Write as _;
use std::process::ExitCode;

use futures::AsyncReadExt as _;
use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::config::{Config, KubeConfigOptions};

use crate::failure::{Failure, INPUT, exit_code};
use crate::standard_output::unwritable;

/// Exit status: the log cannot be read.
const UNREADABLE: u8 = 1;

/// Arguments of `coracle logs`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  coracle logs pod/web                          what its container wrote
  coracle logs pod/web -c app --hook postStart  what the hook printed, and how it ended
  coracle logs pod/web --hook preStop -f        until the hook has ended")]
pub(crate) struct LogsArgs {
    /// The pod: `pod/NAME`.
    #[arg(value_name = "pod/NAME")]
    pod: String,
    /// The container [default: the only one, or the one that the pod's annotation names].
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// Namespace of the pod [default: the kubeconfig's].
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// The log of this hook instead of the container's own.
    #[arg(long, value_enum, value_name = "HOOK")]
    hook: Option<HookName>,
    /// Go on until the container, or the hook, has ended.
    #[arg(short, long)]
    follow: bool,
    /// The instance before the present one.
    #[arg(short, long)]
    previous: bool,
    /// Only that many of the last lines.
    #[arg(long, value_name = "LINES")]
    tail: Option<u64>,
    /// Write the time before each line.
    #[arg(long)]
    timestamps: bool,
}

/// The hooks of a container, as manifests name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum HookName {
    /// Before the container exists.
    #[value(name = "preStart")]
    PreStart,
    /// After each start.
    #[value(name = "postStart")]
    PostStart,
    /// After a restart.
    #[value(name = "postRestart")]
    PostRestart,
    /// Before the stop signal.
    #[value(name = "preStop")]
    PreStop,
}

impl HookName {
    fn as_str(self) -> &'static str {
        match self {
            Self::PreStart => "preStart",
            Self::PostStart => "postStart",
            Self::PostRestart => "postRestart",
            Self::PreStop => "preStop",
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: LogsArgs) -> ExitCode {
    let runtime = match crate::prerequisites::async_runtime() {
        Ok(runtime) => runtime,
        Err(failure) => return failure.report(),
    };
    exit_code(runtime.block_on(show(&args)))
}

async fn show(args: &LogsArgs) -> Result<(), Failure> {
    let name = pod_name(&args.pod)?;
    let mut config = Config::from_kubeconfig(&KubeConfigOptions::default()).await.map_err(|error| {
        Failure::new(INPUT, &error).hint("set KUBECONFIG, for example to the output of `coracle kubeconfig`")
    })?;
    // A log that is followed may be silent for long.
    config.read_timeout = None;
    let namespace = args.namespace.as_deref().unwrap_or(&config.default_namespace).to_owned();
    let client = kube::Client::try_from(config).map_err(|error| Failure::new(INPUT, &error))?;
    let container = match &args.container {
        Some(container) => container.clone(),
        None => {
            let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
            let pod = pods.get(name).await.map_err(|error| refused(&namespace, name, &error))?;
            let chosen = default_container(&pod);
            if let Some((container, others)) = &chosen
                && !others.is_empty()
            {
                anstream::eprintln!(
                    "the log of container {container}; there are also: {}",
                    others.join(", ")
                );
            }
            chosen.map(|(container, _)| container).unwrap_or_default()
        }
    };
    let request = Request::get(path(&namespace, name, &container, args))
        .body(Vec::new())
        .map_err(|error| Failure::new(INPUT, &error))?;
    let stream = client.request_stream(request).await.map_err(|error| refused(&namespace, name, &error))?;
    let mut stream = std::pin::pin!(stream);
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let count = stream.read(&mut chunk).await.map_err(|error| {
            Failure::new(UNREADABLE, &error).hint("the connection to the API server ended in the middle")
        })?;
        if count == 0 {
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        out.write_all(&chunk[..count]).and_then(|()| out.flush()).map_err(|error| unwritable(&error))?;
    }
}

/// The container that is meant when none is named, and the others that could be.
fn default_container(pod: &Pod) -> Option<(String, Vec<String>)> {
    let names: Vec<&str> =
        pod.spec.iter().flat_map(|spec| spec.containers.iter().map(|one| one.name.as_str())).collect();
    let annotations = pod.metadata.annotations.as_ref();
    let named = annotations.and_then(|all| all.get(api::annotations::DEFAULT_CONTAINER)).map(String::as_str);
    match named.filter(|name| names.contains(name)) {
        Some(name) => Some((name.to_owned(), Vec::new())),
        None => {
            let (first, others) = names.split_first()?;
            Some(((*first).to_owned(), others.iter().map(|name| (*name).to_owned()).collect()))
        }
    }
}

fn refused(namespace: &str, name: &str, error: &kube::Error) -> Failure {
    let place = format!("pod {namespace}/{name}");
    match error {
        kube::Error::Api(status) => {
            let hint = match status.code {
                404 => "check the names and the namespace (-n)",
                403 => "the user of the kubeconfig may not read it",
                _ => "the message is the API server's",
            };
            Failure::text(UNREADABLE, status.message.clone()).place(place).hint(hint)
        }
        error => Failure::new(UNREADABLE, error)
            .place(place)
            .hint("check that the API server of the kubeconfig runs"),
    }
}

fn pod_name(argument: &str) -> Result<&str, Failure> {
    let name = match argument.split_once('/') {
        Some(("pod" | "pods" | "po", name)) => name,
        Some(_) => "",
        None => argument,
    };
    // Whatever a name may hold is harmless in a path.
    if names::DnsSubdomain::parse(name).is_err() {
        return Err(Failure::text(INPUT, format!("{argument:?} is no pod"))
            .hint("write pod/NAME, for example: coracle logs pod/web -n shop"));
    }
    Ok(name)
}

fn path(namespace: &str, name: &str, container: &str, args: &LogsArgs) -> String {
    let mut path = format!(
        "/api/v1/namespaces/{}/pods/{name}/log?container={}&follow={}&previous={}&timestamps={}",
        escaped(namespace),
        escaped(container),
        args.follow,
        args.previous,
        args.timestamps
    );
    if let Some(lines) = args.tail {
        path.push_str(&format!("&tailLines={lines}"));
    }
    if let Some(hook) = args.hook {
        path.push_str(&format!("&hook={}", hook.as_str()));
    }
    path
}

/// Percent-encodes everything that is not safe in a path segment or a query value.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{HookName, LogsArgs, default_container, path, pod_name};
    use serde_json::json;

    #[test]
    fn the_request_says_what_the_command_line_does() {
        let mut args = LogsArgs {
            pod: "pod/web".to_owned(),
            container: None,
            namespace: None,
            hook: None,
            follow: false,
            previous: false,
            tail: None,
            timestamps: false,
        };
        assert_eq!(
            path("a b", "web", "c&d", &args),
            "/api/v1/namespaces/a%20b/pods/web/log?container=c%26d&follow=false&previous=false&timestamps=false"
        );
        args.hook = Some(HookName::PreStop);
        args.tail = Some(3);
        args.follow = true;
        assert_eq!(
            path("ns", "web", "c", &args),
            "/api/v1/namespaces/ns/pods/web/log?container=c&follow=true&previous=false&timestamps=false&tailLines=3\
             &hook=preStop"
        );
    }

    #[test]
    fn pods_are_named_with_or_without_their_kind() {
        assert_eq!(pod_name("pod/web").ok(), Some("web"));
        assert_eq!(pod_name("web").ok(), Some("web"));
        for argument in ["deployment/web", "pod/", "pod/a/b", "../x", ""] {
            assert!(pod_name(argument).is_err(), "{argument}");
        }
    }

    #[test]
    fn the_container_is_the_annotated_one_or_the_first() {
        let pod = |annotation: &str| {
            serde_json::from_value(json!({
                "metadata": {"annotations": {"kubectl.kubernetes.io/default-container": annotation}},
                "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
            }))
            .expect("a pod")
        };
        assert_eq!(default_container(&pod("b")), Some(("b".to_owned(), Vec::new())));
        assert_eq!(default_container(&pod("x")), Some(("a".to_owned(), vec!["b".to_owned()])));
    }
}
