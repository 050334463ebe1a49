//! Security contexts of pods and containers: what the runtime is told, and when a container must not start. Pure.

use std::path::Path;

use cri::v1;
use k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext, SeccompProfile, SecurityContext};

use crate::env_files::FileIdentity;
use crate::images::PresentImage;
use crate::pod_users;

/// Paths of /proc and /sys that a container does not see.
const MASKED_PATHS: [&str; 11] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
];

/// Paths of /proc that a container may only read.
const READONLY_PATHS: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// A user that owns nothing: stands for one whose number the node cannot know.
const NOBODY: u32 = 65_534;

/// Why a container must not run as it would. The words are Kubernetes'.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RunAsNonRootError {
    /// The manifest says root.
    #[error("container's runAsUser breaks non-root policy (pod: {pod}, container: {container})")]
    RunAsUser { pod: String, container: String },
    /// The image says root.
    #[error("container has runAsNonRoot and image will run as root (pod: {pod}, container: {container})")]
    ImageRoot { pod: String, container: String },
    /// The image names a user whose number is not known.
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root \
         (pod: {pod}, container: {container})"
    )]
    ImageUserName { user: String, pod: String, container: String },
}

fn contexts<'a>(
    pod: &'a Pod,
    container: &'a Container,
) -> (Option<&'a PodSecurityContext>, Option<&'a SecurityContext>) {
    let pod = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    (pod, container.security_context.as_ref())
}

/// The container's field, else the pod's.
macro_rules! effective {
    ($pod:expr, $container:expr, $field:ident) => {
        $container
            .and_then(|context| context.$field.clone())
            .or_else(|| $pod.and_then(|context| context.$field.clone()))
    };
}

/// Refuses a container that must not run as root and would.
pub(crate) fn check_run_as_non_root(
    pod: &Pod,
    container: &Container,
    image: &PresentImage,
) -> Result<(), RunAsNonRootError> {
    let (pod_context, context) = contexts(pod, container);
    if effective!(pod_context, context, run_as_non_root) != Some(true) {
        return Ok(());
    }
    let names = || {
        let metadata = &pod.metadata;
        let shown = format!(
            "\"{}_{}({})\"",
            metadata.name.as_deref().unwrap_or_default(),
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.uid.as_deref().unwrap_or_default()
        );
        (shown, container.name.clone())
    };
    let user: Option<i64> = effective!(pod_context, context, run_as_user);
    match (user, image.uid, image.username.as_str()) {
        (Some(0), _, _) => {
            let (pod, container) = names();
            Err(RunAsNonRootError::RunAsUser { pod, container })
        }
        (Some(_), _, _) => Ok(()),
        (None, Some(uid), _) if uid != 0 => Ok(()),
        (None, Some(_), _) | (None, None, "") => {
            let (pod, container) = names();
            Err(RunAsNonRootError::ImageRoot { pod, container })
        }
        (None, None, user) => {
            let (pod, container) = names();
            Err(RunAsNonRootError::ImageUserName { user: user.to_owned(), pod, container })
        }
    }
}

/// Whom the container's process is when files are read for it. A user that the image names by a word counts as one who owns
/// nothing, unless the word is `root`: only the runtime can look it up, and guessing must not open a file.
pub(crate) fn file_identity(pod: &Pod, container: &Container, image: &PresentImage) -> FileIdentity {
    let (pod_context, context) = contexts(pod, container);
    let to_u32 = |number: i64| u32::try_from(number).unwrap_or(NOBODY);
    let user: Option<i64> = effective!(pod_context, context, run_as_user);
    let group: Option<i64> = effective!(pod_context, context, run_as_group);
    let uid = match (user, image.uid, image.username.as_str()) {
        (Some(uid), _, _) | (None, Some(uid), _) => to_u32(uid),
        (None, None, "" | "root") => 0,
        (None, None, _) => NOBODY,
    };
    let gid = match group {
        Some(gid) => to_u32(gid),
        // A runtime gives a number without an entry in the image's passwd file the group 0; a word has a group of its own.
        None if uid == NOBODY => NOBODY,
        None => 0,
    };
    let mut groups: Vec<u32> = supplemental_groups(pod).into_iter().map(to_u32).collect();
    groups.push(gid);
    FileIdentity { uid, gid, groups }
}

/// The pod's further groups, its fsGroup among them.
fn supplemental_groups(pod: &Pod) -> Vec<i64> {
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let mut groups = context.and_then(|context| context.supplemental_groups.clone()).unwrap_or_default();
    groups.extend(context.and_then(|context| context.fs_group));
    groups
}

/// The group that owns the pod's volumes.
pub(crate) fn fs_group(pod: &Pod) -> Option<u32> {
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    context.and_then(|context| context.fs_group).and_then(|gid| u32::try_from(gid).ok())
}

/// The group that owns the pod's volumes, and when it is given those that outlive the pod.
pub(crate) fn volume_group(pod: &Pod) -> Option<crate::volumes::Group> {
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let policy = context.and_then(|context| context.fs_group_change_policy.as_deref());
    let only_if_root_differs = policy == Some("OnRootMismatch");
    fs_group(pod).map(|gid| crate::volumes::Group { gid, only_if_root_differs })
}

/// The namespaces that a pod and its containers use.
///
/// `first_user`: the first number of the pod's own users, if it has such.
pub(crate) fn namespace_options(pod: &Pod, first_user: Option<u32>) -> v1::NamespaceOption {
    let spec = pod.spec.as_ref();
    let on = |value: Option<bool>| value.unwrap_or(false);
    let mode = |node: bool| if node { v1::NamespaceMode::Node } else { v1::NamespaceMode::Pod } as i32;
    let pid = if on(spec.and_then(|spec| spec.host_pid)) {
        v1::NamespaceMode::Node
    } else if on(spec.and_then(|spec| spec.share_process_namespace)) {
        v1::NamespaceMode::Pod
    } else {
        v1::NamespaceMode::Container
    };
    v1::NamespaceOption {
        network: mode(on(spec.and_then(|spec| spec.host_network))),
        ipc: mode(on(spec.and_then(|spec| spec.host_ipc))),
        pid: pid as i32,
        userns_options: first_user.map(pod_users::options),
        ..v1::NamespaceOption::default()
    }
}

/// What the node says about seccomp.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeccompSettings<'a> {
    /// Containers that say nothing get the runtime's default profile.
    pub(crate) by_default: bool,
    /// Where profiles of type `Localhost` lie.
    pub(crate) directory: &'a Path,
}

fn seccomp(profile: Option<&SeccompProfile>, settings: SeccompSettings<'_>) -> v1::SecurityProfile {
    use v1::security_profile::ProfileType;
    let (type_, localhost) = match profile.map(|profile| profile.type_.as_str()) {
        Some("RuntimeDefault") => (ProfileType::RuntimeDefault, None),
        Some("Localhost") => {
            let file = profile.and_then(|profile| profile.localhost_profile.as_deref()).unwrap_or_default();
            (ProfileType::Localhost, Some(settings.directory.join(file).display().to_string()))
        }
        None if settings.by_default => (ProfileType::RuntimeDefault, None),
        Some(_) | None => (ProfileType::Unconfined, None),
    };
    v1::SecurityProfile { profile_type: type_ as i32, localhost_ref: localhost.unwrap_or_default() }
}

fn groups_policy(pod: &Pod) -> i32 {
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let strict = context.and_then(|context| context.supplemental_groups_policy.as_deref()) == Some("Strict");
    let policy =
        if strict { v1::SupplementalGroupsPolicy::Strict } else { v1::SupplementalGroupsPolicy::Merge };
    policy as i32
}

fn int64(value: i64) -> v1::Int64Value {
    v1::Int64Value { value }
}

/// The security context of a container.
pub(crate) fn container_security(
    pod: &Pod,
    container: &Container,
    image: &PresentImage,
    seccomp_settings: SeccompSettings<'_>,
    first_user: Option<u32>,
) -> v1::LinuxContainerSecurityContext {
    let (pod_context, context) = contexts(pod, container);
    let user: Option<i64> = effective!(pod_context, context, run_as_user);
    let group: Option<i64> = effective!(pod_context, context, run_as_group);
    let profile: Option<SeccompProfile> = effective!(pod_context, context, seccomp_profile);
    let privileged = context.and_then(|context| context.privileged).unwrap_or(false);
    let unmasked =
        privileged || context.and_then(|context| context.proc_mount.as_deref()) == Some("Unmasked");
    let paths = |paths: &[&str]| match unmasked {
        true => Vec::new(),
        false => paths.iter().map(|path| (*path).to_owned()).collect(),
    };
    let capabilities = context.and_then(|context| context.capabilities.as_ref());
    let seccomp = match privileged {
        true => seccomp(None, SeccompSettings { by_default: false, ..seccomp_settings }),
        false => seccomp(profile.as_ref(), seccomp_settings),
    };
    v1::LinuxContainerSecurityContext {
        capabilities: capabilities.map(|capabilities| v1::Capability {
            add_capabilities: capabilities.add.clone().unwrap_or_default(),
            drop_capabilities: capabilities.drop.clone().unwrap_or_default(),
            ..v1::Capability::default()
        }),
        privileged,
        namespace_options: Some(namespace_options(pod, first_user)),
        run_as_user: user.or(image.uid).map(int64),
        run_as_username: match user.or(image.uid) {
            Some(_) => String::new(),
            None => image.username.clone(),
        },
        run_as_group: group.map(int64),
        readonly_rootfs: context.and_then(|context| context.read_only_root_filesystem).unwrap_or(false),
        supplemental_groups: supplemental_groups(pod),
        supplemental_groups_policy: groups_policy(pod),
        no_new_privs: context.and_then(|context| context.allow_privilege_escalation) == Some(false),
        masked_paths: paths(&MASKED_PATHS),
        readonly_paths: paths(&READONLY_PATHS),
        seccomp: Some(seccomp),
        ..v1::LinuxContainerSecurityContext::default()
    }
}

/// The security context of a pod's sandbox.
pub(crate) fn sandbox_security(
    pod: &Pod,
    seccomp_settings: SeccompSettings<'_>,
    first_user: Option<u32>,
) -> v1::LinuxSandboxSecurityContext {
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let privileged = lifecycle::pod_containers(pod).any(|container| {
        container.spec.security_context.as_ref().and_then(|context| context.privileged) == Some(true)
    });
    v1::LinuxSandboxSecurityContext {
        namespace_options: Some(namespace_options(pod, first_user)),
        run_as_user: context.and_then(|context| context.run_as_user).map(int64),
        run_as_group: context.and_then(|context| context.run_as_group).map(int64),
        supplemental_groups: supplemental_groups(pod),
        supplemental_groups_policy: groups_policy(pod),
        privileged,
        seccomp: Some(seccomp(
            context.and_then(|context| context.seccomp_profile.as_ref()),
            seccomp_settings,
        )),
        ..v1::LinuxSandboxSecurityContext::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{SeccompSettings, check_run_as_non_root, container_security, file_identity};
    use crate::images::PresentImage;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};
    use std::path::Path;

    fn seccomp_settings() -> SeccompSettings<'static> {
        SeccompSettings { by_default: true, directory: Path::new("/k/seccomp") }
    }

    #[test]
    fn profiles_of_the_node_lie_in_its_directory() {
        let profile = json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/a.json"}});
        let pod = pod(profile, json!({}));
        let container = &pod.spec.as_ref().expect("a spec").containers[0];
        let context = container_security(&pod, container, &image(None, ""), seccomp_settings(), None);
        let profile = context.seccomp.expect("a profile");
        assert_eq!((profile.profile_type, profile.localhost_ref.as_str()), (2, "/k/seccomp/profiles/a.json"));
    }

    fn pod(pod_context: Value, context: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
            "spec": {"securityContext": pod_context, "containers": [{"name": "c", "securityContext": context}]},
        }))
        .expect("a pod")
    }

    fn image(uid: Option<i64>, username: &str) -> PresentImage {
        PresentImage { uid, username: username.to_owned(), ..PresentImage::default() }
    }

    #[test]
    fn who_may_not_be_root_and_would_is_refused_in_kubernetes_words() {
        let rule = json!({"runAsNonRoot": true});
        let rows = [
            (
                rule.clone(),
                json!({"runAsUser": 0}),
                image(None, ""),
                Some("container's runAsUser breaks non-root policy (pod: \"p_ns(u)\", container: c)"),
            ),
            (
                rule.clone(),
                json!({}),
                image(None, ""),
                Some(
                    "container has runAsNonRoot and image will run as root (pod: \"p_ns(u)\", container: c)",
                ),
            ),
            (
                rule.clone(),
                json!({}),
                image(Some(0), ""),
                Some(
                    "container has runAsNonRoot and image will run as root (pod: \"p_ns(u)\", container: c)",
                ),
            ),
            (
                rule.clone(),
                json!({}),
                image(None, "app"),
                Some(
                    "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root (pod: \"p_ns(u)\", container: c)",
                ),
            ),
            (rule.clone(), json!({}), image(Some(7), ""), None),
            (rule.clone(), json!({"runAsUser": 7}), image(Some(0), ""), None),
            (rule, json!({"runAsNonRoot": false}), image(None, ""), None),
        ];
        for (pod_context, context, image, expected) in rows {
            let pod = pod(pod_context, context);
            let container = &pod.spec.as_ref().expect("a spec").containers[0];
            let shown = check_run_as_non_root(&pod, container, &image).err().map(|error| error.to_string());
            assert_eq!(shown.as_deref(), expected);
        }
    }

    #[test]
    fn files_are_read_as_the_containers_user() {
        let rows = [
            (json!({}), json!({}), image(None, ""), (0, 0)),
            (json!({}), json!({}), image(None, "root"), (0, 0)),
            (json!({}), json!({}), image(Some(7), ""), (7, 0)),
            (json!({}), json!({}), image(None, "app"), (65_534, 65_534)),
            (json!({"runAsUser": 5, "runAsGroup": 6}), json!({}), image(Some(7), ""), (5, 6)),
            (json!({"runAsUser": 5}), json!({"runAsUser": 9}), image(None, ""), (9, 0)),
        ];
        for (pod_context, context, image, expected) in rows {
            let pod = pod(pod_context, context);
            let container = &pod.spec.as_ref().expect("a spec").containers[0];
            let identity = file_identity(&pod, container, &image);
            assert_eq!((identity.uid, identity.gid), expected);
        }
    }

    #[test]
    fn a_container_is_confined_unless_it_is_privileged() {
        let confined = pod(json!({}), json!({}));
        let container = &confined.spec.as_ref().expect("a spec").containers[0];
        let context = container_security(&confined, container, &image(None, ""), seccomp_settings(), None);
        assert!(!context.masked_paths.is_empty());
        assert_eq!(context.seccomp.expect("a profile").profile_type, 0, "the runtime's default");
        let privileged = pod(json!({}), json!({"privileged": true}));
        let container = &privileged.spec.as_ref().expect("a spec").containers[0];
        let context = container_security(&privileged, container, &image(None, ""), seccomp_settings(), None);
        assert!(context.privileged && context.masked_paths.is_empty());
        assert_eq!(context.seccomp.expect("a profile").profile_type, 1, "unconfined");
    }
}
