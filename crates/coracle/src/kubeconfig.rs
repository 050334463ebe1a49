//! The command `coracle kubeconfig`: where the kubeconfig of a node that stays lies, what it says, or merged into the
//! user's own.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::data_directory;
use crate::failure::{CANNOT_START, Failure, INPUT, exit_code};
use crate::flag_values;
use crate::standard_output;

/// Arguments of `coracle kubeconfig`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  export KUBECONFIG=$(coracle kubeconfig)
  coracle kubeconfig --merge        then: kubectl --context coracle get pods")]
pub(crate) struct KubeconfigArgs {
    /// Data directory of the node [default: /var/lib/coracle].
    #[arg(long, value_name = "DIR", value_parser = flag_values::directory())]
    data_dir: Option<PathBuf>,
    /// Print the content instead of the path.
    #[arg(long, conflicts_with = "merge")]
    print: bool,
    /// Merge it into the kubeconfig of the user (the first file of KUBECONFIG, else ~/.kube/config) and make it the current
    /// context.
    #[arg(long)]
    merge: bool,
}

/// Runs the command.
pub(crate) fn run(args: KubeconfigArgs) -> ExitCode {
    exit_code(act(&args))
}

fn act(args: &KubeconfigArgs) -> Result<(), Failure> {
    let directory = args.data_dir.clone().unwrap_or_else(|| data_directory::DEFAULT.into());
    let path = directory.join("kubeconfig");
    let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, &directory, &error))?;
    if args.merge {
        let target =
            user_file(std::env::var_os("KUBECONFIG"), std::env::var_os("HOME")).ok_or_else(|| {
                Failure::text(INPUT, "there is no kubeconfig to merge into")
                    .hint("set HOME, or KUBECONFIG to the file that shall be written")
            })?;
        merge_into(&target, &text)?;
        standard_output::line(target.display())
    } else if args.print {
        standard_output::print(text)
    } else {
        let shown = fs::canonicalize(&path).unwrap_or(path);
        standard_output::line(shown.display())
    }
}

fn unreadable(path: &Path, directory: &Path, error: &io::Error) -> Failure {
    let shown = directory.display();
    let start = format!(
        "start one (`coracle up --data-dir {shown}`), or name the directory of another with --data-dir"
    );
    match error.kind() {
        io::ErrorKind::NotFound if directory.is_dir() => {
            Failure::text(INPUT, "no node has been started on this data directory")
                .place(shown.to_string())
                .hint(start)
        }
        io::ErrorKind::NotFound => {
            Failure::text(INPUT, "there is no node: the data directory does not exist")
                .place(shown.to_string())
                .hint(start)
        }
        io::ErrorKind::NotADirectory => {
            Failure::text(INPUT, "this is a file and not the data directory of a node")
                .place(shown.to_string())
                .hint("name the directory that the node was started with")
        }
        io::ErrorKind::PermissionDenied => Failure::new(INPUT, error)
            .place(path.display().to_string())
            .hint("run this as the user who started the node"),
        _ => Failure::new(INPUT, error).place(path.display().to_string()).hint("check the file"),
    }
}

/// The file that kubectl would write.
fn user_file(kubeconfig: Option<std::ffi::OsString>, home: Option<std::ffi::OsString>) -> Option<PathBuf> {
    let first = kubeconfig
        .as_ref()
        .and_then(|paths| std::env::split_paths(paths).find(|path| !path.as_os_str().is_empty()));
    first.or_else(|| home.filter(|home| !home.is_empty()).map(|home| Path::new(&home).join(".kube/config")))
}

fn merge_into(target: &Path, ours: &str) -> Result<(), Failure> {
    let ours = parse(ours).map_err(|error| error.place("the node's kubeconfig"))?;
    let theirs = match fs::read_to_string(target) {
        Ok(text) => parse(&text).map_err(|error| error.place(target.display().to_string()))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => json!({}),
        Err(error) => return Err(Failure::new(INPUT, &error).place(target.display().to_string())),
    };
    let merged = merge(theirs, &ours);
    let text = serde_saphyr::to_string(&merged).map_err(|error| {
        Failure::text(CANNOT_START, format!("the merged kubeconfig cannot be written: {error}"))
    })?;
    replace(target, &text).map_err(|error| {
        Failure::new(CANNOT_START, &error)
            .place(target.display().to_string())
            .hint("check that the directory can be written")
    })
}

fn parse(text: &str) -> Result<Value, Failure> {
    let documents = manifest::parse_stream(text.as_bytes(), &manifest::Limits::default())
        .map_err(|error| Failure::text(INPUT, error.to_string()).hint("mend the file; it was not changed"))?;
    let value = documents.first().map_or(Value::Null, |document| document.root.to_json());
    match value {
        Value::Null => Ok(json!({})),
        Value::Object(_) => Ok(value),
        _ => Err(Failure::text(INPUT, "this is no kubeconfig: it is not a map")
            .hint("mend the file; it was not changed")),
    }
}

/// `theirs` with the clusters, users and contexts of `ours`, which replace those of the same name.
fn merge(theirs: Value, ours: &Value) -> Value {
    let Value::Object(mut merged) = theirs else { return ours.clone() };
    for (key, value) in [("apiVersion", "v1"), ("kind", "Config")] {
        merged.entry(key).or_insert_with(|| json!(value));
    }
    for list in ["clusters", "users", "contexts"] {
        let added = entries(ours, list);
        let mut kept = merged.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
        kept.retain(|entry| !added.iter().any(|own| own.get("name") == entry.get("name")));
        kept.extend(added);
        merged.insert(list.to_owned(), Value::Array(kept));
    }
    merged.insert("current-context".to_owned(), ours.get("current-context").cloned().unwrap_or_default());
    Value::Object(sorted(merged))
}

fn entries(config: &Value, list: &str) -> Vec<Value> {
    config.get(list).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// The order that kubectl writes.
fn sorted(map: Map<String, Value>) -> Map<String, Value> {
    let mut entries: Vec<(String, Value)> = map.into_iter().collect();
    entries.sort_by(|left, right| left.0.cmp(&right.0));
    entries.into_iter().collect()
}

/// Replaces a file as a whole; only its owner may read it.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    // A link stays a link: what it points at is replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let new = PathBuf::from(name);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, &path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{merge, merge_into, user_file};

    #[test]
    fn entries_of_the_same_name_are_replaced_and_others_stay() {
        let ours = json!({"clusters": [{"name": "coracle", "cluster": {"server": "new"}}], "users": [{"name": "coracle"}],
            "contexts": [{"name": "coracle"}], "current-context": "coracle"});
        let theirs = json!({"kind": "Config", "current-context": "other", "preferences": {"colors": true},
            "clusters": [{"name": "other"}, {"name": "coracle", "cluster": {"server": "old"}}]});
        let merged = merge(theirs, &ours);
        assert_eq!(
            merged["clusters"],
            json!([{"name": "other"}, {"name": "coracle", "cluster": {"server": "new"}}])
        );
        assert_eq!(merged["users"], json!([{"name": "coracle"}]));
        assert_eq!(merged["current-context"], "coracle");
        assert_eq!(merged["preferences"], json!({"colors": true}));
        assert_eq!(merged["apiVersion"], "v1");
    }

    #[test]
    fn the_file_is_the_one_that_kubectl_writes() {
        let file = |kubeconfig: Option<&str>, home: Option<&str>| {
            user_file(kubeconfig.map(Into::into), home.map(Into::into)).map(|path| path.display().to_string())
        };
        assert_eq!(file(Some(":/a:/b"), Some("/h")).as_deref(), Some("/a"));
        assert_eq!(file(Some(""), Some("/h")).as_deref(), Some("/h/.kube/config"));
        assert_eq!(file(None, None), None);
    }

    #[test]
    fn a_file_that_is_no_kubeconfig_is_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("config");
        std::fs::write(&path, "- a list\n").expect("writable");
        assert!(merge_into(&path, "kind: Config\n").is_err());
        assert_eq!(std::fs::read_to_string(&path).expect("readable"), "- a list\n");
        let new = directory.path().join("deep/config");
        merge_into(&new, "kind: Config\ncurrent-context: coracle\nusers:\n- name: coracle\n")
            .expect("written");
        let text = std::fs::read_to_string(&new).expect("readable");
        assert!(text.contains("current-context: coracle"), "{text}");
        assert!(text.contains("name: coracle"), "{text}");
    }
}
