//! Volumes on disk: modes, atomic updates, links that lead out, clearing away.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use environment::SecretBytes;

use super::payload::{KeySelection, Payload};
use super::{
    EmptyDirMedium, PreparedVolume, SubPathMount, VolumeContent, prepare_sub_path, set_up, tear_down,
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
    set_up(&pod.dirs, &[empty_dir("v", EmptyDirMedium::Memory)], Some(1234)).expect("made");
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
    set_up(&pod.dirs, &[files("v", payload(&[("a", "1", 0o400)]))], Some(1234)).expect("made");
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
