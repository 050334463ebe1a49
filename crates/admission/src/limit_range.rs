//! LimitRanges: what amounts containers, pods and claims of a namespace get and may ask for.

use std::collections::BTreeSet;

use quantity::Quantity;
use serde_json::{Value, json};

use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::request::Warning;
use crate::tree::{entries, is_set, items, items_mut, object_field, text};

mod enforcement;

pub(crate) use enforcement::fill_in;
pub use enforcement::{claim_refusal, pod_refusal};

const TYPES: [&str; 3] = ["Container", "PersistentVolumeClaim", "Pod"];

pub(crate) struct LimitRange;

impl KindRules for LimitRange {
    fn default(&self, object: &mut Value) {
        for item in items_mut(&mut object["spec"], "limits") {
            if text(&item["type"]) == "Container" {
                for (from, to) in
                    [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")]
                {
                    let known = item[from].clone();
                    for (name, amount) in entries(&known) {
                        object_field(item, to).entry(name.clone()).or_insert_with(|| amount.clone());
                    }
                }
            }
        }
    }

    fn validate(&self, errors: &mut FieldErrors, _warnings: &mut Vec<Warning>, object: &Value) {
        let mut seen = BTreeSet::new();
        for (index, item) in items(&object["spec"]["limits"]).iter().enumerate() {
            let path = Path::root("spec").child("limits").index(index);
            let kind = text(&item["type"]);
            if !kind.contains('/') && !TYPES.contains(&kind) {
                errors.invalid(&path.child("type"), kind, "must be a standard limit type or fully qualified");
            }
            if !seen.insert(kind) {
                errors.duplicate(&path.child("type"), kind);
            }
            validate_item(errors, &path, item, kind);
        }
    }
}

fn validate_item(errors: &mut FieldErrors, path: &Path, item: &Value, kind: &str) {
    if kind == "Pod" {
        for name in ["default", "defaultRequest"] {
            if !entries(&item[name]).is_empty() {
                errors.forbidden(&path.child(name), "may not be specified when `type` is 'Pod'");
            }
        }
    }
    if kind == "PersistentVolumeClaim" && !is_set(&item["min"]["storage"]) && !is_set(&item["max"]["storage"])
    {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.required(&path.child("limits"), detail);
    }
    let lists = ["min", "max", "default", "defaultRequest", "maxLimitRequestRatio"];
    let names: BTreeSet<&String> =
        lists.iter().flat_map(|list| entries(&item[*list])).map(|(name, _)| name).collect();
    for name in names {
        let amount = |list: &str| Quantity::parse(text(&item[list][name.as_str()])).ok();
        let mut is_above = |place: &str, (low, low_words): (&str, &str), (high, high_words): (&str, &str)| {
            if let (Some(least), Some(most)) = (amount(low), amount(high))
                && least > most
            {
                let shown = amount(place).map_or(Value::Null, |amount| json!(amount.to_string()));
                let detail = format!("{low_words} value {least} is greater than {high_words} value {most}");
                errors.invalid(&path.child(place).key(name), shown, detail);
            }
        };
        is_above("min", ("min", "min"), ("max", "max"));
        is_above("defaultRequest", ("min", "min"), ("defaultRequest", "default request"));
        is_above("defaultRequest", ("defaultRequest", "default request"), ("max", "max"));
        is_above("defaultRequest", ("defaultRequest", "default request"), ("default", "default limit"));
        is_above("default", ("min", "min"), ("default", "default"));
        is_above("default", ("default", "default"), ("max", "max"));
        if let Some(ratio) = amount("maxLimitRequestRatio")
            && ratio < Quantity::from_millis(1000)
        {
            let at = path.child("maxLimitRequestRatio").key(name);
            errors.invalid(&at, ratio.to_string(), format!("ratio {ratio} is less than 1"));
        }
    }
}
