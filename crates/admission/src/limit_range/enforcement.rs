//! What LimitRanges do to new pods and claims: fill in amounts, refuse those outside of the limits.

use quantity::Quantity;
use serde_json::Value;

use crate::amounts::{Amounts, amounts, asked_by_pod};
use crate::tree::{entries, is_set, items, items_mut, object_field, text};

/// Says on a pod what was filled in.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Gives the containers of a pod the amounts that they do not say.
pub(crate) fn fill_in(pod: &mut Value, ranges: &[Value]) {
    for range in ranges {
        let mut told = Vec::new();
        for (list, words) in [("containers", "container"), ("initContainers", "init container")] {
            for container in items_mut(&mut pod["spec"], list) {
                fill_in_container(container, words, range, &mut told);
            }
        }
        if !told.is_empty() {
            let sentence = format!("LimitRanger plugin set: {}", told.join("; "));
            object_field(&mut pod["metadata"], "annotations").insert(ANNOTATION.to_owned(), sentence.into());
        }
    }
}

fn fill_in_container(container: &mut Value, words: &str, range: &Value, told: &mut Vec<String>) {
    let name = text(&container["name"]).to_owned();
    for (from, list, what) in [("defaultRequest", "requests", "request"), ("default", "limits", "limit")] {
        let mut set = Vec::new();
        for item in items(&range["spec"]["limits"]).iter().filter(|item| text(&item["type"]) == "Container") {
            for (resource, amount) in entries(&item[from]) {
                if !is_set(&container["resources"][list][resource.as_str()]) {
                    object_field(container, "resources");
                    object_field(&mut container["resources"], list).insert(resource.clone(), amount.clone());
                    set.push(resource.as_str());
                }
            }
        }
        if !set.is_empty() {
            set.sort_unstable();
            told.push(format!("{} {what} for {words} {name}", set.join(", ")));
        }
    }
}

/// Why a pod may not be created in a namespace with these LimitRanges; the first range that refuses it says everything.
#[must_use]
pub fn pod_refusal(ranges: &[Value], pod: &Value) -> Option<String> {
    ranges.iter().find_map(|range| {
        let mut told = Vec::new();
        for item in items(&range["spec"]["limits"]) {
            match text(&item["type"]) {
                "Container" => {
                    for list in ["containers", "initContainers"] {
                        for container in items(&pod["spec"][list]) {
                            let resources = &container["resources"];
                            let (requests, limits) =
                                (amounts(&resources["requests"]), amounts(&resources["limits"]));
                            refuse(&mut told, item, &requests, &limits);
                        }
                    }
                }
                "Pod" => {
                    let (requests, limits) =
                        (asked_by_pod(&pod["spec"], "requests"), asked_by_pod(&pod["spec"], "limits"));
                    refuse(&mut told, item, &requests, &limits);
                }
                _ => {}
            }
        }
        aggregate(told)
    })
}

/// Why a claim may not be created or grow in a namespace with these LimitRanges.
#[must_use]
pub fn claim_refusal(ranges: &[Value], claim: &Value) -> Option<String> {
    let requests = amounts(&claim["spec"]["resources"]["requests"]);
    ranges.iter().find_map(|range| {
        let mut told = Vec::new();
        let items = items(&range["spec"]["limits"]).iter();
        for item in items.filter(|item| text(&item["type"]) == "PersistentVolumeClaim") {
            for (name, least) in amounts(&item["min"]) {
                told.extend(below(&Limit { name: &name, item, bound: &least }, &requests, &Amounts::new()));
            }
            for (name, most) in amounts(&item["max"]) {
                let limit = Limit { name: &name, item, bound: &most };
                match requests.get(&name) {
                    None => told.push(limit.sentence("maximum", ".  No request is specified")),
                    Some(request) if *request > most => {
                        told.push(limit.sentence("maximum", &format!(", but request is {request}")));
                    }
                    Some(_) => {}
                }
            }
        }
        aggregate(told)
    })
}

/// One bound of one item.
struct Limit<'l> {
    name: &'l str,
    item: &'l Value,
    bound: &'l Quantity,
}

impl Limit<'_> {
    fn sentence(&self, which: &str, rest: &str) -> String {
        format!("{which} {} usage per {} is {}{rest}", self.name, text(&self.item["type"]), self.bound)
    }
}

fn refuse(told: &mut Vec<String>, item: &Value, requests: &Amounts, limits: &Amounts) {
    for (name, least) in amounts(&item["min"]) {
        told.extend(below(&Limit { name: &name, item, bound: &least }, requests, limits));
    }
    for (name, most) in amounts(&item["max"]) {
        told.extend(above(&Limit { name: &name, item, bound: &most }, requests, limits));
    }
    for (name, ratio) in amounts(&item["maxLimitRequestRatio"]) {
        told.extend(ratio_refusal(&Limit { name: &name, item, bound: &ratio }, requests, limits));
    }
}

fn below(limit: &Limit<'_>, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let Some(request) = requests.get(limit.name) else {
        return Some(limit.sentence("minimum", ".  No request is specified"));
    };
    if request < limit.bound {
        return Some(limit.sentence("minimum", &format!(", but request is {request}")));
    }
    let own = limits.get(limit.name).filter(|own| *own < limit.bound)?;
    Some(limit.sentence("minimum", &format!(", but limit is {own}")))
}

fn above(limit: &Limit<'_>, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let Some(own) = limits.get(limit.name) else {
        return Some(limit.sentence("maximum", ".  No limit is specified"));
    };
    if own > limit.bound {
        return Some(limit.sentence("maximum", &format!(", but limit is {own}")));
    }
    let request = requests.get(limit.name).filter(|request| *request > limit.bound)?;
    Some(limit.sentence("maximum", &format!(", but request is {request}")))
}

fn ratio_refusal(limit: &Limit<'_>, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let sentence = |rest: &str| {
        let kind = text(&limit.item["type"]);
        Some(format!("{} max limit to request ratio per {kind} is {}, but {rest}", limit.name, limit.bound))
    };
    let positive = |amounts: &Amounts| amounts.get(limit.name).copied().filter(|amount| !amount.is_zero());
    let Some(request) = positive(requests) else {
        return sentence("no request is specified or request is 0");
    };
    let Some(own) = positive(limits) else { return sentence("no limit is specified or limit is 0") };
    let too_much = own.millis().saturating_mul(1000) > request.millis().saturating_mul(limit.bound.millis());
    // Only printed: rounding does no harm.
    #[expect(clippy::cast_precision_loss, reason = "printed with six digits")]
    let ratio = own.millis() as f64 / request.millis() as f64;
    if too_much { sentence(&format!("provided ratio is {ratio:.6}")) } else { None }
}

/// Several sentences as one, as Go's aggregates are printed.
fn aggregate(mut sentences: Vec<String>) -> Option<String> {
    let mut seen = std::collections::BTreeSet::new();
    sentences.retain(|sentence| seen.insert(sentence.clone()));
    match sentences.len() {
        0 => None,
        1 => sentences.pop(),
        _ => Some(format!("[{}]", sentences.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn range(item: Value) -> Vec<Value> {
        vec![json!({"spec": {"limits": [item]}})]
    }

    #[test]
    fn containers_get_what_they_do_not_say_and_it_is_noted() {
        let ranges = range(
            json!({"type": "Container", "default": {"cpu": "1", "memory": "64Mi"}, "defaultRequest": {"cpu": "100m"}}),
        );
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}], "initContainers": [{"name": "i"}]}});
        fill_in(&mut pod, &ranges);
        assert_eq!(
            pod["spec"]["containers"][0]["resources"],
            json!({"limits": {"cpu": "2", "memory": "64Mi"}, "requests": {"cpu": "100m"}})
        );
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu request for container a; memory limit for container a; \
             cpu request for init container i; cpu, memory limit for init container i"
        );
    }

    #[test]
    fn refusals_have_the_words_of_kubernetes() {
        let pod = json!({"spec": {"containers": [{"name": "a",
            "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "2"}}}]}});
        let table = [
            (
                json!({"type": "Container", "max": {"cpu": "1"}}),
                Some("maximum cpu usage per Container is 1, but limit is 2"),
            ),
            (
                json!({"type": "Container", "min": {"cpu": "200m"}}),
                Some("minimum cpu usage per Container is 200m, but request is 100m"),
            ),
            (
                json!({"type": "Container", "max": {"memory": "1Gi"}}),
                Some("maximum memory usage per Container is 1Gi.  No limit is specified"),
            ),
            (
                json!({"type": "Container", "min": {"memory": "1Gi"}}),
                Some("minimum memory usage per Container is 1Gi.  No request is specified"),
            ),
            (
                json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}),
                Some("cpu max limit to request ratio per Container is 2, but provided ratio is 20.000000"),
            ),
            (
                json!({"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "1"}}),
                Some(
                    "[minimum cpu usage per Pod is 1, but request is 100m, maximum cpu usage per Pod is 1, but limit is 2]",
                ),
            ),
            (
                json!({"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "100m"}, "maxLimitRequestRatio": {"cpu": "20"}}),
                None,
            ),
            (json!({"type": "PersistentVolumeClaim", "max": {"storage": "1"}}), None),
        ];
        for (item, expected) in table {
            assert_eq!(pod_refusal(&range(item.clone()), &pod).as_deref(), expected, "{item}");
        }
        let claim = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
        let item =
            json!({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}, "min": {"storage": "500Mi"}});
        assert_eq!(
            claim_refusal(&range(item), &claim).as_deref(),
            Some("maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi")
        );
    }
}
