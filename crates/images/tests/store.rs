//! The store on a disk: damage, crashes, several processes, holds, a full disk, the machine as an image.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use images::{HOST_IMAGE, Image, ImageStore, ImportOptions, StoreError};
use testkit::image::{ImageMaker, MadeImage};
use testkit::tar::TarMaker;

fn import(store: &ImageStore, made: &MadeImage, tag: &str) -> Image {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), made.docker_archive(&[tag])).unwrap();
    store.import(file.path(), &ImportOptions::new()).unwrap().images.remove(0)
}

fn small(content: &str) -> MadeImage {
    ImageMaker::new().layer(TarMaker::new().file("f", content)).env(&["A=1"]).build()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.symlink_metadata().unwrap().is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

#[test]
fn images_survive_and_several_openers_see_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let one = ImageStore::open(directory.path().join("s")).unwrap();
    let other = ImageStore::open(directory.path().join("s")).unwrap();
    let image = import(&one, &small("x"), "app");
    assert_eq!(other.resolve("app").unwrap(), Some(image.clone()));
    drop((one, other));
    let again = ImageStore::open(directory.path().join("s")).unwrap();
    assert_eq!(again.list().unwrap(), [image]);
    assert_eq!(again.directory().metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

/// Every file of a store, damaged in several ways, one at a time (T70): it opens, answers, and a new import repairs it.
#[test]
fn damage_anywhere_is_set_aside_and_repaired_by_the_next_import() {
    let made = small("x");
    let template = tempfile::tempdir().unwrap();
    let store = ImageStore::open(template.path()).unwrap();
    import(&store, &made, "app");
    store.hold("container", &store.resolve("app").unwrap().unwrap()).unwrap();
    type Damage = (&'static str, fn(&Path));
    let damages: [Damage; 5] = [
        ("emptied", |path| fs::write(path, "").unwrap()),
        ("noise", |path| fs::write(path, [0xff, 0, 7, 9]).unwrap()),
        ("cut", |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("other JSON", |path| fs::write(path, r#"{"id":"../../etc","layers":["../../../etc"]}"#).unwrap()),
        ("gone", |path| fs::remove_file(path).unwrap()),
    ];
    let mut tried = 0;
    for path in files(template.path()) {
        let relative = path.strip_prefix(template.path()).unwrap().to_owned();
        // The content of layers is not read again when an image is used.
        if relative.starts_with("layers") && relative.extension().is_none() {
            continue;
        }
        for (kind, damage) in damages {
            tried += 1;
            let copy = tempfile::tempdir().unwrap();
            let root = copy.path().join("s");
            let copied =
                std::process::Command::new("cp").arg("-a").arg(template.path()).arg(&root).status().unwrap();
            assert!(copied.success());
            damage(&root.join(&relative));
            let store =
                ImageStore::open(&root).unwrap_or_else(|error| panic!("{relative:?} {kind}: {error}"));
            store.list().unwrap();
            let answer = store.resolve("app").unwrap();
            if let Some(image) = &answer {
                assert_eq!(image.config.env, ["A=1"], "{relative:?} {kind}");
                assert!(image.layers[0].join("f").is_file());
            }
            store.holders();
            let image = import(&store, &made, "app");
            assert_eq!(store.resolve("app").unwrap(), Some(image), "{relative:?} {kind}");
            store.remove("app").unwrap().unwrap();
            store.release("container").unwrap();
            assert_eq!(store.list().unwrap(), []);
        }
    }
    assert!(tried >= 25, "{tried}");
}

#[test]
fn a_record_cannot_lead_out_of_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let store = ImageStore::open(directory.path()).unwrap();
    let image = import(&store, &small("x"), "app");
    let record = directory.path().join("images").join(format!("{}.json", image.id.to_hex()));
    let text = fs::read_to_string(&record).unwrap();
    let name = image.layers[0].file_name().unwrap().to_str().unwrap();
    fs::write(&record, text.replace(name, "../../../../../../../../../etc/")).unwrap();
    assert_eq!(store.resolve("app").unwrap(), None);
    store.remove(&image.id.to_string()).unwrap();
    assert!(Path::new("/etc/passwd").exists());
}

#[test]
fn foreign_files_and_directories_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("layers/mine")).unwrap();
    fs::write(directory.path().join("layers/mine/f"), "x").unwrap();
    fs::write(directory.path().join("notes.txt"), "x").unwrap();
    fs::write(directory.path().join("holds"), "in the way").unwrap();
    let store = ImageStore::open(directory.path()).unwrap();
    import(&store, &small("x"), "app");
    store.remove("app").unwrap().unwrap();
    assert!(directory.path().join("layers/mine/f").exists());
    assert!(directory.path().join("notes.txt").exists());
    let aside = fs::read_to_string(directory.path().join("quarantine/holds.0")).unwrap();
    assert_eq!(aside, "in the way");
}

#[test]
fn a_later_format_is_refused_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("version"), "2\n").unwrap();
    assert!(matches!(ImageStore::open(directory.path()), Err(StoreError::Format { .. })));
    assert_eq!(fs::read_to_string(directory.path().join("version")).unwrap(), "2\n");
    fs::write(directory.path().join("version"), "what?").unwrap();
    ImageStore::open(directory.path()).unwrap();
}

#[test]
fn what_dead_owners_left_is_swept_and_what_lives_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let store = ImageStore::open(directory.path()).unwrap();
    let stale = directory.path().join("ingest/1-0");
    fs::create_dir_all(stale.join("layer-0/a/b")).unwrap();
    let living = directory.path().join("ingest/2-0");
    fs::create_dir(&living).unwrap();
    let owner = fs::File::open(&living).unwrap();
    rustix::fs::flock(&owner, rustix::fs::FlockOperation::LockExclusive).unwrap();
    ImageStore::open(store.directory()).unwrap();
    assert!(!stale.exists());
    assert!(living.exists());
}

#[test]
fn held_layers_outlive_their_image() {
    let directory = tempfile::tempdir().unwrap();
    let store = ImageStore::open(directory.path()).unwrap();
    let image = import(&store, &small("x"), "app");
    assert!(store.hold("container-1", &image).unwrap());
    assert!(store.hold("container-2", &image).unwrap());
    let removed = store.remove("app").unwrap().unwrap();
    assert_eq!((removed.images.len(), removed.layers, removed.held_layers), (1, 0, 1));
    assert_eq!(store.resolve("app").unwrap(), None);
    assert!(image.layers[0].join("f").exists());
    store.release("container-1").unwrap();
    assert!(image.layers[0].join("f").exists());
    assert_eq!(ImageStore::open(directory.path()).unwrap().holders(), ["container-2"]);
    store.release("container-2").unwrap();
    store.release("container-2").unwrap();
    assert!(!image.layers[0].exists());
    assert!(!store.hold("container-3", &image).unwrap(), "it is gone");
}

#[test]
fn a_damaged_hold_keeps_the_layers_of_a_running_container() {
    let directory = tempfile::tempdir().unwrap();
    let store = ImageStore::open(directory.path()).unwrap();
    let image = import(&store, &small("x"), "app");
    assert!(store.hold("container", &image).unwrap());
    let hold = fs::read_dir(directory.path().join("holds")).unwrap().next().unwrap().unwrap().path();
    fs::write(&hold, "{").unwrap();
    store.remove("app").unwrap().unwrap();
    assert_eq!(store.list().unwrap(), []);
    assert!(image.layers[0].join("f").exists(), "somebody may run on it");
    store.release("container").unwrap();
    assert!(!image.layers[0].exists(), "the hold is gone, and what it kept");
}

#[test]
fn names_and_identities_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let store = ImageStore::open(directory.path()).unwrap();
    let image = import(&store, &small("x"), "app:1");
    import(&store, &small("x"), "app:2");
    assert_eq!(store.remove("nothing").unwrap(), None);
    assert_eq!(store.remove("app:1").unwrap().unwrap().images, []);
    assert_eq!(store.resolve("app:1").unwrap(), None);
    assert!(store.resolve("app:2").unwrap().is_some());
    let removed = store.remove(&image.id.to_hex()[..8]).unwrap().unwrap();
    assert_eq!(removed.references, ["docker.io/library/app:2"]);
    assert_eq!(store.list().unwrap(), []);
    assert_eq!(files(&directory.path().join("layers")), [] as [PathBuf; 0]);
}

#[test]
fn importing_and_removing_at_once_never_shows_half_an_image() {
    let directory = tempfile::tempdir().unwrap();
    let stores: Vec<ImageStore> = (0..4).map(|_| ImageStore::open(directory.path()).unwrap()).collect();
    let made: Vec<MadeImage> = (0..3)
        .map(|index| {
            ImageMaker::new()
                .layer(TarMaker::new().file("shared", "x"))
                .layer(TarMaker::new().file("own", index.to_string()))
                .build()
        })
        .collect();
    std::thread::scope(|scope| {
        for (index, made) in made.iter().enumerate() {
            let store = &stores[index];
            scope.spawn(move || {
                for _ in 0..20 {
                    let file = tempfile::NamedTempFile::new().unwrap();
                    fs::write(file.path(), made.docker_archive(&[&format!("app:{index}")])).unwrap();
                    match store.import(file.path(), &ImportOptions::new()) {
                        Ok(_) | Err(images::ImportError::Removed) => {}
                        Err(error) => panic!("{error}"),
                    }
                    store.remove(&format!("app:{index}")).unwrap();
                }
            });
        }
        let reader = &stores[3];
        scope.spawn(move || {
            for _ in 0..200 {
                for image in reader.list().unwrap() {
                    assert_eq!(image.layers.len(), 2);
                }
            }
        });
    });
    assert_eq!(stores[0].list().unwrap(), []);
    for place in ["layers", "blobs/sha256", "images", "references", "ingest"] {
        let left = files(&directory.path().join(place));
        assert_eq!(left, [] as [PathBuf; 0], "an import that lost the race leaves nothing in {place}");
    }
    assert_eq!(files(&directory.path().join("quarantine")), [] as [PathBuf; 0], "nothing was damaged");
}

#[test]
fn the_machine_is_an_image_where_it_is_allowed() {
    let directory = tempfile::tempdir().unwrap();
    let store = ImageStore::open(directory.path()).unwrap();
    assert!(matches!(store.resolve(HOST_IMAGE), Err(StoreError::HostImageNotAllowed(_))));
    let store = store.with_host_image();
    let image = store.resolve(HOST_IMAGE).unwrap().unwrap();
    assert_eq!(image.layers, [Path::new("/")]);
    assert_eq!(image.config, images::ImageConfig::default());
    assert!(image.is_host);
    assert_eq!(store.resolve(&image.id.to_string()).unwrap(), Some(image.clone()));
    assert_eq!(store.list().unwrap(), []);
    assert!(store.hold("container", &image).unwrap());
    assert_eq!(store.remove(HOST_IMAGE).unwrap(), None);
}

/// T72: on a full disk imports fail cleanly, reading and removing work, and everything recovers by itself.
#[test]
fn a_full_disk_is_survived() {
    if !testkit::machine::require_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(_mount) = SmallDisk::mount(directory.path()) else { return };
    let store = ImageStore::open(directory.path().join("s")).unwrap();
    import(&store, &small("x"), "app");
    let large = ImageMaker::new().layer(TarMaker::new().file("large", vec![b'x'; 12 << 20])).build();
    let archive = tempfile::NamedTempFile::new().unwrap();
    fs::write(archive.path(), large.docker_archive(&["large"])).unwrap();
    let error = store.import(archive.path(), &ImportOptions::new()).unwrap_err();
    assert!(error.is_disk_full(), "{error:?}");
    assert!(error.hint().unwrap().contains("coracle image remove"));
    assert_eq!(files(&store.directory().join("ingest")), [] as [PathBuf; 0], "its space is free again");
    // Full to the last byte.
    let _ = fs::write(directory.path().join("filler"), vec![0; 16 << 20]);
    assert!(store.resolve("app").unwrap().is_some());
    ImageStore::open(store.directory()).unwrap();
    store.remove("app").unwrap().unwrap();
    fs::remove_file(directory.path().join("filler")).unwrap();
    import(&store, &small("x"), "app");
}

/// A file system of 8 MiB, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(path: &Path) -> Option<SmallDisk> {
        let status = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"])
            .arg(path)
            .status()
            .ok();
        let mounted = status.is_some_and(|status| status.success());
        testkit::machine::require(mounted, "the right to mount").then(|| SmallDisk(path.to_path_buf()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let status = std::process::Command::new("umount").arg(&self.0).status();
        assert!(status.is_ok_and(|status| status.success()), "the file system can be unmounted");
    }
}

/// A process that is killed in the middle of an import, at every step of it: the store opens, shows the image whole or
/// not at all, and takes it the next time.
#[test]
fn a_killed_import_is_as_if_it_had_not_begun() {
    const MARK: &str = "CORACLE_TEST_KILLED_IMPORT";
    if let Some(place) = std::env::var_os(MARK) {
        // The process that will be killed: it says each step and waits for permission to go on.
        let place = PathBuf::from(place);
        let store = ImageStore::open(place.join("s")).unwrap();
        let options = ImportOptions::new().with_progress(std::sync::Arc::new(StepByStep));
        store.import(place.join("archive"), &options).unwrap();
        println!("STEP");
        return;
    }
    let made = ImageMaker::new()
        .layer(TarMaker::new().file("a", vec![b'a'; 1 << 20]))
        .layer(TarMaker::new().file("b", vec![b'b'; 1 << 20]))
        .build();
    let mut complete = 0;
    for steps in 1.. {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("archive"), made.docker_archive(&["app"])).unwrap();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_killed_import_is_as_if_it_had_not_begun", "--nocapture"])
            .env(MARK, directory.path())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut permission = child.stdin.take().unwrap();
        let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let mut seen = 0;
        for line in lines.map_while(Result::ok).filter(|line| line.ends_with("STEP")) {
            seen += 1;
            if seen == steps {
                break;
            }
            assert!(line.ends_with("STEP"));
            let _ = std::io::Write::write_all(&mut permission, b"\n");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let store = ImageStore::open(directory.path().join("s")).unwrap();
        assert_eq!(files(&store.directory().join("ingest")), [] as [PathBuf; 0]);
        assert_eq!(files(&store.directory().join("quarantine")), [] as [PathBuf; 0]);
        if let Some(image) = store.resolve("app").unwrap() {
            complete += 1;
            assert_eq!(image.layers[1].join("b").metadata().unwrap().len(), 1 << 20);
        }
        let options = ImportOptions::new();
        let image = store.import(directory.path().join("archive"), &options).unwrap().images.remove(0);
        assert_eq!(store.resolve("app").unwrap(), Some(image));
        if seen < steps {
            break;
        }
    }
    assert!(complete >= 1, "the last run was not killed before its end");
}

struct StepByStep;

impl images::PullProgress for StepByStep {
    fn report(&self, _event: images::TransferEvent) {
        println!("STEP");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
    }
}

/// A removal while a record cannot be read (here: a directory in its place) must not take for unused what that record
/// may mention.
#[test]
fn nothing_is_removed_as_unused_while_a_record_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let store = ImageStore::open(directory.path()).unwrap();
    let kept = import(&store, &small("kept"), "kept");
    import(&store, &small("other"), "other");
    let record = directory.path().join("images").join(format!("{}.json", kept.id.to_hex()));
    let saved = fs::read(&record).unwrap();
    fs::remove_file(&record).unwrap();
    fs::create_dir(&record).unwrap();
    assert!(matches!(store.remove("other"), Err(StoreError::Io { .. })));
    assert!(kept.layers[0].join("f").exists());
    fs::remove_dir(&record).unwrap();
    fs::write(&record, saved).unwrap();
    assert_eq!(store.resolve("kept").unwrap(), Some(kept));
}
