//! The table: one rule for every field of a pod's spec. Rules that support come first, by place; then those that warn; then
//! those that refuse.

use serde_json::Value;

use super::{FieldRule, FieldSupport, FieldValues};
use crate::tree::{entries, text};

const fn shown(place: &'static str, fields: &'static [&'static str], test: &'static str) -> FieldRule {
    FieldRule { place, fields, support: FieldSupport::Supported { test }, values: FieldValues::All }
}

const fn warned(place: &'static str, fields: &'static [&'static str], message: &'static str) -> FieldRule {
    FieldRule { place, fields, support: FieldSupport::Warned { message }, values: FieldValues::All }
}

const fn refused(place: &'static str, fields: &'static [&'static str], message: &'static str) -> FieldRule {
    FieldRule { place, fields, support: FieldSupport::Refused { message }, values: FieldValues::All }
}

impl FieldRule {
    const fn when(mut self, which: fn(&Value) -> bool, sample: &'static str) -> Self {
        self.values = FieldValues::Some { which, sample };
        self
    }
}

/// The test of affinity between pods.
const NEAR_AND_APART: &str =
    "affinities::a_pod_goes_near_those_it_must_be_near_and_away_from_those_it_must_not";

/// The fields of a term of affinity between pods.
const NEAR_FIELDS: &[&str] = &[
    "labelSelector",
    "labelSelector.matchLabels",
    "labelSelector.matchExpressions",
    "labelSelector.matchExpressions[].key",
    "labelSelector.matchExpressions[].operator",
    "labelSelector.matchExpressions[].values",
    "namespaces",
    "topologyKey",
    "namespaceSelector",
    "namespaceSelector.matchLabels",
    "namespaceSelector.matchExpressions",
    "namespaceSelector.matchExpressions[].key",
    "namespaceSelector.matchExpressions[].operator",
    "namespaceSelector.matchExpressions[].values",
];

/// Every rule.
pub const FIELD_RULES: &[FieldRule] = &[
    // The pod.
    shown(
        "",
        &["containers", "initContainers"],
        "containers::init_containers_run_in_order_before_the_others",
    ),
    shown("", &["ephemeralContainers"], "ephemeral_containers::an_ephemeral_container_joins_a_running_pod"),
    shown(
        "container[]",
        &["targetContainerName"],
        "ephemeral_containers::an_ephemeral_container_joins_a_running_pod",
    ),
    shown("", &["volumes"], "volumes::files_appear_with_their_modes_and_change_all_at_once"),
    shown("", &["restartPolicy"], "plans::restart_policies_decide_on_the_exit_status"),
    shown("", &["terminationGracePeriodSeconds"], "life::a_deleted_pod_is_stopped_and_nothing_of_it_is_left"),
    shown("", &["activeDeadlineSeconds"], "life::a_pod_is_not_active_for_longer_than_its_deadline"),
    shown("", &["dnsPolicy", "dnsConfig"], "pod_fields::the_resolver_is_as_asked"),
    shown(
        "dnsConfig",
        &["nameservers", "searches", "options", "options[].name", "options[].value"],
        "pod_fields::the_resolver_is_as_asked",
    ),
    shown(
        "",
        &["serviceAccountName", "serviceAccount", "automountServiceAccountToken"],
        "vectors::create_fills_in_what_the_recorded_server_filled_in",
    ),
    shown("", &["nodeSelector"], "placements::node_selectors_and_required_affinity_choose_nodes"),
    shown("", &["affinity"], "placements::node_selectors_and_required_affinity_choose_nodes"),
    shown("affinity", &["nodeAffinity"], "placements::node_selectors_and_required_affinity_choose_nodes"),
    shown(
        "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        &[
            "nodeSelectorTerms",
            "nodeSelectorTerms[].matchExpressions",
            "nodeSelectorTerms[].matchExpressions[].key",
            "nodeSelectorTerms[].matchExpressions[].operator",
            "nodeSelectorTerms[].matchExpressions[].values",
            "nodeSelectorTerms[].matchFields",
            "nodeSelectorTerms[].matchFields[].key",
            "nodeSelectorTerms[].matchFields[].operator",
            "nodeSelectorTerms[].matchFields[].values",
        ],
        "placements::node_selectors_and_required_affinity_choose_nodes",
    ),
    shown(
        "affinity.nodeAffinity",
        &["requiredDuringSchedulingIgnoredDuringExecution"],
        "placements::node_selectors_and_required_affinity_choose_nodes",
    ),
    shown(
        "affinity.nodeAffinity",
        &["preferredDuringSchedulingIgnoredDuringExecution"],
        "scheduler::the_better_of_the_nodes_that_fit_is_taken",
    ),
    shown(
        "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[]",
        &[
            "weight",
            "preference",
            "preference.matchExpressions",
            "preference.matchExpressions[].key",
            "preference.matchExpressions[].operator",
            "preference.matchExpressions[].values",
            "preference.matchFields",
            "preference.matchFields[].key",
            "preference.matchFields[].operator",
            "preference.matchFields[].values",
        ],
        "scheduler::the_better_of_the_nodes_that_fit_is_taken",
    ),
    shown("affinity", &["betweenPods"], NEAR_AND_APART),
    shown(
        "affinity.betweenPods",
        &[
            "requiredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution[].weight",
            "preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm",
        ],
        NEAR_AND_APART,
    ),
    shown(
        "affinity.betweenPods.requiredDuringSchedulingIgnoredDuringExecution[]",
        NEAR_FIELDS,
        NEAR_AND_APART,
    ),
    shown(
        "affinity.betweenPods.requiredDuringSchedulingIgnoredDuringExecution[]",
        &["matchLabelKeys", "mismatchLabelKeys"],
        "affinities::keys_of_labels_bind_a_term_to_the_pod_s_own_values",
    ),
    shown(
        "affinity.betweenPods.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm",
        NEAR_FIELDS,
        NEAR_AND_APART,
    ),
    shown(
        "affinity.betweenPods.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm",
        &["matchLabelKeys", "mismatchLabelKeys"],
        "affinities::keys_of_labels_bind_a_term_to_the_pod_s_own_values",
    ),
    shown("", &["topologySpreadConstraints"], "spreads::pods_are_spread_as_the_constraint_says"),
    shown(
        "topologySpreadConstraints[]",
        &[
            "maxSkew",
            "topologyKey",
            "whenUnsatisfiable",
            "minDomains",
            "matchLabelKeys",
            "labelSelector",
            "labelSelector.matchLabels",
            "labelSelector.matchExpressions",
            "labelSelector.matchExpressions[].key",
            "labelSelector.matchExpressions[].operator",
            "labelSelector.matchExpressions[].values",
        ],
        "spreads::pods_are_spread_as_the_constraint_says",
    ),
    shown(
        "topologySpreadConstraints[]",
        &["nodeAffinityPolicy", "nodeTaintsPolicy"],
        "spreads::nodes_that_the_pod_cannot_be_on_count_or_not_as_the_policies_say",
    ),
    shown("", &["priorityClassName"], "turns::more_important_pods_come_first_and_then_older_ones"),
    shown("", &["nodeName"], "turns::only_pods_that_wait_for_this_scheduler_are_bound"),
    shown(
        "",
        &["schedulerName", "schedulingGates", "schedulingGates[].name"],
        "turns::only_pods_that_wait_for_this_scheduler_are_bound",
    ),
    shown(
        "",
        &["hostNetwork", "hostPID", "hostIPC"],
        "pod_fields::namespaces_of_the_host_are_shared_when_asked",
    ),
    shown("", &["shareProcessNamespace"], "pod_fields::containers_share_processes_when_asked"),
    shown(
        "",
        &["hostname", "subdomain", "setHostnameAsFQDN", "hostnameOverride"],
        "pod_fields::host_names_are_as_asked",
    ),
    shown(
        "",
        &["hostAliases", "hostAliases[].ip", "hostAliases[].hostnames"],
        "pod_fields::host_aliases_are_in_the_hosts_file",
    ),
    shown("", &["imagePullSecrets", "imagePullSecrets[].name"], "pod_fields::pull_secrets_open_the_registry"),
    shown("", &["enableServiceLinks"], "services::service_links_can_be_switched_off"),
    shown(
        "",
        &["readinessGates", "readinessGates[].conditionType"],
        "statuses::a_pod_with_a_readiness_gate_waits_for_its_condition",
    ),
    shown("", &["hostUsers"], "pod_security::users_of_a_pod_are_not_those_of_the_host"),
    shown("", &["os", "os.name"], "every_field::the_operating_system_is_linux"),
    shown("", &["resources"], "pod_fields::limits_of_the_pod_hold_for_its_containers_together"),
    shown(
        "resources",
        &["limits", "requests"],
        "pod_fields::limits_of_the_pod_hold_for_its_containers_together",
    ),
    shown(
        "",
        &["priority", "preemptionPolicy"],
        "vectors::create_fills_in_what_the_recorded_server_filled_in",
    ),
    // Where the pod may run.
    shown(
        "",
        &[
            "tolerations",
            "tolerations[].key",
            "tolerations[].operator",
            "tolerations[].value",
            "tolerations[].effect",
            "tolerations[].tolerationSeconds",
        ],
        "placements::taints_keep_pods_out_that_do_not_bear_them",
    ),
    // Security of the pod.
    shown("", &["securityContext"], "containers::user_groups_and_capabilities_are_as_asked"),
    shown(
        "securityContext",
        &["runAsUser", "runAsGroup", "supplementalGroups"],
        "containers::user_groups_and_capabilities_are_as_asked",
    ),
    shown("securityContext", &["runAsNonRoot"], "pod_security::who_must_not_be_root_does_not_start"),
    shown(
        "securityContext",
        &["supplementalGroupsPolicy"],
        "pod_security::groups_of_the_image_are_merged_unless_the_policy_is_strict",
    ),
    shown(
        "securityContext",
        &["fsGroup", "fsGroupChangePolicy"],
        "pod_security::volumes_belong_to_the_group_of_the_pod",
    ),
    shown(
        "securityContext",
        &["sysctls", "sysctls[].name", "sysctls[].value"],
        "pod_security::safe_sysctls_are_set_and_others_are_refused",
    ),
    shown(
        "securityContext",
        &["seccompProfile", "seccompProfile.type", "seccompProfile.localhostProfile"],
        "pod_security::seccomp_profiles_are_as_asked",
    ),
    shown(
        "securityContext",
        &["appArmorProfile", "appArmorProfile.type"],
        "every_field::without_apparmor_only_unconfined_is_true",
    ),
    // Containers.
    shown("container[]", &["name", "image"], "containers::the_exit_status_is_that_of_the_container"),
    shown("container[]", &["command", "args"], "expansion::composed_variables_reach_command_and_args"),
    shown("container[]", &["workingDir"], "pod_fields::a_container_starts_in_its_working_directory"),
    shown("container[]", &["ports"], "pod_fields::ports_of_the_host_lead_to_the_pod"),
    shown(
        "container[].ports[]",
        &["name", "hostPort", "containerPort", "protocol", "hostIP"],
        "pod_fields::ports_of_the_host_lead_to_the_pod",
    ),
    shown(
        "container[]",
        &[
            "envFrom",
            "envFrom[].prefix",
            "envFrom[].configMapRef",
            "envFrom[].configMapRef.name",
            "envFrom[].secretRef",
            "envFrom[].secretRef.name",
        ],
        "configmap_secret::env_from_with_prefix_and_key_references",
    ),
    shown(
        "container[]",
        &["envFrom[].configMapRef.optional", "envFrom[].secretRef.optional"],
        "required::each_source_is_listed_once_and_required_if_any_reference_is",
    ),
    shown(
        "container[]",
        &["env", "env[].name", "env[].value"],
        "expansion::the_process_sees_its_variables_in_the_declared_order",
    ),
    shown(
        "container[].env[]",
        &["valueFrom"],
        "downward_api::pod_fields_and_resources_reach_the_environment",
    ),
    shown(
        "container[].env[].valueFrom",
        &[
            "fieldRef",
            "fieldRef.apiVersion",
            "fieldRef.fieldPath",
            "resourceFieldRef",
            "resourceFieldRef.containerName",
            "resourceFieldRef.resource",
            "resourceFieldRef.divisor",
        ],
        "downward_api::pod_fields_and_resources_reach_the_environment",
    ),
    shown(
        "container[].env[].valueFrom",
        &[
            "configMapKeyRef",
            "configMapKeyRef.name",
            "configMapKeyRef.key",
            "secretKeyRef",
            "secretKeyRef.name",
            "secretKeyRef.key",
        ],
        "configmap_secret::env_from_with_prefix_and_key_references",
    ),
    shown(
        "container[].env[].valueFrom",
        &["configMapKeyRef.optional", "secretKeyRef.optional"],
        "required::each_source_is_listed_once_and_required_if_any_reference_is",
    ),
    shown(
        "container[].env[].valueFrom",
        &["fileKeyRef", "fileKeyRef.volumeName", "fileKeyRef.path", "fileKeyRef.key"],
        "file_key::an_init_container_writes_what_a_container_without_shell_consumes",
    ),
    shown(
        "container[].env[].valueFrom",
        &["fileKeyRef.optional"],
        "file_key::scenario_4_an_optional_key_may_be_missing",
    ),
    shown("container[]", &["resources"], "pod_fields::limits_and_requests_reach_the_control_group"),
    shown(
        "container[].resources",
        &["limits", "requests"],
        "pod_fields::limits_and_requests_reach_the_control_group",
    ),
    shown(
        "container[]",
        &[
            "restartPolicy",
            "restartPolicyRules",
            "restartPolicyRules[].action",
            "restartPolicyRules[].exitCodes",
            "restartPolicyRules[].exitCodes.operator",
            "restartPolicyRules[].exitCodes.values",
        ],
        "plans::a_containers_own_policy_and_rules_come_before_the_pods",
    ),
    shown(
        "container[]",
        &["volumeMounts", "volumeMounts[].name", "volumeMounts[].mountPath", "volumeMounts[].readOnly"],
        "pod_volumes::a_read_only_mount_cannot_be_written",
    ),
    shown(
        "container[].volumeMounts[]",
        &["recursiveReadOnly"],
        "pod_volumes::a_recursive_read_only_mount_is_read_only_all_the_way_down",
    ),
    shown(
        "container[].volumeMounts[]",
        &["mountPropagation"],
        "pod_volumes::mounts_travel_as_their_propagation_says",
    ),
    shown(
        "container[].volumeMounts[]",
        &["subPath", "subPathExpr"],
        "pod_volumes::sub_paths_are_parts_of_a_volume",
    ),
    shown(
        "container[]",
        &["probe", "probe.failureThreshold", "probe.periodSeconds", "probe.successThreshold"],
        "probes::thresholds_and_periods_decide_when_a_result_counts",
    ),
    shown(
        "container[].probe",
        &["initialDelaySeconds"],
        "probes::an_initial_delay_comes_before_the_first_attempt",
    ),
    shown("container[].probe", &["timeoutSeconds"], "probes::a_probe_that_takes_too_long_has_failed"),
    shown(
        "container[].probe",
        &["terminationGracePeriodSeconds"],
        "probes::a_probes_own_grace_period_replaces_that_of_the_pod",
    ),
    shown("container[].probe", &["exec", "exec.command"], "probes::a_command_decides_over_readiness"),
    shown(
        "container[].probe",
        &[
            "httpGet",
            "httpGet.path",
            "httpGet.port",
            "httpGet.host",
            "httpGet.scheme",
            "httpGet.httpHeaders",
            "httpGet.httpHeaders[].name",
            "httpGet.httpHeaders[].value",
        ],
        "probes::http_probes_ask_inside_the_pod",
    ),
    shown(
        "container[].probe",
        &["tcpSocket", "tcpSocket.port", "tcpSocket.host"],
        "probes::tcp_probes_connect_inside_the_pod",
    ),
    shown(
        "container[].probe",
        &["grpc", "grpc.port", "grpc.service"],
        "probes::grpc_probes_ask_the_health_service",
    ),
    shown(
        "container[]",
        &["lifecycle", "lifecycle.hook", "lifecycle.hook.exec", "lifecycle.hook.exec.command"],
        "hooks_and_probes::hooks_run_after_the_start_and_before_the_stop",
    ),
    shown(
        "container[].lifecycle.hook",
        &[
            "httpGet",
            "httpGet.path",
            "httpGet.port",
            "httpGet.host",
            "httpGet.scheme",
            "httpGet.httpHeaders",
            "httpGet.httpHeaders[].name",
            "httpGet.httpHeaders[].value",
        ],
        "hooks_and_probes::hooks_run_after_the_start_and_before_the_stop",
    ),
    shown(
        "container[].lifecycle.hook",
        &["sleep", "sleep.seconds"],
        "hooks_and_probes::a_pre_stop_sleep_is_part_of_the_grace",
    ),
    shown(
        "container[].lifecycle",
        &["stopSignal"],
        "pod_fields::a_container_is_stopped_by_the_signal_it_asks_for",
    ),
    shown(
        "container[]",
        &["terminationMessagePath", "terminationMessagePolicy"],
        "pod_fields::a_container_leaves_its_last_words",
    ),
    shown("container[]", &["imagePullPolicy"], "life::images_are_pulled_by_policy_and_failures_back_off"),
    shown(
        "container[]",
        &["stdin", "stdinOnce", "tty"],
        "pod_fields::standard_input_and_terminals_are_as_asked",
    ),
    // Security of containers.
    shown("container[]", &["securityContext"], "containers::user_groups_and_capabilities_are_as_asked"),
    shown(
        "container[].securityContext",
        &["runAsUser", "runAsGroup"],
        "pod_security::a_containers_own_user_comes_before_the_pods",
    ),
    shown(
        "container[].securityContext",
        &["runAsNonRoot"],
        "pod_security::who_must_not_be_root_does_not_start",
    ),
    shown(
        "container[].securityContext",
        &["capabilities", "capabilities.add", "capabilities.drop"],
        "pod_security::capabilities_are_added_and_dropped",
    ),
    shown(
        "container[].securityContext",
        &["privileged"],
        "pod_security::a_privileged_container_is_not_confined",
    ),
    shown(
        "container[].securityContext",
        &["readOnlyRootFilesystem"],
        "pod_security::the_root_file_system_is_read_only_when_asked",
    ),
    shown(
        "container[].securityContext",
        &["allowPrivilegeEscalation"],
        "containers::user_groups_and_capabilities_are_as_asked",
    ),
    shown(
        "container[].securityContext",
        &["procMount"],
        "pod_security::proc_is_masked_unless_the_pod_has_its_own_users",
    ),
    shown(
        "container[].securityContext",
        &["seccompProfile", "seccompProfile.type", "seccompProfile.localhostProfile"],
        "pod_security::seccomp_profiles_are_as_asked",
    ),
    shown(
        "container[].securityContext",
        &["appArmorProfile", "appArmorProfile.type"],
        "every_field::without_apparmor_only_unconfined_is_true",
    ),
    // Volumes.
    shown("volumes[]", &["name"], "volumes::files_appear_with_their_modes_and_change_all_at_once"),
    shown(
        "volumes[]",
        &["emptyDir", "emptyDir.medium"],
        "volumes::an_empty_dir_in_memory_has_its_size_and_goes_away",
    ),
    shown(
        "volumes[]",
        &["emptyDir.sizeLimit"],
        "containers::an_empty_dir_over_its_size_limit_evicts_its_pod",
    ),
    shown(
        "volumes[]",
        &["persistentVolumeClaim", "persistentVolumeClaim.claimName", "persistentVolumeClaim.readOnly"],
        "claims::what_is_written_to_a_claim_is_kept_for_the_next_pod_until_the_claim_is_deleted",
    ),
    shown(
        "volumes[]",
        &["ephemeral", "ephemeral.volumeClaimTemplate"],
        "claims::an_ephemeral_volume_goes_with_its_pod",
    ),
    // They make the claim, which is checked and answered as any other.
    shown(
        "volumes[].ephemeral.volumeClaimTemplate",
        &[
            "metadata",
            "metadata.name",
            "metadata.generateName",
            "metadata.namespace",
            "metadata.selfLink",
            "metadata.uid",
            "metadata.resourceVersion",
            "metadata.generation",
            "metadata.creationTimestamp",
            "metadata.deletionTimestamp",
            "metadata.deletionGracePeriodSeconds",
            "metadata.labels",
            "metadata.annotations",
            "metadata.ownerReferences",
            "metadata.ownerReferences[].apiVersion",
            "metadata.ownerReferences[].kind",
            "metadata.ownerReferences[].name",
            "metadata.ownerReferences[].uid",
            "metadata.ownerReferences[].controller",
            "metadata.ownerReferences[].blockOwnerDeletion",
            "metadata.finalizers",
            "metadata.managedFields",
            "metadata.managedFields[].manager",
            "metadata.managedFields[].operation",
            "metadata.managedFields[].apiVersion",
            "metadata.managedFields[].time",
            "metadata.managedFields[].fieldsType",
            "metadata.managedFields[].fieldsV1",
            "metadata.managedFields[].subresource",
            "spec",
            "spec.accessModes",
            "spec.selector",
            "spec.selector.matchLabels",
            "spec.selector.matchExpressions",
            "spec.selector.matchExpressions[].key",
            "spec.selector.matchExpressions[].operator",
            "spec.selector.matchExpressions[].values",
            "spec.resources",
            "spec.resources.limits",
            "spec.resources.requests",
            "spec.volumeName",
            "spec.storageClassName",
            "spec.volumeMode",
            "spec.dataSource",
            "spec.dataSource.apiGroup",
            "spec.dataSource.kind",
            "spec.dataSource.name",
            "spec.dataSourceRef",
            "spec.dataSourceRef.apiGroup",
            "spec.dataSourceRef.kind",
            "spec.dataSourceRef.name",
            "spec.dataSourceRef.namespace",
            "spec.volumeAttributesClassName",
        ],
        "claims::an_ephemeral_volume_goes_with_its_pod",
    ),
    shown(
        "volumes[]",
        &["hostPath", "hostPath.path", "hostPath.type"],
        "volumes::host_paths_are_checked_by_type",
    ),
    shown(
        "volumes[]",
        &[
            "configMap",
            "configMap.name",
            "configMap.items",
            "configMap.items[].key",
            "configMap.items[].path",
            "configMap.items[].mode",
            "configMap.defaultMode",
            "secret",
            "secret.secretName",
            "secret.items",
            "secret.items[].key",
            "secret.items[].path",
            "secret.items[].mode",
            "secret.defaultMode",
        ],
        "configmap_secret::volumes_hold_keys_as_files_with_their_modes",
    ),
    shown(
        "volumes[]",
        &["configMap.optional", "secret.optional"],
        "volumes::items_choose_keys_and_a_missing_one_is_an_error_unless_optional",
    ),
    shown(
        "volumes[]",
        &[
            "downwardAPI",
            "downwardAPI.items",
            "downwardAPI.items[].path",
            "downwardAPI.items[].fieldRef",
            "downwardAPI.items[].fieldRef.apiVersion",
            "downwardAPI.items[].fieldRef.fieldPath",
            "downwardAPI.items[].resourceFieldRef",
            "downwardAPI.items[].resourceFieldRef.containerName",
            "downwardAPI.items[].resourceFieldRef.resource",
            "downwardAPI.items[].resourceFieldRef.divisor",
            "downwardAPI.items[].mode",
            "downwardAPI.defaultMode",
        ],
        "pod_volumes::volumes_follow_what_they_show",
    ),
    shown(
        "volumes[]",
        &[
            "projected",
            "projected.sources",
            "projected.defaultMode",
            "projected.sources[].secret",
            "projected.sources[].secret.name",
            "projected.sources[].secret.items",
            "projected.sources[].secret.items[].key",
            "projected.sources[].secret.items[].path",
            "projected.sources[].secret.items[].mode",
            "projected.sources[].secret.optional",
            "projected.sources[].configMap",
            "projected.sources[].configMap.name",
            "projected.sources[].configMap.items",
            "projected.sources[].configMap.items[].key",
            "projected.sources[].configMap.items[].path",
            "projected.sources[].configMap.items[].mode",
            "projected.sources[].configMap.optional",
            "projected.sources[].downwardAPI",
            "projected.sources[].downwardAPI.items",
            "projected.sources[].downwardAPI.items[].path",
            "projected.sources[].downwardAPI.items[].fieldRef",
            "projected.sources[].downwardAPI.items[].fieldRef.apiVersion",
            "projected.sources[].downwardAPI.items[].fieldRef.fieldPath",
            "projected.sources[].downwardAPI.items[].resourceFieldRef",
            "projected.sources[].downwardAPI.items[].resourceFieldRef.containerName",
            "projected.sources[].downwardAPI.items[].resourceFieldRef.resource",
            "projected.sources[].downwardAPI.items[].resourceFieldRef.divisor",
            "projected.sources[].downwardAPI.items[].mode",
        ],
        "pod_volumes::a_projected_volume_joins_its_sources",
    ),
    // What has no effect, or makes the pod wait, is said.
    warned("", &["schedulingGroup"], "has no effect: pods are scheduled one by one"),
    warned(
        "container[]",
        &["resizePolicy"],
        "has no effect: resources of a running pod cannot be changed on this node",
    )
    .when(asks_for_a_restart, r#"[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]"#),
    warned("securityContext", &["seLinuxOptions", "seLinuxChangePolicy"], NO_SELINUX),
    warned("container[].securityContext", &["seLinuxOptions"], NO_SELINUX),
    warned("securityContext", &["windowsOptions"], NO_WINDOWS),
    warned("container[].securityContext", &["windowsOptions"], NO_WINDOWS),
    warned(
        "container[].lifecycle.hook",
        &["tcpSocket"],
        "no version of Kubernetes runs such a hook: it always fails",
    ),
    warned(
        "container[].resources",
        &["limits", "requests"],
        "this node has no extended resources and no huge pages: the pod will not run",
    )
    .when(has_unknown_resources, r#"{"example.com/device": "1"}"#),
    warned(
        "volumes[]",
        &[
            "awsElasticBlockStore",
            "azureDisk",
            "azureFile",
            "cephfs",
            "cinder",
            "csi",
            "fc",
            "flexVolume",
            "flocker",
            "gcePersistentDisk",
            "gitRepo",
            "glusterfs",
            "image",
            "iscsi",
            "nfs",
            "photonPersistentDisk",
            "portworxVolume",
            "quobyte",
            "rbd",
            "scaleIO",
            "storageos",
            "vsphereVolume",
        ],
        "this node has no volumes of this kind: the pod will wait for it for ever; emptyDir, hostPath, configMap, secret, \
         downwardAPI, projected, persistentVolumeClaim and ephemeral work",
    ),
    warned(
        "volumes[].emptyDir",
        &["medium"],
        "this node has no huge pages: the pod will wait for the volume for ever",
    )
    .when(|medium| text(medium).starts_with("HugePages"), r#""HugePages""#),
    // The volume that admission itself adds to every pod is no surprise to anybody: it asks for a lifetime that nobody else
    // asks for.
    warned(
        "volumes[].projected.sources[]",
        &["serviceAccountToken"],
        "this node issues no tokens: the file is left out",
    )
    .when(|token| token["expirationSeconds"] != 3607, r#"{"path": "token"}"#),
    warned(
        "volumes[].projected.sources[]",
        &["clusterTrustBundle", "podCertificate"],
        "this node has no source of this kind: the pod will wait for the volume for ever",
    ),
    // What cannot be, or would be less safe than its author thinks, is refused.
    refused(
        "",
        &["runtimeClassName"],
        "pod rejected: RuntimeClass not found; this node has one way to run containers, which has no name",
    ),
    refused(
        "",
        &["overhead"],
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
    ),
    refused("", &["resourceClaims"], NO_CLAIMS),
    refused("resources", &["claims"], NO_CLAIMS),
    refused("container[].resources", &["claims"], NO_CLAIMS),
    refused("container[]", &["volumeDevices"], "this node has no block volumes; mount a file system instead"),
    refused("os", &["name"], "this node runs Linux containers only")
        .when(|name| text(name) != "linux", r#""windows""#),
    refused("securityContext.appArmorProfile", &["type"], NO_APPARMOR).when(confines, r#""RuntimeDefault""#),
    refused("container[].securityContext.appArmorProfile", &["type"], NO_APPARMOR)
        .when(confines, r#""RuntimeDefault""#),
    refused("securityContext.appArmorProfile", &["localhostProfile"], NO_APPARMOR),
    refused("container[].securityContext.appArmorProfile", &["localhostProfile"], NO_APPARMOR),
];

const NO_SELINUX: &str = "has no effect: containers of this node have no SELinux labels";
const NO_WINDOWS: &str = "has no effect: this node runs Linux containers only";
const NO_CLAIMS: &str = "this node has no devices that could be claimed";
const NO_APPARMOR: &str = "this node does not apply AppArmor profiles; only Unconfined is true here";

fn confines(profile: &Value) -> bool {
    text(profile) != "Unconfined"
}

fn asks_for_a_restart(policies: &Value) -> bool {
    crate::tree::items(policies).iter().any(|policy| text(&policy["restartPolicy"]) != "NotRequired")
}

fn has_unknown_resources(amounts: &Value) -> bool {
    entries(amounts).iter().any(|(name, _)| name.contains('/') || name.starts_with("hugepages-"))
}
