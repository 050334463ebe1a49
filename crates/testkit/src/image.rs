//! Makes small images: `docker save` archives, OCI archives and layouts, from bytes or from Debian's `busybox-static`.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::tar::{HeaderMaker, TarMaker};

/// How layers are transported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// As they are.
    Plain,
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
}

/// `sha256:HEX` of some bytes.
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Compresses bytes.
pub fn compress(bytes: &[u8], compression: Compression) -> Vec<u8> {
    match compression {
        Compression::Plain => bytes.to_vec(),
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).expect("memory does not fail");
            encoder.finish().expect("memory does not fail")
        }
        Compression::Zstd => zstd::encode_all(bytes, 3).expect("memory does not fail"),
    }
}

/// An image in the making. Without changes it has no layers and an empty configuration.
#[derive(Debug, Clone)]
pub struct ImageMaker {
    layers: Vec<Vec<u8>>,
    config: Value,
    compression: Compression,
}

/// A finished image: the blobs that make it up.
#[derive(Debug, Clone)]
pub struct MadeImage {
    /// The configuration; its digest is the image's identity.
    pub config: Vec<u8>,
    /// The layers as transported.
    pub layers: Vec<Vec<u8>>,
    /// The layers as they unpack.
    pub tars: Vec<Vec<u8>>,
    /// The OCI manifest.
    pub manifest: Vec<u8>,
}

impl Default for ImageMaker {
    fn default() -> Self {
        ImageMaker::new()
    }
}

impl ImageMaker {
    /// No layers, empty configuration, gzip.
    pub fn new() -> ImageMaker {
        ImageMaker { layers: Vec::new(), config: json!({}), compression: Compression::Gzip }
    }

    /// Debian's static busybox with links for its programs, `/etc/passwd`, `/etc/group` and `/tmp`; the command is
    /// `sh`. `None` where the package `busybox-static` is not installed.
    pub fn busybox() -> Option<ImageMaker> {
        let program = fs::read("/bin/busybox").ok()?;
        let listed = std::process::Command::new("/bin/busybox").arg("--list").output().ok()?;
        let mut layer = TarMaker::new()
            .directory("bin/")
            .program("bin/busybox", program)
            .directory("etc/")
            .file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n")
            .file("etc/group", "root:x:0:\nuser:x:1000:\nextra:x:2000:user\n")
            .entry(HeaderMaker::new(b'5', "root/").mode(0o700), b"")
            .directory("home/")
            .entry(HeaderMaker::new(b'5', "home/user/").owner(1000, 1000), b"")
            .entry(HeaderMaker::new(b'5', "tmp/").mode(0o1777), b"");
        for applet in String::from_utf8_lossy(&listed.stdout).lines().filter(|name| *name != "busybox") {
            layer = layer.symlink(format!("bin/{applet}"), "busybox");
        }
        Some(ImageMaker::new().layer(layer).cmd(&["sh"]).env(&["PATH=/bin"]))
    }

    /// One more layer on top.
    pub fn layer(self, layer: TarMaker) -> ImageMaker {
        self.layer_bytes(layer.build())
    }

    /// One more layer on top, whatever the bytes are.
    pub fn layer_bytes(mut self, layer: Vec<u8>) -> ImageMaker {
        self.layers.push(layer);
        self
    }

    /// `NAME=value` in this order.
    pub fn env(self, entries: &[&str]) -> ImageMaker {
        self.set("Env", json!(entries))
    }

    /// The entrypoint.
    pub fn entrypoint(self, words: &[&str]) -> ImageMaker {
        self.set("Entrypoint", json!(words))
    }

    /// The command.
    pub fn cmd(self, words: &[&str]) -> ImageMaker {
        self.set("Cmd", json!(words))
    }

    /// The user.
    pub fn user(self, user: &str) -> ImageMaker {
        self.set("User", json!(user))
    }

    /// The working directory.
    pub fn working_dir(self, path: &str) -> ImageMaker {
        self.set("WorkingDir", json!(path))
    }

    /// Any field of the configuration's `config`.
    pub fn set(mut self, field: &str, value: Value) -> ImageMaker {
        self.config[field] = value;
        self
    }

    /// How layers are transported.
    pub fn compression(mut self, compression: Compression) -> ImageMaker {
        self.compression = compression;
        self
    }

    /// The finished image for this machine.
    pub fn build(&self) -> MadeImage {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        self.build_for(architecture)
    }

    /// The finished image for an architecture.
    pub fn build_for(&self, architecture: &str) -> MadeImage {
        let diff_ids: Vec<String> = self.layers.iter().map(|layer| digest(layer)).collect();
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "config": self.config,
            "rootfs": { "type": "layers", "diff_ids": diff_ids },
        });
        let config = config.to_string().into_bytes();
        let layers: Vec<Vec<u8>> =
            self.layers.iter().map(|layer| compress(layer, self.compression)).collect();
        let media_type = match self.compression {
            Compression::Plain => "application/vnd.oci.image.layer.v1.tar",
            Compression::Gzip => "application/vnd.oci.image.layer.v1.tar+gzip",
            Compression::Zstd => "application/vnd.oci.image.layer.v1.tar+zstd",
        };
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": layers.iter().map(|layer| descriptor(media_type, layer)).collect::<Vec<_>>(),
        });
        MadeImage { config, layers, tars: self.layers.clone(), manifest: manifest.to_string().into_bytes() }
    }
}

/// A descriptor of a blob.
pub fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": digest(bytes), "size": bytes.len() })
}

impl MadeImage {
    /// The image's identity.
    pub fn id(&self) -> String {
        digest(&self.config)
    }

    /// All blobs but the manifest.
    pub fn blobs(&self) -> impl Iterator<Item = &[u8]> {
        self.layers.iter().map(Vec::as_slice).chain([self.config.as_slice()])
    }

    /// An archive as `docker save` wrote it before 2024: a directory a layer, `manifest.json`.
    pub fn docker_archive(&self, tags: &[&str]) -> Vec<u8> {
        let hex = |bytes: &[u8]| digest(bytes).trim_start_matches("sha256:").to_owned();
        let mut archive = TarMaker::new();
        let mut names = Vec::new();
        for tar in &self.tars {
            let name = format!("{}/layer.tar", hex(tar));
            archive = archive.directory(format!("{}/", hex(tar))).file(&name, tar);
            names.push(name);
        }
        let config = format!("{}.json", hex(&self.config));
        let list = json!([{ "Config": config, "RepoTags": tags, "Layers": names }]);
        archive.file(&config, &self.config).file("manifest.json", list.to_string()).build()
    }

    /// An OCI archive. A name goes into the annotation of the index.
    pub fn oci_archive(&self, name: Option<&str>) -> Vec<u8> {
        let mut archive = TarMaker::new();
        for (path, bytes) in self.layout(name) {
            archive = archive.file(path, bytes);
        }
        archive.build()
    }

    /// Writes an OCI layout.
    pub fn write_oci_layout(&self, directory: &Path, name: Option<&str>) {
        for (path, bytes) in self.layout(name) {
            let path = directory.join(path);
            fs::create_dir_all(path.parent().expect("it lies in the layout"))
                .expect("the directory can be made");
            fs::write(path, bytes).expect("the file can be written");
        }
    }

    /// The files of a layout.
    pub fn layout(&self, name: Option<&str>) -> Vec<(String, Vec<u8>)> {
        let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", &self.manifest);
        if let Some(name) = name {
            entry["annotations"] = json!({ "org.opencontainers.image.ref.name": name });
        }
        let index = json!({ "schemaVersion": 2, "manifests": [entry] });
        let blob = |bytes: &[u8]| (format!("blobs/{}", digest(bytes).replace(':', "/")), bytes.to_vec());
        let mut files = vec![
            ("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
            ("index.json".to_owned(), index.to_string().into_bytes()),
            blob(&self.manifest),
        ];
        files.extend(self.blobs().map(blob));
        files
    }
}
