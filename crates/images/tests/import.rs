//! Imports: every form of archive, names, damage, bombs; and what a store does with what came.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use images::{Image, ImageStore, ImportError, ImportOptions, Imported, Limits, Reference};
use testkit::image::{Compression, ImageMaker, MadeImage, compress, descriptor};
use testkit::tar::{HeaderMaker, TarMaker};

struct StorePlace {
    directory: tempfile::TempDir,
    store: ImageStore,
}

impl StorePlace {
    fn new() -> StorePlace {
        let directory = tempfile::tempdir().unwrap();
        let store = ImageStore::open(directory.path().join("images")).unwrap();
        StorePlace { directory, store }
    }

    fn file(&self, bytes: &[u8]) -> PathBuf {
        let path = self.directory.path().join("file");
        fs::write(&path, bytes).unwrap();
        path
    }

    fn import(&self, bytes: &[u8]) -> Result<Imported, ImportError> {
        self.store.import(self.file(bytes), &ImportOptions::new())
    }

    fn import_as(&self, bytes: &[u8], name: &str) -> Result<Imported, ImportError> {
        self.store.import(self.file(bytes), &named(name))
    }

    /// Nothing visible and nothing left over.
    fn assert_empty(&self) {
        assert_eq!(self.store.list().unwrap(), []);
        for name in ["ingest", "layers", "blobs/sha256", "images", "references"] {
            let left: Vec<_> = fs::read_dir(self.store.directory().join(name))
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            assert!(left.is_empty(), "{left:?}");
        }
    }
}

fn named(name: &str) -> ImportOptions {
    ImportOptions::new().with_name(Reference::parse(name).unwrap())
}

fn two_layers() -> MadeImage {
    ImageMaker::new()
        .layer(TarMaker::new().directory("etc/").file("etc/a", "1").file("etc/b", "1"))
        .layer(TarMaker::new().directory("etc/").file("etc/a", "2").file("etc/.wh.b", ""))
        .env(&["B=1", "A=2"])
        .entrypoint(&["/e"])
        .cmd(&["c"])
        .user("1000:2000")
        .working_dir("/etc")
        .build()
}

fn check(image: &Image, made: &MadeImage) {
    assert_eq!(image.id.to_string(), made.id());
    assert_eq!(image.config.env, ["B=1", "A=2"]);
    assert_eq!(image.config.entrypoint, ["/e"]);
    assert_eq!(image.config.user, "1000:2000");
    assert_eq!(image.layers.len(), 2);
    assert_eq!(fs::read_to_string(image.layers[0].join("etc/a")).unwrap(), "1");
    assert_eq!(fs::read_to_string(image.layers[1].join("etc/a")).unwrap(), "2");
}

#[test]
fn every_form_of_archive_gives_the_same_image() {
    for compression in [Compression::Plain, Compression::Gzip, Compression::Zstd] {
        let made = ImageMaker::new()
            .layer(TarMaker::new().directory("etc/").file("etc/a", "1").file("etc/b", "1"))
            .layer(TarMaker::new().directory("etc/").file("etc/a", "2").file("etc/.wh.b", ""))
            .env(&["B=1", "A=2"])
            .entrypoint(&["/e"])
            .cmd(&["c"])
            .user("1000:2000")
            .compression(compression)
            .build();
        let layout = tempfile::tempdir().unwrap();
        made.write_oci_layout(layout.path(), Some("localhost/app:1"));
        let archives = [made.docker_archive(&["localhost/app:1"]), made.oci_archive(Some("localhost/app:1"))];
        for archive in &archives {
            // As it is, and compressed as a whole.
            for whole in [Compression::Plain, Compression::Gzip, Compression::Zstd] {
                let place = StorePlace::new();
                let imported = place.import(&compress(archive, whole)).unwrap();
                assert_eq!(imported.images.len(), 1);
                check(&imported.images[0], &made);
                assert_eq!(imported.images[0].references, ["localhost/app:1"]);
            }
        }
        let place = StorePlace::new();
        let imported = place.store.import(layout.path(), &ImportOptions::new()).unwrap();
        check(&imported.images[0], &made);
        let resolved = place.store.resolve("localhost/app:1").unwrap().unwrap();
        assert_eq!(resolved, imported.images[0]);
        assert_eq!(place.store.resolve(&made.id()).unwrap().unwrap(), resolved);
        assert_eq!(place.store.resolve(&resolved.repo_digests[0]).unwrap().unwrap(), resolved);
        assert_eq!(place.store.find(&made.id()[7..12]).unwrap().unwrap(), resolved);
    }
}

#[test]
fn names_are_normalised_replaced_and_moved() {
    let place = StorePlace::new();
    let one = two_layers();
    place.import(&one.docker_archive(&["busybox:1", "busybox"])).unwrap();
    let image = place.store.resolve("docker.io/library/busybox").unwrap().unwrap();
    assert_eq!(image.references, ["docker.io/library/busybox:1", "docker.io/library/busybox:latest"]);
    let other = ImageMaker::new().layer(TarMaker::new().file("f", "x")).build();
    let imported = place.import_as(&other.docker_archive(&["elsewhere"]), "busybox:1").unwrap();
    assert_eq!(imported.images[0].references, ["docker.io/library/busybox:1"]);
    assert_eq!(place.store.resolve("elsewhere").unwrap(), None);
    assert_eq!(place.store.resolve("busybox").unwrap().unwrap().id.to_string(), one.id());
    assert_eq!(place.store.list().unwrap().len(), 2);
    assert_eq!(place.store.nearest("bussybox").as_deref(), Some("busybox"));
}

#[test]
fn an_import_under_a_second_name_reports_that_name_only() {
    let place = StorePlace::new();
    let made = two_layers();
    place.import(&made.docker_archive(&["one:1"])).unwrap();
    let again = place.import(&made.docker_archive(&["two:1", "two:2"])).unwrap();
    assert_eq!(again.images[0].references, ["docker.io/library/two:1", "docker.io/library/two:2"]);
    let named = place.import_as(&made.docker_archive(&["four"]), "three").unwrap();
    assert_eq!(named.images[0].references, ["docker.io/library/three:latest"]);
    assert_eq!(place.store.resolve("one:1").unwrap().unwrap().references.len(), 4);
}

#[test]
fn a_damaged_archive_is_refused_although_the_store_has_its_layers() {
    let place = StorePlace::new();
    let made = two_layers();
    place.import(&made.docker_archive(&["app:1"])).unwrap();
    let other = TarMaker::new().file("evil", "x").build();
    for damaged in [made.tars[0][..made.tars[0].len() / 2].to_vec(), other, Vec::new()] {
        let list =
            serde_json::json!([{ "Config": "c.json", "RepoTags": ["app:2"], "Layers": ["0.tar", "1.tar"] }]);
        let archive = TarMaker::new()
            .file("c.json", &made.config)
            .file("0.tar", damaged)
            .file("1.tar", &made.tars[1])
            .file("manifest.json", list.to_string())
            .build();
        let error = place.import(&archive).expect_err("it is not what it says");
        assert!(matches!(error, ImportError::Layer { .. }), "{error}");
        assert_eq!(place.store.resolve("app:2").unwrap(), None);
    }
    assert!(place.store.resolve("app:1").unwrap().is_some(), "what was there stays");
}

#[test]
fn a_root_file_system_needs_a_name_and_becomes_one_layer() {
    let place = StorePlace::new();
    let tar = TarMaker::new().directory("bin/").program("bin/sh", "x").build();
    assert!(matches!(place.import(&tar), Err(ImportError::NeedsName { .. })));
    place.assert_empty();
    for bytes in [tar.clone(), compress(&tar, Compression::Gzip), compress(&tar, Compression::Zstd)] {
        let imported = place.import_as(&bytes, "localhost/root").unwrap();
        assert_eq!(fs::read_to_string(imported.images[0].layers[0].join("bin/sh")).unwrap(), "x");
    }
    assert_eq!(place.store.list().unwrap().len(), 1, "the same content is the same image");
}

#[test]
fn a_directory_is_packed_with_links_modes_and_without_its_sockets() {
    let place = StorePlace::new();
    let root = place.directory.path().join("root");
    fs::create_dir_all(root.join("bin")).unwrap();
    fs::write(root.join("bin/a"), "x").unwrap();
    fs::set_permissions(root.join("bin/a"), fs::Permissions::from_mode(0o4755)).unwrap();
    fs::hard_link(root.join("bin/a"), root.join("bin/b")).unwrap();
    std::os::unix::fs::symlink("/etc/shadow", root.join("link")).unwrap();
    fs::create_dir(root.join("n".repeat(200))).unwrap();
    rustix::fs::setxattr(root.join("bin/a"), "user.note", b"1\n2", rustix::fs::XattrFlags::empty()).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    let options = named("localhost/root:dir");
    let imported = place.store.import(&root, &options).unwrap();
    let layer = &imported.images[0].layers[0];
    let file = layer.join("bin/a").metadata().unwrap();
    assert_eq!((file.mode() & 0o7777, file.nlink()), (0o4755, 2));
    assert_eq!(fs::read_link(layer.join("link")).unwrap(), Path::new("/etc/shadow"));
    assert!(layer.join("n".repeat(200)).is_dir());
    assert!(!layer.join("socket").exists());
    let mut value = [0; 10];
    assert_eq!(rustix::fs::getxattr(layer.join("bin/a"), "user.note", &mut value).unwrap(), 3);
    let again = place.store.import(&root, &options).unwrap();
    assert_eq!(again.images[0].id, imported.images[0].id, "the same directory is the same image");
}

#[test]
fn an_image_without_layers_can_be_mounted_all_the_same() {
    let place = StorePlace::new();
    let imported = place.import(&ImageMaker::new().build().docker_archive(&["empty"])).unwrap();
    assert_eq!(imported.images[0].layers.len(), 1);
    assert_eq!(fs::read_dir(&imported.images[0].layers[0]).unwrap().count(), 0);
}

#[test]
fn archives_with_several_images_share_layers() {
    let place = StorePlace::new();
    let layer = TarMaker::new().file("shared", "x");
    let one = ImageMaker::new().layer(layer.clone()).env(&["N=1"]).build();
    let two = ImageMaker::new().layer(layer).env(&["N=2"]).build();
    let list = serde_json::json!([
        { "Config": "one.json", "RepoTags": ["a:1"], "Layers": ["l.tar"] },
        { "Config": "two.json", "RepoTags": ["a:2"], "Layers": ["dir/link.tar"] },
    ]);
    let archive = TarMaker::new()
        .file("one.json", &one.config)
        .file("two.json", &two.config)
        .file("l.tar", &one.tars[0])
        .symlink("dir/link.tar", "../l.tar")
        .file("manifest.json", list.to_string())
        .build();
    assert!(matches!(place.import_as(&archive, "b"), Err(ImportError::SeveralImages { count: 2, .. })));
    let imported = place.import(&archive).unwrap();
    assert_eq!(imported.images[0].layers, imported.images[1].layers);
    let removed = place.store.remove("a:1").unwrap().unwrap();
    assert_eq!((removed.images.len(), removed.layers), (1, 0), "the other image needs the layer");
    assert!(place.store.resolve("a:2").unwrap().is_some());
    assert_eq!(place.store.remove("a:2").unwrap().unwrap().layers, 1);
    place.assert_empty();
}

#[test]
fn the_right_platform_of_a_list_is_imported() {
    let place = StorePlace::new();
    let maker = ImageMaker::new().layer(TarMaker::new().file("f", "x"));
    let (own, other) = (maker.build(), maker.build_for("s390x"));
    let architecture = place.import(&own.docker_archive(&["own"])).unwrap().images[0].architecture.clone();
    let entry = |image: &MadeImage, architecture: &str| {
        let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", &image.manifest);
        entry["platform"] = serde_json::json!({ "os": "linux", "architecture": architecture });
        entry
    };
    let inner = serde_json::json!({ "schemaVersion": 2, "manifests": [entry(&other, "s390x"), entry(&own, &architecture)] }).to_string();
    let mut outer = descriptor("application/vnd.oci.image.index.v1+json", inner.as_bytes());
    outer["annotations"] = serde_json::json!({ "io.containerd.image.name": "docker.io/library/multi:1" });
    let index = serde_json::json!({ "schemaVersion": 2, "manifests": [outer] }).to_string();
    let mut archive = TarMaker::new().file("oci-layout", "{}").file("index.json", index);
    let blobs =
        own.blobs().chain(other.blobs()).chain([&own.manifest[..], &other.manifest, inner.as_bytes()]);
    for blob in blobs {
        archive = archive.file(format!("blobs/{}", testkit::image::digest(blob).replace(':', "/")), blob);
    }
    let imported = place.import(&archive.build()).unwrap();
    assert_eq!(imported.images[0].id.to_string(), own.id());
    assert!(imported.images[0].references.contains(&"docker.io/library/multi:1".to_owned()));
}

#[test]
fn directories_that_a_layer_only_implies_keep_what_lower_layers_say() {
    let place = StorePlace::new();
    let base = TarMaker::new()
        .entry(HeaderMaker::new(b'5', "tmp/").mode(0o1777).modified(1_000_000_000), b"")
        .entry(HeaderMaker::new(b'5', "root/").mode(0o700), b"")
        .directory("srv/");
    let upper = TarMaker::new().file("tmp/f", "x").file("root/sub/f", "x").file("srv/f", "x");
    let made = ImageMaker::new().layer(base.clone()).layer(upper.clone()).build();
    let image = place.import(&made.docker_archive(&["implied"])).unwrap().images.remove(0);
    let mode = |image: &Image, path: &str| image.layers[1].join(path).metadata().unwrap().mode() & 0o7777;
    assert_eq!(mode(&image, "tmp"), 0o1777);
    assert_eq!(mode(&image, "root"), 0o700);
    assert_eq!(mode(&image, "root/sub"), 0o755);
    assert_eq!(image.layers[1].join("tmp").metadata().unwrap().mtime(), 1_000_000_000);
    assert_eq!(fs::read_to_string(image.layers[1].join("tmp/f")).unwrap(), "x");
    // The same layer over another base is another directory; alone it is as it came.
    let alone = ImageMaker::new().layer(upper).build();
    let alone = place.import(&alone.docker_archive(&["alone"])).unwrap().images.remove(0);
    assert_eq!(alone.layers[0].join("tmp").metadata().unwrap().mode() & 0o7777, 0o755);
    assert_eq!(mode(&place.store.resolve("implied").unwrap().unwrap(), "tmp"), 0o1777);
    place.store.remove("alone").unwrap().unwrap();
    assert_eq!(mode(&place.store.resolve("implied").unwrap().unwrap(), "tmp"), 0o1777);
    place.store.remove("implied").unwrap().unwrap();
    place.assert_empty();
}

/// A layer that unpacks to `size` bytes of zeros.
fn zeros(size: usize) -> Vec<u8> {
    TarMaker::new().file("zeros", vec![0; size]).build()
}

#[test]
fn damaged_and_hostile_archives_are_refused_and_leave_nothing() {
    let made = two_layers();
    let good = made.docker_archive(&["app"]);
    let list = |config: &str, layers: &[&str]| {
        serde_json::json!([{ "Config": config, "RepoTags": ["app"], "Layers": layers }]).to_string()
    };
    let with = |config: &str, layers: &[&str]| {
        TarMaker::new()
            .file("c.json", &made.config)
            .file("0.tar", &made.tars[0])
            .file("1.tar", &made.tars[1])
            .symlink("out.tar", "../../../etc/passwd")
            .symlink("loop.tar", "loop.tar")
            .directory("dir/")
            .file("manifest.json", list(config, layers))
    };
    let config = |text: &str| {
        TarMaker::new()
            .file("c.json", text)
            .file("0.tar", &made.tars[0])
            .file("manifest.json", list("c.json", &["0.tar"]))
            .build()
    };
    let layout = |change: fn(&mut Vec<(String, Vec<u8>)>)| {
        let mut files = made.layout(Some("localhost/app:1"));
        change(&mut files);
        files.into_iter().fold(TarMaker::new(), |archive, (name, bytes)| archive.file(name, bytes)).build()
    };
    let bomb = |compression: Compression| {
        let layer = zeros(8 << 20);
        let made = ImageMaker::new().layer_bytes(layer).compression(compression).build();
        made.oci_archive(Some("localhost/bomb:1"))
    };
    let window = {
        // A frame header that asks for a window of 2 GiB, then a block of zeros.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8];
        frame.extend_from_slice(&[0x03, 0x00, 0x10, 0x00]);
        frame
    };
    let raw_layer = |bytes: Vec<u8>| {
        let mut made = made.clone();
        made.layers[0] = bytes.clone();
        made.tars[0] = bytes;
        made.docker_archive(&["app"])
    };
    let gzip = compress(&made.tars[0], Compression::Gzip);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("noise", vec![7; 5000], "not an image archive"),
        ("nothing", Vec::new(), "holds no image"),
        ("cut archive", good[..good.len() / 2].to_vec(), "not an image archive"),
        ("cut gzip of an archive", compress(&good, Compression::Gzip)[..200].to_vec(), "decompress"),
        ("cut zstd of an archive", compress(&good, Compression::Zstd)[..200].to_vec(), "decompress"),
        ("list that is no JSON", TarMaker::new().file("manifest.json", "[").build(), "not readable"),
        ("list without images", TarMaker::new().file("manifest.json", "[]").build(), "holds no image"),
        (
            "configuration missing",
            with("x.json", &["0.tar", "1.tar"]).build(),
            "\"x.json\" of the archive is missing",
        ),
        ("configuration outside", with("../../etc/passwd", &[]).build(), "leads out"),
        ("configuration is a directory", with("dir", &[]).build(), "not a file"),
        ("layer missing", with("c.json", &["0.tar", "2.tar"]).build(), "\"2.tar\" of the archive is missing"),
        ("layer outside", with("c.json", &["0.tar", "/../1.tar"]).build(), "leads out"),
        ("layer is a link outside", with("c.json", &["0.tar", "out.tar"]).build(), "missing"),
        ("layer is a link to itself", with("c.json", &["0.tar", "loop.tar"]).build(), "circle"),
        ("layers in the wrong order", with("c.json", &["1.tar", "0.tar"]).build(), "layer"),
        ("fewer layers than the configuration", with("c.json", &["0.tar"]).build(), "manifest has 1 layers"),
        (
            "configuration is not what its name says",
            {
                let name = format!("{}.json", "0".repeat(64));
                TarMaker::new().file(&name, &made.config).file("manifest.json", list(&name, &[])).build()
            },
            "should be sha256:0000",
        ),
        ("configuration without layers", config("{}"), "lists no layers"),
        ("configuration for another system", config(r#"{"os":"plan9","rootfs":{"diff_ids":[]}}"#), "plan9"),
        (
            "configuration with NUL in a variable",
            config(r#"{"config":{"Env":["A=\u0000"]},"rootfs":{"diff_ids":[]}}"#),
            "NUL",
        ),
        (
            "configuration with a digest that is a path",
            config(r#"{"rootfs":{"diff_ids":["sha256:../../../../etc/passwd"]}}"#),
            "not readable",
        ),
        (
            "configuration of 10 MiB",
            config(&format!(r#"{{"config":{{"Env":["A={}"]}}}}"#, "x".repeat(10 << 20))),
            "at most 4194304",
        ),
        (
            "tag that is none",
            TarMaker::new()
                .file("c.json", &made.config)
                .file("manifest.json", r#"[{"Config":"c.json","RepoTags":["A B"]}]"#)
                .build(),
            "image reference",
        ),
        ("layer with another content", raw_layer(TarMaker::new().file("x", "y").build()), "layer"),
        ("layer that is noise", raw_layer(vec![7; 3000]), "layer"),
        ("layer that is cut gzip", raw_layer(gzip[..gzip.len() - 12].to_vec()), "layer"),
        (
            "layer with a wrong gzip sum",
            {
                let mut bytes = gzip.clone();
                let at = bytes.len() - 6;
                bytes[at] ^= 1;
                raw_layer(bytes)
            },
            "layer",
        ),
        ("layer with noise behind gzip", raw_layer([gzip.clone(), vec![7; 100]].concat()), "layer"),
        ("zstd window of 2 GiB", raw_layer(window), "layer"),
        ("gzip bomb", bomb(Compression::Gzip), "more than"),
        ("zstd bomb", bomb(Compression::Zstd), "more than"),
        ("index missing", layout(|files| drop(files.remove(1))), "missing"),
        ("manifest missing", layout(|files| drop(files.remove(2))), "missing"),
        ("manifest changed", layout(|files| files[2].1.push(b' ')), "should be"),
        (
            "blob of the configuration changed",
            layout(|files| files.last_mut().unwrap().1.push(b' ')),
            "should be",
        ),
        ("layer missing in the layout", layout(|files| drop(files.remove(3))), "missing"),
        (
            "121 layers",
            (0..121)
                .fold(ImageMaker::new(), |maker, index| {
                    maker.layer(TarMaker::new().file("f", index.to_string()))
                })
                .build()
                .docker_archive(&["many"]),
            "at most 120",
        ),
    ];
    // Small caps, so that small bombs are bombs.
    let limits = Limits { ratio: 50, ratio_free_bytes: 64 << 10, ..Limits::DEFAULT };
    for (name, bytes, expected) in cases {
        let mut place = StorePlace::new();
        place.store = place.store.with_limits(limits.clone());
        let error = match place.import(&bytes) {
            Err(error) => error,
            Ok(imported) => panic!("{name}: imported {imported:?}"),
        };
        let chain = [
            error.to_string(),
            std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default(),
        ];
        assert!(chain.join(": ").contains(expected), "{name}: {chain:?}");
        assert_eq!(place.store.list().unwrap(), [], "{name}");
        for part in ["ingest", "layers", "images", "references"] {
            let left = fs::read_dir(place.store.directory().join(part)).unwrap().count();
            assert_eq!(left, 0, "{name}: {part}");
        }
    }
}

#[test]
fn gzip_in_several_members_is_one_layer() {
    let place = StorePlace::new();
    let layer = TarMaker::new().file("f", vec![b'x'; 10_000]).build();
    let mut made = ImageMaker::new().layer_bytes(layer.clone()).build();
    made.tars[0] = layer.chunks(3000).flat_map(|part| compress(part, Compression::Gzip)).collect();
    let imported = place.import(&made.docker_archive(&["parts"])).unwrap();
    assert_eq!(fs::read(imported.images[0].layers[0].join("f")).unwrap().len(), 10_000);
}

#[test]
fn files_that_are_no_files_are_refused_without_waiting() {
    let place = StorePlace::new();
    let import = |path: &Path| place.store.import(path, &ImportOptions::new());
    assert!(matches!(import(Path::new("/nonexistent")), Err(ImportError::Io { .. })));
    let layout = place.directory.path().join("layout");
    fs::create_dir(&layout).unwrap();
    fs::write(layout.join("oci-layout"), "{}").unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        layout.join("index.json"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert!(matches!(
        import(&layout),
        Err(ImportError::Missing { .. } | ImportError::Member { .. } | ImportError::NeedsName { .. })
    ));
}
