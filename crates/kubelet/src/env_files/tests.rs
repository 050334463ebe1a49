//! Hostile volumes: what a container can put in the way of the reader.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::{FileIdentity, VolumeHandle};
use environment::{EnvFileRefusal, EnvFileSource, SecretBytes};

fn root() -> FileIdentity {
    FileIdentity { uid: 0, gid: 0, groups: Vec::new() }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Tells why a test does nothing where it would need root; fails where that must not happen.
fn skip_unless_root(what: &str) -> bool {
    if is_root() {
        return false;
    }
    assert!(std::env::var_os("REQUIRE_PRIVILEGED").is_none(), "{what} needs root");
    eprintln!("skipped: {what} needs root");
    true
}

struct Volume {
    dir: tempfile::TempDir,
}

impl Volume {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("volume")).expect("a volume");
        // The volume of a pod is open to all its users; what is above it is passed by the handle.
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(dir.path().join("volume"), open).expect("open to all");
        std::fs::write(dir.path().join("outside.env"), "SECRET=of-the-host\n").expect("written");
        Self { dir }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join("volume").join(name)
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.path(name), content).expect("written");
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o644)).expect("readable");
    }

    fn read(&self, path: &str) -> EnvFileSource {
        self.read_as(path, &root())
    }

    fn read_as(&self, path: &str, identity: &FileIdentity) -> EnvFileSource {
        VolumeHandle::open(&self.dir.path().join("volume")).expect("opens").read_env_file(path, identity)
    }
}

fn content(text: &str) -> EnvFileSource {
    EnvFileSource::Content(SecretBytes::new(text))
}

fn refused(refusal: EnvFileRefusal) -> EnvFileSource {
    EnvFileSource::Refused(refusal)
}

#[test]
fn relative_and_absolute_paths_both_mean_the_volume() {
    let volume = Volume::new();
    std::fs::create_dir(volume.path("sub")).expect("made");
    volume.write("sub/a.env", "A=1\n");
    assert_eq!(volume.read("sub/a.env"), content("A=1\n"));
    assert_eq!(volume.read("/sub/a.env"), content("A=1\n"));
    assert_eq!(volume.read("sub/missing.env"), EnvFileSource::NotFound);
    assert_eq!(volume.read("sub/a.env/below"), EnvFileSource::NotFound);
}

#[test]
fn links_never_lead_out_of_the_volume() {
    let volume = Volume::new();
    volume.write("real.env", "A=inside\n");
    let outside = volume.dir.path().join("outside.env");
    symlink(&outside, volume.path("absolute.env")).expect("linked");
    symlink("../outside.env", volume.path("relative.env")).expect("linked");
    symlink("../../../../../../etc/passwd", volume.path("passwd.env")).expect("linked");
    symlink("/real.env", volume.path("inside.env")).expect("linked");
    for link in ["absolute.env", "relative.env", "passwd.env"] {
        assert_eq!(volume.read(link), refused(EnvFileRefusal::Outside), "{link}");
        assert_eq!(volume.read(&format!("/{link}")), refused(EnvFileRefusal::Outside), "/{link}");
    }
    assert_eq!(volume.read("inside.env"), content("A=inside\n"), "the volume is the root of its links");
}

#[test]
fn a_link_out_of_the_volume_says_nothing_of_what_is_there() {
    let volume = Volume::new();
    let outside = volume.dir.path().join("outside.env");
    symlink(&outside, volume.path("link.env")).expect("linked");
    symlink("/no/such/file", volume.path("nowhere.env")).expect("linked");
    symlink("missing.env", volume.path("dangling.env")).expect("linked");
    std::fs::write(&outside, "A=outside\n").expect("written");
    let with_target = volume.read("link.env");
    std::fs::remove_file(&outside).expect("removed");
    assert_eq!(with_target, volume.read("link.env"), "the answer is the same with and without the target");
    assert_eq!(with_target, volume.read("nowhere.env"));
    assert_eq!(
        volume.read("dangling.env"),
        EnvFileSource::NotFound,
        "a link that stays inside leads nowhere"
    );
}

#[test]
fn a_link_to_itself_is_refused() {
    let volume = Volume::new();
    symlink("loop.env", volume.path("loop.env")).expect("linked");
    assert_eq!(volume.read("loop.env"), refused(EnvFileRefusal::Outside));
}

#[test]
fn magic_links_of_proc_are_refused() {
    // The volume is /proc/self here: the strongest form of what a bind mount could offer.
    let handle = VolumeHandle::open(Path::new("/proc/thread-self"))
        .or_else(|_| VolumeHandle::open(&Path::new("/proc").join(std::process::id().to_string())));
    let answer = handle.expect("opens").read_env_file("exe", &root());
    assert_eq!(answer, refused(EnvFileRefusal::Outside));
}

#[test]
fn whatever_is_no_regular_file_is_refused_at_once() {
    let volume = Volume::new();
    let began = Instant::now();
    std::fs::create_dir(volume.path("dir")).expect("made");
    assert_eq!(volume.read("dir"), refused(EnvFileRefusal::NotRegular));
    assert_eq!(volume.read("/"), refused(EnvFileRefusal::NotRegular));

    nix::unistd::mkfifo(&volume.path("fifo"), nix::sys::stat::Mode::from_bits_truncate(0o666)).expect("made");
    assert_eq!(volume.read("fifo"), refused(EnvFileRefusal::NotRegular));

    let _listener = std::os::unix::net::UnixListener::bind(volume.path("socket")).expect("bound");
    assert_eq!(volume.read("socket"), refused(EnvFileRefusal::NotRegular));
    assert!(began.elapsed().as_millis() < 1000, "nothing may block");
}

#[test]
fn devices_are_never_opened() {
    if skip_unless_root("making a device") {
        return;
    }
    let volume = Volume::new();
    // 10:130 is the watchdog: opening it would arm it.
    for (name, device) in [("watchdog", (10, 130)), ("zero", (1, 5))] {
        let made = rustix::fs::mknodat(
            rustix::fs::CWD,
            volume.path(name),
            rustix::fs::FileType::CharacterDevice,
            rustix::fs::Mode::from_raw_mode(0o666),
            rustix::fs::makedev(device.0, device.1),
        );
        if let Err(errno) = made {
            eprintln!("skipped: this machine makes no devices: {errno}");
            return;
        }
        assert_eq!(volume.read(name), refused(EnvFileRefusal::NotRegular), "{name}");
    }
}

#[test]
fn a_hard_link_inside_the_volume_is_an_ordinary_file() {
    let volume = Volume::new();
    volume.write("a.env", "A=1\n");
    std::fs::hard_link(volume.path("a.env"), volume.path("b.env")).expect("linked");
    assert_eq!(volume.read("b.env"), content("A=1\n"));
}

#[test]
fn other_file_systems_below_the_volume_are_refused() {
    // /proc/sys is on the file system of /proc, /sys is another one; / stands for a volume with mounts below.
    let handle = VolumeHandle::open(Path::new("/")).expect("opens");
    assert_eq!(handle.read_env_file("proc/version", &root()), refused(EnvFileRefusal::Outside));
}

#[test]
fn files_over_the_limit_are_refused_without_reading_them_whole() {
    let volume = Volume::new();
    volume.write("limit.env", &"#".repeat(envfile::MAX_FILE_BYTES));
    assert_eq!(volume.read("limit.env"), content(&"#".repeat(envfile::MAX_FILE_BYTES)));
    let too_large = refused(EnvFileRefusal::TooLarge { limit: envfile::MAX_FILE_BYTES as u64 });
    volume.write("over.env", &"#".repeat(envfile::MAX_FILE_BYTES + 1));
    assert_eq!(volume.read("over.env"), too_large);
    let sparse = std::fs::File::create(volume.path("sparse.env")).expect("made");
    sparse.set_len(20 << 30).expect("sparse");
    assert_eq!(volume.read("sparse.env"), too_large);
}

#[test]
fn a_file_that_grows_while_it_is_read_ends_the_reading_all_the_same() {
    let volume = Volume::new();
    volume.write("growing.env", "");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::io::Write as _;
            let mut file =
                std::fs::OpenOptions::new().append(true).open(volume.path("growing.env")).expect("opens");
            while !stop.load(Ordering::Relaxed) {
                file.write_all(&[b'#'; 4096]).expect("written");
                if file.metadata().expect("there").len() > 64 << 20 {
                    file.set_len(0).expect("cut");
                }
            }
        });
        for _ in 0..200 {
            match volume.read("growing.env") {
                EnvFileSource::Content(bytes) => assert!(bytes.expose().len() <= envfile::MAX_FILE_BYTES),
                EnvFileSource::Refused(EnvFileRefusal::TooLarge { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_directory_that_is_swapped_with_a_link_all_the_time_never_leads_out() {
    let volume = Volume::new();
    std::fs::create_dir(volume.path("real")).expect("made");
    volume.write("real/a.env", "A=inside\n");
    std::fs::create_dir(volume.dir.path().join("host")).expect("made");
    std::fs::write(volume.dir.path().join("host/a.env"), "A=of-the-host\n").expect("written");
    symlink(volume.dir.path().join("host"), volume.path("link")).expect("linked");
    let stop = AtomicBool::new(false);
    let mut found = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (real, link) = (volume.path("real"), volume.path("link"));
            while !stop.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    &real,
                    rustix::fs::CWD,
                    &link,
                    rustix::fs::RenameFlags::EXCHANGE,
                )
                .expect("swapped");
            }
        });
        for _ in 0..5_000 {
            match volume.read("real/a.env") {
                EnvFileSource::Content(bytes) => {
                    assert_eq!(bytes.expose(), b"A=inside\n");
                    found += 1;
                }
                EnvFileSource::NotFound | EnvFileSource::Refused(_) => {}
                other => panic!("{other:?}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(found > 0, "the file was there now and then");
}

#[test]
fn only_what_the_containers_user_may_read_is_read() {
    if skip_unless_root("reading as another user") {
        return;
    }
    let volume = Volume::new();
    volume.write("open.env", "A=1\n");
    volume.write("owner.env", "A=2\n");
    volume.write("group.env", "A=3\n");
    let owned = |name: &str, uid: u32, gid: u32, mode: u32| {
        std::os::unix::fs::chown(volume.path(name), Some(uid), Some(gid)).expect("given");
        std::fs::set_permissions(volume.path(name), std::fs::Permissions::from_mode(mode)).expect("set");
    };
    owned("owner.env", 1000, 1000, 0o600);
    owned("group.env", 0, 2000, 0o640);
    let user = FileIdentity { uid: 1000, gid: 1000, groups: Vec::new() };
    let member = FileIdentity { uid: 1001, gid: 1001, groups: vec![2000] };
    let denied = |uid| refused(EnvFileRefusal::NotReadable { uid });
    assert_eq!(volume.read_as("open.env", &user), content("A=1\n"));
    assert_eq!(volume.read_as("owner.env", &user), content("A=2\n"));
    assert_eq!(volume.read_as("owner.env", &member), denied(1001));
    assert_eq!(volume.read_as("group.env", &member), content("A=3\n"));
    assert_eq!(volume.read_as("group.env", &user), denied(1000));

    std::fs::create_dir(volume.path("closed")).expect("made");
    volume.write("closed/a.env", "A=4\n");
    std::fs::set_permissions(volume.path("closed"), std::fs::Permissions::from_mode(0o700)).expect("closed");
    assert_eq!(volume.read_as("closed/a.env", &user), denied(1000), "directories count too");
    assert_eq!(volume.read_as("closed/a.env", &root()), content("A=4\n"));
}

#[test]
fn the_identity_of_the_reader_does_not_leak_into_the_agent() {
    if skip_unless_root("reading as another user") {
        return;
    }
    let volume = Volume::new();
    volume.write("a.env", "A=1\n");
    let before = (rustix::process::geteuid(), rustix::process::getgroups().expect("groups"));
    volume.read_as("a.env", &FileIdentity { uid: 4242, gid: 4242, groups: vec![4243] });
    assert_eq!((rustix::process::geteuid(), rustix::process::getgroups().expect("groups")), before);
    std::fs::write(volume.path("still-root"), "x").expect("the agent still writes as root");
    let owner =
        std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(volume.path("still-root")).expect("there"));
    assert_eq!(owner, 0);
}
