//! A directory whose files come, change, break and go.

use std::path::Path;

use api::FeatureGates;

use super::StaticPodDirectory;

fn pod(name: &str, image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers: [{{name: c, image: {image}}}]\n"
    )
}

/// A file appears whole, as a careful writer does it; its version differs even within one tick of the clock.
fn write(dir: &Path, name: &str, text: &str) {
    let temporary = dir.join(format!(".{name}.new"));
    std::fs::write(&temporary, text).expect("written");
    std::fs::rename(temporary, dir.join(name)).expect("renamed");
}

fn directory(path: &Path) -> StaticPodDirectory {
    StaticPodDirectory::new(path.to_owned(), "n".to_owned(), FeatureGates::default())
}

fn images(found: &super::Findings) -> Vec<String> {
    let image = |pod: &k8s_openapi::api::core::v1::Pod| {
        let spec = pod.spec.as_ref().expect("a spec");
        format!(
            "{}={}",
            pod.metadata.name.as_deref().unwrap_or_default(),
            spec.containers[0].image.as_deref().unwrap_or_default()
        )
    };
    found.pods.iter().map(|pod| image(pod)).collect()
}

#[test]
fn files_that_come_change_and_go_are_noticed_and_others_are_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut watched = directory(dir.path());
    let found = watched.look();
    assert!(found.changed && found.pods.is_empty(), "the first look is always told");
    assert!(!watched.look().changed);
    write(dir.path(), "a.yaml", &pod("a", "one"));
    write(dir.path(), ".hidden.yaml", &pod("h", "one"));
    std::fs::create_dir(dir.path().join("sub")).expect("made");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.path().join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("made");
    let found = watched.look();
    assert_eq!((images(&found), found.changed), (vec!["a-n=one".to_owned()], true));
    assert!(!watched.look().changed);
    write(dir.path(), "a.yaml", &format!("# only a comment\n{}", pod("a", "one")));
    assert!(!watched.look().changed, "the same pod");
    write(dir.path(), "a.yaml", &pod("a", "two"));
    write(
        dir.path(),
        "b.json",
        &serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"},
        "spec": {"containers": [{"name": "c", "image": "three"}]}})
        .to_string(),
    );
    assert_eq!(images(&watched.look()), ["a-n=two", "b-n=three"]);
    std::fs::remove_file(dir.path().join("a.yaml")).expect("removed");
    let found = watched.look();
    assert_eq!((images(&found), found.changed), (vec!["b-n=three".to_owned()], true));
}

#[test]
fn a_half_written_file_keeps_its_pods_and_is_told_once_with_its_place() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut watched = directory(dir.path());
    write(dir.path(), "a.yaml", &pod("a", "one"));
    watched.look();
    write(dir.path(), "a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a\n");
    let found = watched.look();
    assert_eq!(images(&found), ["a-n=one"]);
    assert!(found.unreadable);
    let [told] = found.news.as_slice() else { panic!("{found:?}") };
    assert!(told.contains("/a.yaml:") && told.ends_with("; its pods go on as they were"), "{told}");
    assert!(watched.look().news.is_empty(), "once");
    write(dir.path(), "a.yaml", "");
    let found = watched.look();
    assert_eq!(images(&found), ["a-n=one"]);
    assert!(found.news[0].contains("there is no pod in it"), "{found:?}");
    write(dir.path(), "a.yaml", &pod("a", "two"));
    let found = watched.look();
    assert_eq!((images(&found), found.unreadable), (vec!["a-n=two".to_owned()], false));
}

#[test]
fn a_directory_that_cannot_be_read_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pods");
    std::fs::create_dir(&path).expect("made");
    let mut watched = directory(&path);
    write(&path, "a.yaml", &pod("a", "one"));
    watched.look();
    std::fs::rename(&path, dir.path().join("away")).expect("moved");
    let found = watched.look();
    assert_eq!((images(&found), found.changed, found.unreadable), (vec!["a-n=one".to_owned()], false, true));
    assert!(found.news[0].contains("cannot be read"), "{found:?}");
    assert!(watched.look().news.is_empty());
    std::fs::rename(dir.path().join("away"), &path).expect("moved back");
    assert!(!watched.look().unreadable);
}

#[test]
fn a_pod_that_two_files_hold_runs_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut watched = directory(dir.path());
    write(dir.path(), "a.yaml", &pod("a", "one"));
    write(dir.path(), "b.yaml", &pod("a", "two"));
    let found = watched.look();
    assert_eq!(images(&found), ["a-n=one"]);
    assert!(found.news[0].contains("/b.yaml: the pod a-n is in a.yaml already"), "{found:?}");
}

#[test]
fn a_file_that_is_too_large_is_not_read_to_its_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = std::fs::File::create(dir.path().join("large.yaml")).expect("made");
    file.set_len(1 << 40).expect("a sparse file");
    let found = directory(dir.path()).look();
    assert!(found.news[0].contains("it is larger than"), "{found:?}");
}
