//! Volumes on disk: modes, atomic updates, links that lead out, clearing away.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use environment::SecretBytes;

use super::claimed::{self, ClaimError};
use super::payload::{KeySelection, Payload};
use super::{
    EmptyDirMedium, Group, PreparedVolume, SubPathMount, VolumeContent, prepare_sub_path, set_up, tear_down,
};
use crate::config::PodDirs;

fn skip_unless_root(what: &str) -> bool {
    if rustix::process::geteuid().is_root() {
        return false;
    }
    assert!(std::env::var_os("REQUIRE_PRIVILEGED").is_none(), "{what} needs root");
    eprintln!("skipped: {what} needs root");
    true
}

struct Pod {
    _dir: tempfile::TempDir,
    dirs: PodDirs,
}

impl Pod {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let dirs = PodDirs::new(dir.path(), "u1");
        Self { _dir: dir, dirs }
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        tear_down(&self.dirs).expect("nothing stays mounted");
    }
}

fn group(gid: u32) -> Option<Group> {
    Some(Group { gid, only_if_root_differs: false })
}

fn payload(files: &[(&str, &str, u32)]) -> Payload {
    let mut payload = Payload::default();
    for (path, text, mode) in files {
        payload.insert(path, SecretBytes::new(*text), *mode).expect("a good path");
    }
    payload
}

fn files(name: &str, payload: Payload) -> PreparedVolume {
    PreparedVolume { name: name.to_owned(), content: VolumeContent::Files { payload, in_memory: false } }
}

fn empty_dir(name: &str, medium: EmptyDirMedium) -> PreparedVolume {
    PreparedVolume {
        name: name.to_owned(),
        content: VolumeContent::EmptyDir { medium, size_limit: Some(1 << 20) },
    }
}

#[test]
fn files_appear_with_their_modes_and_change_all_at_once() {
    let pod = Pod::new();
    let first = payload(&[("a", "1", 0o644), ("dir/b", "2", 0o400)]);
    set_up(&pod.dirs, &[files("v", first.clone())], None).expect("made");
    let dir = pod.dirs.volume("v");
    assert_eq!(std::fs::read_to_string(dir.join("a")).expect("there"), "1");
    assert_eq!(std::fs::read_to_string(dir.join("dir/b")).expect("there"), "2");
    assert_eq!(std::fs::metadata(dir.join("dir/b")).expect("there").mode() & 0o777, 0o400);
    let generation = std::fs::read_link(dir.join("..data")).expect("a link");

    set_up(&pod.dirs, &[files("v", first)], None).expect("nothing to do");
    assert_eq!(
        std::fs::read_link(dir.join("..data")).expect("a link"),
        generation,
        "unchanged content stays"
    );

    set_up(&pod.dirs, &[files("v", payload(&[("a", "new", 0o644), ("c", "3", 0o644)]))], None)
        .expect("updated");
    assert_eq!(std::fs::read_to_string(dir.join("a")).expect("there"), "new");
    assert_eq!(std::fs::read_to_string(dir.join("c")).expect("there"), "3");
    assert!(!dir.join("dir").exists(), "what is no longer wanted is gone");
    assert!(!dir.join(generation).exists(), "the old generation is gone");
}

#[test]
fn a_reader_never_sees_files_of_two_generations() {
    let pod = Pod::new();
    let generation = |text: &str| payload(&[("a", text, 0o644), ("b", text, 0o644)]);
    set_up(&pod.dirs, &[files("v", generation("0"))], None).expect("made");
    let data = pod.dirs.volume("v").join("..data");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..300 {
                set_up(&pod.dirs, &[files("v", generation(&number.to_string()))], None).expect("updated");
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            let Ok(current) = std::fs::read_link(&data) else { panic!("the link is always there") };
            let dir = pod.dirs.volume("v").join(current);
            let read = |name: &str| std::fs::read_to_string(dir.join(name)).ok();
            if let (Some(a), Some(b)) = (read("a"), read("b")) {
                assert_eq!(a, b);
            }
        }
    });
}

#[test]
fn paths_of_files_cannot_leave_the_volume() {
    for path in ["../x", "/x", "a/../../x", "", "..hidden", "."] {
        assert!(Payload::default().insert(path, SecretBytes::new(""), 0o644).is_err(), "{path:?}");
    }
}

#[test]
fn items_choose_keys_and_a_missing_one_is_an_error_unless_optional() {
    let config_map = serde_json::from_value(serde_json::json!({"data": {"k": "v"}})).expect("a config map");
    let items = serde_json::from_value::<Vec<_>>(serde_json::json!([
        {"key": "k", "path": "dir/renamed", "mode": 256}, {"key": "absent", "path": "x"}
    ]))
    .expect("items");
    let selection = |optional| KeySelection { items: Some(&items), default_mode: 0o644, optional };
    let mut refused = Payload::default();
    let error =
        refused.add_config_map("c", Some(&config_map), selection(false)).expect_err("a key is missing");
    assert_eq!(error.to_string(), "configmap references non-existent config key: absent");
    let mut payload = Payload::default();
    payload.add_config_map("c", Some(&config_map), selection(true)).expect("optional");
    let shown: Vec<(String, u32)> =
        payload.files().map(|(path, file)| (path.to_owned(), file.mode)).collect();
    assert_eq!(shown, [("dir/renamed".to_owned(), 0o400)]);
    let error = Payload::default().add_config_map("c", None, selection(false)).expect_err("absent");
    assert_eq!(error.to_string(), "configmap \"c\" not found");
}

#[test]
fn an_empty_dir_is_open_to_all_and_keeps_its_content() {
    let pod = Pod::new();
    set_up(&pod.dirs, &[empty_dir("v", EmptyDirMedium::Disk)], None).expect("made");
    let dir = pod.dirs.volume("v");
    assert_eq!(std::fs::metadata(&dir).expect("there").permissions().mode() & 0o7777, 0o777);
    std::fs::write(dir.join("x"), "kept").expect("written");
    set_up(&pod.dirs, &[empty_dir("v", EmptyDirMedium::Disk)], None).expect("there already");
    assert_eq!(std::fs::read_to_string(dir.join("x")).expect("there"), "kept");
}

#[test]
fn an_empty_dir_in_memory_has_its_size_and_goes_away() {
    if skip_unless_root("mounting memory") {
        return;
    }
    let pod = Pod::new();
    set_up(&pod.dirs, &[empty_dir("v", EmptyDirMedium::Memory)], group(1234)).expect("made");
    let dir = pod.dirs.volume("v");
    let metadata = std::fs::metadata(&dir).expect("there");
    assert_eq!((metadata.gid(), metadata.mode() & 0o7777), (1234, 0o2777));
    let stat = rustix::fs::statvfs(&dir).expect("stat");
    assert_eq!(stat.f_blocks * stat.f_frsize, 1 << 20);
    tear_down(&pod.dirs).expect("taken down");
    assert!(!dir.exists());
}

#[test]
fn devices_in_an_empty_dir_cannot_be_opened() {
    if skip_unless_root("making a device") {
        return;
    }
    let pod = Pod::new();
    set_up(&pod.dirs, &[empty_dir("v", EmptyDirMedium::Disk)], None).expect("made");
    let device = pod.dirs.volume("v").join("zero");
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        &device,
        rustix::fs::FileType::CharacterDevice,
        rustix::fs::Mode::from_raw_mode(0o666),
        rustix::fs::makedev(1, 5),
    );
    if let Err(errno) = made {
        eprintln!("skipped: this machine makes no devices: {errno}");
        return;
    }
    assert!(std::fs::File::open(&device).is_err(), "nodev");
}

#[test]
fn files_of_a_group_are_readable_by_it() {
    if skip_unless_root("giving files to a group") {
        return;
    }
    let pod = Pod::new();
    set_up(&pod.dirs, &[files("v", payload(&[("a", "1", 0o400)]))], group(1234)).expect("made");
    let metadata = std::fs::metadata(pod.dirs.volume("v").join("a")).expect("there");
    assert_eq!((metadata.gid(), metadata.mode() & 0o777), (1234, 0o440));
}

#[test]
fn sub_paths_are_made_and_pinned_and_never_lead_out() {
    if skip_unless_root("bind mounts") {
        return;
    }
    let pod = Pod::new();
    set_up(&pod.dirs, &[empty_dir("v", EmptyDirMedium::Disk)], None).expect("made");
    let volume = pod.dirs.volume("v");
    let open = |sub_path: &str| {
        prepare_sub_path(&pod.dirs, &SubPathMount { volume_path: &volume, sub_path, place: ("v", "c", 0) })
    };
    let pin = open("logs/today").expect("made");
    std::fs::write(pin.join("x"), "1").expect("written");
    assert_eq!(std::fs::read_to_string(volume.join("logs/today/x")).expect("there"), "1");
    assert_eq!(std::fs::metadata(volume.join("logs")).expect("there").mode() & 0o777, 0o777);
    open("logs/today").expect("again, for the next instance");

    std::fs::write(volume.join("file"), "f").expect("written");
    let pin = open("file").expect("a file");
    assert_eq!(std::fs::read_to_string(pin).expect("there"), "f");

    symlink("/etc", volume.join("out")).expect("linked");
    symlink("../../..", volume.join("up")).expect("linked");
    for sub_path in ["out", "out/passwd", "up", "up/etc", "../x", "/etc"] {
        assert!(open(sub_path).is_err(), "{sub_path}");
    }
}

#[test]
fn host_paths_are_checked_by_type() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("f");
    std::fs::write(&file, "").expect("written");
    let check =
        |path: &std::path::Path, type_: &str| super::host_path::check(path, type_).map_err(|e| e.to_string());
    assert!(check(&file, "File").is_ok());
    assert!(check(dir.path(), "Directory").is_ok());
    assert_eq!(
        check(&file, "Directory"),
        Err(format!("hostPath type check failed: {} is not a directory", file.display()))
    );
    let made = dir.path().join("a/b");
    assert!(check(&made, "DirectoryOrCreate").is_ok() && made.is_dir());
    let made = dir.path().join("g");
    assert!(check(&made, "FileOrCreate").is_ok() && made.is_file());
    assert!(check(&dir.path().join("absent"), "Socket").is_err());
    assert!(check(&dir.path().join("absent"), "").is_ok());
}

const HANDLE: &str = "pvc-01234567-89ab-cdef-0123-456789abcdef";

fn claim(change: &str) -> k8s_openapi::api::core::v1::PersistentVolumeClaim {
    let mut object = serde_json::json!({
        "metadata": {"name": "data", "namespace": "n", "uid": "c"}, "spec": {"volumeName": "v"}, "status": {"phase": "Bound"},
    });
    match change {
        "" => {}
        "leaving" => object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(),
        "pending" => object["status"]["phase"] = "Pending".into(),
        "other" => object["metadata"]["uid"] = "other".into(),
        "owned" => {
            object["metadata"]["ownerReferences"] = serde_json::json!([
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u1", "controller": true},
            ]);
        }
        _ => panic!("{change}"),
    }
    serde_json::from_value(object).expect("a claim")
}

fn persistent_volume(source: serde_json::Value) -> k8s_openapi::api::core::v1::PersistentVolume {
    let mut object = serde_json::json!({
        "metadata": {"name": "v", "annotations": {"coracle.dev/node": "here"}},
        "spec": {"claimRef": {"name": "data", "namespace": "n", "uid": "c"}, "volumeMode": "Filesystem"},
    });
    for (name, value) in source.as_object().expect("fields") {
        object["spec"][name] = value.clone();
    }
    serde_json::from_value(object).expect("a volume")
}

fn directory(handle: &str) -> k8s_openapi::api::core::v1::PersistentVolume {
    persistent_volume(serde_json::json!({"csi": {"driver": "coracle.dev/directory", "volumeHandle": handle}}))
}

#[test]
fn a_claim_that_is_not_bound_is_not_mounted_and_says_why() {
    let pod: k8s_openapi::api::core::v1::Pod =
        serde_json::from_value(serde_json::json!({"metadata": {"name": "p", "namespace": "n", "uid": "u1"}}))
            .expect("a pod");
    let volume = |ephemeral: bool| -> k8s_openapi::api::core::v1::Volume {
        let source = if ephemeral {
            serde_json::json!({"name": "v", "ephemeral": {}})
        } else {
            serde_json::json!({"name": "v", "persistentVolumeClaim": {"claimName": "data"}})
        };
        serde_json::from_value(source).expect("a volume")
    };
    let key = "n/data";
    let bound = |ephemeral: bool, found: Option<&str>| {
        let claim = found.map(claim);
        claimed::bound_volume(&pod, &volume(ephemeral), (key, claim.as_ref()))
    };
    assert_eq!(bound(false, None), Err(ClaimError::NotFound(key.to_owned())));
    assert_eq!(bound(false, Some("pending")), Err(ClaimError::NotBound(key.to_owned())));
    assert_eq!(bound(false, Some("leaving")), Err(ClaimError::Leaving(key.to_owned())));
    assert_eq!(bound(true, Some("")), Err(ClaimError::NotOwned(key.to_owned())));
    assert_eq!(bound(true, Some("owned")), Ok("v".to_owned()));
    assert_eq!(bound(false, Some("")), Ok("v".to_owned()));
    assert_eq!(
        ClaimError::NotBound(key.to_owned()).to_string(),
        "error processing PVC n/data: PVC is not bound"
    );
}

#[test]
fn a_volume_that_is_another_claims_or_elsewhere_or_named_by_a_path_is_not_mounted() {
    let root = std::path::Path::new("/nowhere");
    let resolve = |change: &str, volume: Option<k8s_openapi::api::core::v1::PersistentVolume>, node: &str| {
        claimed::resolve(("n/data", &claim(change)), ("v", volume.as_ref()), (root, node), false).map(drop)
    };
    assert_eq!(resolve("", Some(directory(HANDLE)), "here"), Ok(()));
    let (key, name) = ("n/data".to_owned(), "v".to_owned());
    let other = ClaimError::OtherClaim { claim: key.clone(), volume: name.clone() };
    assert_eq!(resolve("other", Some(directory(HANDLE)), "here"), Err(other));
    let missing = ClaimError::NoVolume { claim: key, volume: name.clone() };
    assert_eq!(resolve("", None, "here"), Err(missing));
    let elsewhere = ClaimError::OtherNode { volume: name.clone(), node: "here".to_owned() };
    assert_eq!(resolve("", Some(directory(HANDLE)), "there"), Err(elsewhere));
    for hostile in
        ["", "..", "../etc", "pvc-../../etc", "pvc-0123", "pvc-01234567-89ab-cdef-0123-456789abcdeF/", "/etc"]
    {
        let refused = ClaimError::BadHandle(name.clone());
        assert_eq!(resolve("", Some(directory(hostile)), "here"), Err(refused), "{hostile}");
    }
    let nfs = persistent_volume(serde_json::json!({"nfs": {"server": "s", "path": "/"}}));
    assert_eq!(resolve("", Some(nfs), "here"), Err(ClaimError::Unsupported(name)));
}

#[test]
fn the_directory_of_a_claim_is_made_once_kept_when_the_pod_goes_and_given_to_its_group() {
    if skip_unless_root("mounting") {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let root = place.path().join("volumes");
    let prepared = || {
        let claimed =
            claimed::resolve(("n/data", &claim("")), ("v", Some(&directory(HANDLE))), (&root, "here"), false)
                .expect("bound");
        [PreparedVolume { name: "v".to_owned(), content: VolumeContent::Claimed(claimed) }]
    };
    let first = Pod::new();
    set_up(&first.dirs, &prepared(), None).expect("mounted");
    set_up(&first.dirs, &prepared(), None).expect("mounted already");
    let mounted = first.dirs.volume("v");
    assert_eq!(std::fs::metadata(&mounted).expect("there").mode() & 0o7777, 0o777);
    std::fs::create_dir(mounted.join("sub")).expect("made");
    std::fs::write(mounted.join("sub/file"), "kept").expect("written");
    let outside = place.path().join("outside");
    std::fs::write(&outside, "not ours").expect("written");
    symlink(&outside, mounted.join("sub/link")).expect("linked");
    tear_down(&first.dirs).expect("taken down");
    assert_eq!(std::fs::read_to_string(root.join(HANDLE).join("sub/file")).expect("kept"), "kept");

    let second = Pod::new();
    set_up(&second.dirs, &prepared(), group(4321)).expect("mounted");
    let seen = |path: &str| {
        let found = std::fs::symlink_metadata(second.dirs.volume("v").join(path)).expect("there");
        (found.gid(), found.mode() & 0o7777)
    };
    assert_eq!(seen(""), (4321, 0o2777));
    assert_eq!((seen("sub").0, seen("sub").1 & 0o2770), (4321, 0o2770));
    assert_eq!((seen("sub/file").0, seen("sub/file").1 & 0o660), (4321, 0o660));
    assert_ne!(std::fs::metadata(&outside).expect("there").gid(), 4321, "a link leads nowhere");
    tear_down(&second.dirs).expect("taken down");

    super::remove_directory(&root, HANDLE).expect("removed");
    super::remove_directory(&root, HANDLE).expect("removed already");
    assert_eq!(std::fs::read_dir(&root).expect("there").count(), 0);
    assert!(outside.exists());
    assert!(super::remove_directory(&root, "../outside").is_err());
}
