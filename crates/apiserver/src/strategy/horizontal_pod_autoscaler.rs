//! HorizontalPodAutoscaler of `autoscaling`: there are none here, and who wants to create one is told so. The kind is served
//! all the same, so that clients find an empty list instead of an unknown kind, and a sentence instead of "not found".

use serde_json::Value;

use super::Strategy;
use crate::object::{name, text};
use crate::status::ApiError;
use crate::writing::Write;

pub(crate) struct HorizontalPodAutoscalers;

impl Strategy for HorizontalPodAutoscalers {
    fn admit(&self, write: &Write<'_>, object: &mut Value) -> Result<(), ApiError> {
        Err(ApiError::forbidden(write.kind, name(object), refusal(object)))
    }
}

/// What is refused, why, and what to do instead.
fn refusal(object: &Value) -> String {
    let target = [&["spec", "scaleTargetRef", "kind"], &["spec", "scaleTargetRef", "name"]]
        .map(|path| text(object, path));
    let command = match target {
        ["", _] | [_, ""] => "kubectl scale KIND/NAME --replicas=N".to_owned(),
        [kind, name] => format!("kubectl scale {}/{name} --replicas=N", kind.to_ascii_lowercase()),
    };
    format!(
        "Coracle does not scale by load, because nothing here measures the load of pods: the object would never act. Set the \
         number of replicas yourself (`{command}`), and leave the autoscaler out of what is applied here"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::refusal;

    #[test]
    fn the_refusal_names_what_to_do_with_the_very_target() {
        let whole = json!({"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
        assert!(
            refusal(&whole).contains("`kubectl scale deployment/web --replicas=N`"),
            "{}",
            refusal(&whole)
        );
        assert!(refusal(&json!({})).contains("`kubectl scale KIND/NAME --replicas=N`"));
    }
}
