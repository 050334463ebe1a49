//! The downward API: fields of the pod and resources of a container.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ObjectFieldSelector, ResourceFieldSelector, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WrittenQuantity;
use quantity::{Quantity, ResourceUnit};

use super::Resolver;
use crate::error::FieldRefError;
use crate::text::{quoted, short_label};
use crate::{Availability, FindingCode, Origin, Part, ResolveProblem, Value};

/// Fields that exist in a pod and that `env` may not use.
const NOT_FOR_VARIABLES: &[&str] =
    &["metadata.labels", "metadata.annotations", "spec.restartPolicy", "spec.schedulerName", "status.phase"];

/// A readable field of a pod.
enum Field<'p> {
    Label(&'p str),
    Annotation(&'p str),
    Plain(&'p str),
}

/// Reads a field path, in the order in which Kubernetes checks it.
fn parse_field(path: &str) -> Result<Field<'_>, FieldRefError> {
    let subscript = path
        .split_once("['")
        .and_then(|(field, rest)| rest.strip_suffix("']").map(|key| (field, key)))
        .filter(|(field, _)| !field.is_empty());
    match (subscript, path) {
        (Some(("metadata.labels", key)), _) => Ok(Field::Label(key)),
        (Some(("metadata.annotations", key)), _) => Ok(Field::Annotation(key)),
        (Some((field, _)), _) => Err(FieldRefError::NoSubscript(field.to_owned())),
        (None, "spec.host") => Ok(Field::Plain("spec.nodeName")),
        (
            None,
            "metadata.name"
            | "metadata.namespace"
            | "metadata.uid"
            | "spec.nodeName"
            | "spec.serviceAccountName"
            | "status.hostIP"
            | "status.hostIPs"
            | "status.podIP"
            | "status.podIPs",
        ) => Ok(Field::Plain(path)),
        (None, _) if NOT_FOR_VARIABLES.contains(&path) => {
            Err(FieldRefError::NotForVariables(path.to_owned()))
        }
        (None, _) => Err(FieldRefError::UnknownField(path.to_owned())),
    }
}

impl<'a> Resolver<'a> {
    pub(super) fn add_field(&mut self, index: usize, name: &'a str, reference: &'a ObjectFieldSelector) {
        let origin = Origin::FieldRef { index, field_path: reference.field_path.as_str().into() };
        let field = format!("{}.env[{index}].valueFrom.fieldRef", self.path);
        let version = reference.api_version.as_deref().unwrap_or_default();
        let parsed = if version.is_empty() || version == "v1" {
            parse_field(&reference.field_path)
        } else {
            Err(FieldRefError::UnsupportedVersion(version.to_owned()))
        };
        let value = match parsed {
            Ok(parsed) => self.read_field(parsed, &field, name),
            Err(error) => {
                self.fail(ResolveProblem::Field(error), format!("{field}.fieldPath"));
                return self.define_refused(name, origin);
            }
        };
        if let Value::Plain(text) = &value
            && text.as_bytes().contains(&0)
        {
            let subject = crate::error::Subject::Variable(name.to_owned());
            self.fail(ResolveProblem::Nul(subject), field);
            return self.define_refused(name, origin);
        }
        if self.admit(name, super::compose::known_size(&value), || field) {
            self.define(name, value, origin, Vec::new());
        } else {
            self.define_refused(name, origin);
        }
    }

    fn read_field(&mut self, parsed: Field<'_>, field: &str, variable: &str) -> Value {
        let metadata = &self.pod.metadata;
        let spec = self.pod.spec.as_ref();
        let known = |text: Option<&str>, label: &str| match text {
            Some(text) if !text.is_empty() => Value::plain(text.to_owned()),
            _ => unknown(label),
        };
        match parsed {
            Field::Label(key) => {
                let found = metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
                self.or_empty(found, "label", key, field, variable)
            }
            Field::Annotation(key) => {
                let found = metadata.annotations.as_ref().and_then(|found| found.get(key)).cloned();
                self.or_empty(found, "annotation", key, field, variable)
            }
            Field::Plain("metadata.name") => {
                match (metadata.name.as_deref(), metadata.generate_name.as_deref()) {
                    (None | Some(""), Some(prefix)) if !prefix.is_empty() => Value::Composed(vec![
                        Part::Plain(prefix.to_owned()),
                        Part::UnknownUntilRun { label: "suffix".to_owned() },
                    ]),
                    (name, _) => known(name, "metadata.name"),
                }
            }
            Field::Plain("metadata.namespace") => Value::plain(self.namespace.to_owned()),
            Field::Plain("metadata.uid") => known(metadata.uid.as_deref(), "metadata.uid"),
            Field::Plain("spec.nodeName") => {
                known(spec.and_then(|spec| spec.node_name.as_deref()), "spec.nodeName")
            }
            Field::Plain("spec.serviceAccountName") => {
                // The API server fills in `default`.
                let account = spec.and_then(|spec| spec.service_account_name.as_deref());
                let account = account.or_else(|| spec.and_then(|spec| spec.service_account.as_deref()));
                Value::plain(account.filter(|name| !name.is_empty()).unwrap_or("default").to_owned())
            }
            Field::Plain(path) => match (self.addresses(path), path) {
                (None, _) => unknown(path),
                (Some(addresses), "status.hostIP" | "status.podIP") => {
                    addresses.first().map_or_else(|| unknown(path), |first| Value::plain(first.clone()))
                }
                (Some(addresses), _) => Value::plain(addresses.join(",")),
            },
        }
    }

    fn or_empty(
        &mut self,
        found: Option<String>,
        what: &str,
        key: &str,
        field: &str,
        variable: &str,
    ) -> Value {
        let text = found.unwrap_or_else(|| {
            let message = format!("the pod has no {what} {}; the value is empty", quoted(key));
            let hint = format!("set the {what} on the pod (for a workload: on its template)");
            self.inform(FindingCode::FieldEmpty, format!("{field}.fieldPath"), variable, message, &hint);
            String::new()
        });
        Value::plain(text)
    }

    /// The addresses behind a `status.` field, if they are known.
    fn addresses(&self, path: &str) -> Option<Vec<String>> {
        let status = self.pod.status.as_ref();
        let of_status = |list: Vec<String>, single: Option<&String>| match (list.is_empty(), single) {
            (false, _) => Some(list),
            (true, Some(single)) if !single.is_empty() => Some(vec![single.clone()]),
            (true, _) => None,
        };
        let hosts = match &self.sources.host_ips {
            Availability::Present(list) => Some(list.clone()),
            _ => status.and_then(|status| {
                let list = status.host_ips.iter().flatten().map(|host| host.ip.clone()).collect();
                of_status(list, status.host_ip.as_ref())
            }),
        };
        if path.starts_with("status.host") {
            return hosts;
        }
        let host_network = self.pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or(false);
        let pods = match &self.sources.pod_ips {
            Availability::Present(list) => Some(list.clone()),
            _ => status.and_then(|status| {
                let list = status.pod_ips.iter().flatten().map(|pod| pod.ip.clone()).collect();
                of_status(list, status.pod_ip.as_ref())
            }),
        };
        let pods = if host_network && pods.is_none() { hosts.clone() } else { pods };
        pods.map(|pods| usable_addresses(&pods, hosts.as_deref().unwrap_or_default()))
    }

    pub(super) fn add_resource(&mut self, index: usize, name: &'a str, reference: &'a ResourceFieldSelector) {
        let field = format!("{}.env[{index}].valueFrom.resourceFieldRef", self.path);
        let own = self.container.name;
        let container = reference.container_name.as_deref().filter(|name| !name.is_empty()).unwrap_or(own);
        let divisor = reference.divisor.as_ref().map_or("", |divisor| divisor.0.as_str());
        let origin = Origin::ResourceFieldRef {
            index,
            container: container.into(),
            resource: reference.resource.as_str().into(),
            divisor: divisor.into(),
        };
        match self.read_resource(container, &reference.resource, divisor) {
            Ok(value) => {
                if self.admit(name, super::compose::known_size(&value), || field) {
                    self.define(name, value, origin, Vec::new());
                }
            }
            Err(problem) => {
                let member = match &problem {
                    ResolveProblem::ContainerNotFound(_) => "containerName",
                    ResolveProblem::InvalidQuantity { .. } => "divisor",
                    _ => "resource",
                };
                self.fail(problem, format!("{field}.{member}"));
                self.define_refused(name, origin);
            }
        }
    }

    fn read_resource(&self, container: &str, resource: &str, divisor: &str) -> Result<Value, ResolveProblem> {
        let resources = if container == self.container.name {
            self.container.resources
        } else {
            self.resources_of(container)
                .ok_or_else(|| ResolveProblem::ContainerNotFound(container.to_owned()))?
        };
        let unsupported = || ResolveProblem::UnsupportedResource(resource.to_owned());
        let (list, kind) = resource.split_once('.').ok_or_else(unsupported)?;
        let known = matches!(kind, "cpu" | "memory" | "ephemeral-storage") || kind.starts_with("hugepages-");
        if !known {
            return Err(unsupported());
        }
        let limit = set_amount(resources.and_then(|resources| resources.limits.as_ref()), kind)?;
        let amount = match list {
            "limits" => match limit {
                Some(limit) => limit,
                None => match self.default_limit(kind)? {
                    Some(limit) => limit,
                    None => return Ok(unknown(&format!("node allocatable {kind}"))),
                },
            },
            // The API server fills in the limit where no request is given.
            "requests" => set_amount(resources.and_then(|resources| resources.requests.as_ref()), kind)?
                .or(limit)
                .unwrap_or(Quantity::ZERO),
            _ => return Err(unsupported()),
        };
        let divisor = if divisor.is_empty() { Quantity::ZERO } else { parse_quantity(divisor)? };
        if divisor.is_negative() {
            let text = divisor.to_string();
            return Err(ResolveProblem::InvalidQuantity { text, error: quantity::QuantityError::Numeric });
        }
        Ok(Value::plain(amount.ceil_divide(&divisor, ResourceUnit::of(kind)).to_string()))
    }

    /// The limit of a container that sets none: the pod's, else what the node can give. `None` when that is
    /// not known yet.
    fn default_limit(&self, kind: &str) -> Result<Option<Quantity>, ResolveProblem> {
        if kind.starts_with("hugepages-") {
            return Ok(Some(Quantity::ZERO));
        }
        let of_pod = self.pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
        if let Some(limit) = set_amount(of_pod.and_then(|resources| resources.limits.as_ref()), kind)? {
            return Ok(Some(limit));
        }
        match &self.sources.node_allocatable {
            Availability::Present(allocatable) => {
                Ok(Some(set_amount(Some(allocatable), kind)?.unwrap_or(Quantity::ZERO)))
            }
            Availability::Absent | Availability::Unavailable(_) => Err(ResolveProblem::NodeNotFound),
            Availability::NotInInput | Availability::UnknownUntilRun => Ok(None),
        }
    }

    fn resources_of(&self, name: &str) -> Option<Option<&'a ResourceRequirements>> {
        let spec = self.pod.spec.as_ref()?;
        let mut all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        all.find(|container| container.name == name).map(|container| container.resources.as_ref())
    }
}

/// The amount of a resource in a list; zero counts as not set, as in Kubernetes.
fn set_amount(
    list: Option<&BTreeMap<String, WrittenQuantity>>,
    kind: &str,
) -> Result<Option<Quantity>, ResolveProblem> {
    let Some(written) = list.and_then(|list| list.get(kind)) else { return Ok(None) };
    Ok(Some(parse_quantity(&written.0)?).filter(|amount| !amount.is_zero()))
}

fn parse_quantity(text: &str) -> Result<Quantity, ResolveProblem> {
    Quantity::parse(text).map_err(|error| ResolveProblem::InvalidQuantity { text: text.to_owned(), error })
}

/// Invalid addresses are dropped, one of each family is kept, the family of the node's primary address first,
/// in normalised text form.
fn usable_addresses(pods: &[String], hosts: &[String]) -> Vec<String> {
    let parsed: Vec<IpAddr> = pods.iter().filter_map(|text| text.parse().ok()).collect();
    let primary_is_v6 =
        hosts.first().and_then(|text| text.parse::<IpAddr>().ok()).is_some_and(|ip| ip.is_ipv6());
    let of_family =
        |v6: bool| parsed.iter().find(move |address| address.is_ipv6() == v6).map(IpAddr::to_string);
    [of_family(primary_is_v6), of_family(!primary_is_v6)].into_iter().flatten().collect()
}

fn unknown(label: &str) -> Value {
    Value::Composed(vec![Part::UnknownUntilRun { label: short_label(label) }])
}
