//! Layers through a real overlay mount: what whiteouts and opaque directories hide, for everybody who looks.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use images::{Image, ImageStore, ImportOptions};
use testkit::image::ImageMaker;
use testkit::tar::{HeaderMaker, TarMaker};

/// An image mounted read-only, unmounted when dropped.
struct Mounted {
    root: PathBuf,
    _directory: tempfile::TempDir,
}

impl Mounted {
    fn new(image: &Image) -> Option<Mounted> {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        fs::create_dir(&root).unwrap();
        // A mount of lower directories alone needs two of them.
        let empty = directory.path().join("empty");
        fs::create_dir(&empty).unwrap();
        let layers = image.layers.iter().rev().chain([&empty]).map(|path| path.to_str().unwrap());
        let options = format!("ro,lowerdir={}", layers.collect::<Vec<_>>().join(":"));
        let status =
            Command::new("mount").args(["-t", "overlay", "overlay", "-o", &options]).arg(&root).status();
        let mounted = status.is_ok_and(|status| status.success());
        testkit::machine::require(mounted, "overlay mounts")
            .then_some(Mounted { root, _directory: directory })
    }

    fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let status = Command::new("umount").arg(&self.root).status();
        assert!(status.is_ok_and(|status| status.success()), "the image can be unmounted");
    }
}

fn import(directory: &Path, maker: &ImageMaker) -> Image {
    let store = ImageStore::open(directory.join("images")).unwrap();
    let archive = directory.join("archive");
    fs::write(&archive, maker.build().docker_archive(&["app"])).unwrap();
    store.import(archive, &ImportOptions::new()).unwrap().images.remove(0)
}

#[test]
fn a_mounted_image_is_what_its_layers_say_together() {
    if !testkit::machine::require_root() {
        return;
    }
    let base = TarMaker::new()
        .directory("kept/")
        .file("kept/a", "1")
        .file("kept/b", "1")
        .directory("emptied/")
        .file("emptied/a", "1")
        .directory("replaced/")
        .file("replaced/a", "1")
        .directory("gone/")
        .file("gone/a", "1")
        .entry(HeaderMaker::new(b'5', "tmp/").mode(0o1777), b"")
        .file("file", "1");
    let upper = TarMaker::new()
        .directory("kept/")
        .file("kept/.wh.a", "")
        .file("kept/c", "2")
        .directory("emptied/")
        .file("emptied/.wh..wh..opq", "")
        .file("emptied/b", "2")
        .file(".wh.replaced", "")
        .directory("replaced/")
        .file("replaced/b", "2")
        .file(".wh.gone", "")
        .file("tmp/x", "2")
        .directory("file/")
        .file("file/now", "2");
    // Another layer brings some of it back.
    let top = TarMaker::new().directory("gone/").file("gone/again", "3");
    let directory = tempfile::tempdir().unwrap();
    let image = import(directory.path(), &ImageMaker::new().layer(base).layer(upper).layer(top));
    let Some(mounted) = Mounted::new(&image) else { return };
    assert_eq!(mounted.names(""), ["emptied", "file", "gone", "kept", "replaced", "tmp"]);
    assert_eq!(mounted.names("kept"), ["b", "c"]);
    assert_eq!(mounted.names("emptied"), ["b"]);
    assert_eq!(mounted.names("replaced"), ["b"]);
    assert_eq!(mounted.names("gone"), ["again"]);
    assert_eq!(mounted.names("file"), ["now"]);
    assert_eq!(mounted.root.join("tmp").metadata().unwrap().mode() & 0o7777, 0o1777);
}

#[test]
fn an_image_of_a_hundred_and_twenty_layers_can_be_mounted_from_its_directory() {
    if !testkit::machine::require_root() {
        return;
    }
    let maker = (0..120).fold(ImageMaker::new(), |maker, index| {
        maker.layer(TarMaker::new().file(format!("f{index}"), index.to_string()))
    });
    let directory = tempfile::tempdir().unwrap();
    let image = import(directory.path(), &maker);
    // As the runtime does it: names relative to the directory that all layers share fit into one page.
    let above = image.layers[0].parent().unwrap();
    let names: Vec<&str> =
        image.layers.iter().rev().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    let lower = names.join(":");
    assert!(
        lower.len() + "lowerdir=,upperdir=,workdir=,index=off,metacopy=off,redirect_dir=off".len() < 4096
    );
    let root = directory.path().join("root");
    fs::create_dir(&root).unwrap();
    let status = Command::new("mount")
        .current_dir(above)
        .args(["-i", "-t", "overlay", "overlay", "-o", &format!("ro,lowerdir={lower}")])
        .arg(&root)
        .status();
    if !testkit::machine::require(status.is_ok_and(|status| status.success()), "overlay mounts") {
        return;
    }
    let count = fs::read_dir(&root).map(Iterator::count);
    assert!(Command::new("umount").arg(&root).status().unwrap().success());
    assert_eq!(count.unwrap(), 120);
}
