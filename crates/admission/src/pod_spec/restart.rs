//! Restart policies of containers, and the rules that exit statuses are held against before them.

use serde_json::Value;

use crate::errors::FieldErrors;
use crate::path::Path;
use crate::scalars::optional_one_of;
use crate::tree::{is_set, items, text};

/// Most rules of a container.
const RULES: usize = 20;
/// Most exit statuses of a rule.
const CODES: usize = 255;

/// Checks policy and rules of a container or an init container.
pub(super) fn validate(errors: &mut FieldErrors, path: &Path, container: &Value) {
    let policy = path.child("restartPolicy");
    optional_one_of(errors, &policy, &container["restartPolicy"], &["Always", "OnFailure", "Never"]);
    let at = path.child("restartPolicyRules");
    let rules = items(&container["restartPolicyRules"]);
    if !rules.is_empty() && text(&container["restartPolicy"]).is_empty() {
        errors.required(&policy, "must specify restartPolicy when restart rules are used");
    }
    if rules.len() > RULES {
        errors.too_many(&at, rules.len(), RULES);
    }
    for (index, rule) in rules.iter().enumerate() {
        self::rule(errors, &at.index(index), rule);
    }
}

fn rule(errors: &mut FieldErrors, path: &Path, rule: &Value) {
    let action = text(&rule["action"]);
    let actions = ["Restart", "RestartAllContainers"];
    if !actions.contains(&action) {
        errors.not_supported(&path.child("action"), action, &actions);
    }
    let (at, codes) = (path.child("exitCodes"), &rule["exitCodes"]);
    if !is_set(codes) {
        return errors.required(&at, "must be specified");
    }
    let operator = text(&codes["operator"]);
    if !["In", "NotIn"].contains(&operator) {
        errors.not_supported(&at.child("operator"), operator, &["In", "NotIn"]);
    }
    let count = items(&codes["values"]).len();
    if count > CODES {
        errors.too_many(&at.child("values"), count, CODES);
    }
}
