//! Hostile layers (T61, S7): each is answered as written here, nothing is ever written outside the layer's directory,
//! nothing panics, nothing hangs.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use images::{Limits, UnpackError, Unpacked, unpack_layer};
use testkit::tar::{HeaderMaker, TarMaker};

/// What must come of a layer.
enum Outcome {
    /// Refused with a message that contains this.
    Refused(&'static str),
    /// Unpacked, and this holds for the directory.
    Contained(fn(&Path, &Unpacked)),
}
use Outcome::{Contained, Refused};

/// A name, the layer (made with the path of the directory around it, where the canary lives), and the outcome.
type Case = (&'static str, fn(&str) -> Vec<u8>, Outcome);

fn content(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

fn is_link(path: impl AsRef<Path>) -> bool {
    path.as_ref().symlink_metadata().is_ok_and(|found| found.is_symlink())
}

fn is_absent(path: impl AsRef<Path>) -> bool {
    path.as_ref().symlink_metadata().is_err()
}

fn is_whiteout(path: impl AsRef<Path>) -> bool {
    path.as_ref()
        .symlink_metadata()
        .is_ok_and(|found| found.file_type().is_char_device() && found.rdev() == 0)
}

fn attribute(path: impl AsRef<Path>, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 4096];
    let length = rustix::fs::lgetxattr(path.as_ref(), name, &mut value).ok()?;
    Some(value[..length].to_vec())
}

fn is_opaque(path: impl AsRef<Path>) -> bool {
    let name = match rustix::process::geteuid().is_root() {
        true => "trusted.overlay.opaque",
        false => "user.overlay.opaque",
    };
    attribute(path, name).as_deref() == Some(b"y")
}

/// An archive whose first entry has this PAX record, followed by a file.
fn with_record(key: &str, value: &[u8]) -> Vec<u8> {
    TarMaker::new().pax(&[(key, value)]).file("f", "x").build()
}

fn traversal() -> Vec<Case> {
    vec![
        ("parent", |_| TarMaker::new().file("../escape", "x").build(), Refused("'..'")),
        ("parent inside", |_| TarMaker::new().file("a/../../escape", "x").build(), Refused("'..'")),
        ("parent after slash", |_| TarMaker::new().file("/../escape", "x").build(), Refused("'..'")),
        ("parent after dot", |_| TarMaker::new().file("./../escape", "x").build(), Refused("'..'")),
        ("harmless parent", |_| TarMaker::new().file("a/../b", "x").build(), Refused("'..'")),
        ("parent as directory", |_| TarMaker::new().directory("..").build(), Refused("'..'")),
        ("parent as directory, slash", |_| TarMaker::new().directory("../").build(), Refused("'..'")),
        ("parent in symlink name", |_| TarMaker::new().symlink("../escape", "x").build(), Refused("'..'")),
        ("parent in whiteout", |_| TarMaker::new().file("../.wh.canary", "").build(), Refused("'..'")),
        ("parent in PAX path", |_| with_record("path", b"../escape"), Refused("'..'")),
        (
            "parent in GNU long name",
            |_| TarMaker::new().long(b'L', &b"../".repeat(60)).file("f", "x").build(),
            Refused("'..'"),
        ),
        (
            "absolute path lands inside",
            |outer| {
                TarMaker::new().pax(&[("path", format!("{outer}/escape").as_bytes())]).file("f", "x").build()
            },
            Contained(|layer, _| {
                let outer = layer.parent().unwrap().strip_prefix("/").unwrap();
                assert_eq!(content(layer.join(outer).join("escape")), "x");
            }),
        ),
        (
            "many slashes",
            |_| TarMaker::new().file("////etc//passwd", "x").build(),
            Contained(|layer, _| assert_eq!(content(layer.join("etc/passwd")), "x")),
        ),
        (
            "backslashes are letters",
            |_| TarMaker::new().file("..\\escape", "x").build(),
            Contained(|layer, _| assert_eq!(content(layer.join("..\\escape")), "x")),
        ),
        (
            "name that is not text",
            |_| TarMaker::new().file(b"a\xff\xfe", "x").build(),
            Contained(|layer, _| assert_eq!(fs::read_dir(layer).unwrap().count(), 1)),
        ),
    ]
}

fn links() -> Vec<Case> {
    vec![
        (
            "file through absolute link",
            |outer| TarMaker::new().symlink("link", outer).file("link/escape", "x").build(),
            Refused("leads nowhere"),
        ),
        (
            "file through link to the parent",
            |_| TarMaker::new().symlink("link", "../..").file("link/inside", "x").build(),
            Contained(|layer, _| assert_eq!(content(layer.join("inside")), "x")),
        ),
        (
            "file through link to the root",
            |_| TarMaker::new().symlink("link", "/").file("link/inside", "x").build(),
            Contained(|layer, _| assert_eq!(content(layer.join("inside")), "x")),
        ),
        (
            "file through a chain of links",
            |_| {
                TarMaker::new()
                    .directory("d/")
                    .symlink("d/a", "b")
                    .symlink("d/b", "../../../..")
                    .file("d/a/inside", "x")
                    .build()
            },
            Contained(|layer, _| assert_eq!(content(layer.join("inside")), "x")),
        ),
        (
            "file through a usual link inside",
            |_| TarMaker::new().directory("usr/lib/").symlink("lib", "usr/lib").file("lib/so", "x").build(),
            Contained(|layer, _| {
                assert!(is_link(layer.join("lib")));
                assert_eq!(content(layer.join("usr/lib/so")), "x");
            }),
        ),
        (
            "links in a circle",
            |_| TarMaker::new().symlink("a", "b").symlink("b", "a").file("a/x", "x").build(),
            Refused("circle"),
        ),
        ("link to itself", |_| TarMaker::new().symlink("a", "a").file("a/x", "x").build(), Refused("circle")),
        (
            "chain of fifty links",
            |_| {
                let mut archive = TarMaker::new().directory("end/");
                for index in 0..50 {
                    let target = if index == 49 { "end".to_owned() } else { format!("l{}", index + 1) };
                    archive = archive.symlink(format!("l{index}"), target);
                }
                archive.file("l0/x", "x").build()
            },
            Refused("circle"),
        ),
        (
            "file through /proc/self/root",
            |_| TarMaker::new().symlink("link", "/proc/self/root").file("link/escape", "x").build(),
            Refused("leads nowhere"),
        ),
        (
            "file through a descriptor",
            |_| TarMaker::new().symlink("link", "/proc/self/fd/0").file("link/escape", "x").build(),
            Refused("leads nowhere"),
        ),
        (
            "file through /proc/self/cwd",
            |_| TarMaker::new().symlink("link", "/proc/self/cwd").file("link/Cargo.toml", "x").build(),
            Refused("leads nowhere"),
        ),
        (
            "file in place of a link to a file outside",
            |outer| TarMaker::new().symlink("link", format!("{outer}/canary")).file("link", "x").build(),
            Contained(|layer, _| {
                assert!(!is_link(layer.join("link")));
                assert_eq!(content(layer.join("link")), "x");
            }),
        ),
        (
            "directory in place of a link",
            |outer| {
                TarMaker::new().symlink("link", outer).directory("link/").file("link/canary", "x").build()
            },
            Contained(|layer, _| assert_eq!(content(layer.join("link/canary")), "x")),
        ),
        (
            "link in place of a used directory",
            |outer| TarMaker::new().file("d/f", "x").symlink("d", outer).file("d/escape", "x").build(),
            Refused("not empty"),
        ),
        (
            "link in place of an empty directory that was just used",
            |_| {
                TarMaker::new()
                    .directory("d/")
                    .symlink("d/tmp", "x")
                    .directory("e/")
                    .symlink("e", "..")
                    .file("e/inside", "x")
                    .build()
            },
            Contained(|layer, _| assert_eq!(content(layer.join("inside")), "x")),
        ),
        ("empty link target", |_| TarMaker::new().symlink("a", "").build(), Refused("link target")),
        (
            "link target with NUL",
            |_| TarMaker::new().pax(&[("linkpath", b"a\0b")]).symlink("a", "b").build(),
            Refused("link target"),
        ),
        (
            "link target of 5,000 bytes",
            |_| TarMaker::new().long(b'K', &[b'a'; 5000]).symlink("a", "b").build(),
            Refused("link target"),
        ),
        (
            "directory time set through a link",
            |outer| TarMaker::new().directory("d/").symlink("d", outer).build(),
            Contained(|layer, _| assert!(is_link(layer.join("d")))),
        ),
    ]
}

fn hard_links() -> Vec<Case> {
    vec![
        ("hard link to the parent", |_| TarMaker::new().hard_link("a", "../canary").build(), Refused("'..'")),
        (
            "hard link outside, absolute",
            |outer| TarMaker::new().hard_link("a", format!("{outer}/canary")).build(),
            Refused("not in the layer"),
        ),
        (
            "hard link to /etc/passwd",
            |_| TarMaker::new().hard_link("a", "/etc/passwd").build(),
            Refused("not in the layer"),
        ),
        (
            "hard link through a link",
            |outer| TarMaker::new().symlink("d", outer).hard_link("a", "d/canary").build(),
            Refused("not in the layer"),
        ),
        (
            "hard link to a link, then written",
            |outer| {
                TarMaker::new()
                    .symlink("s", format!("{outer}/canary"))
                    .hard_link("h", "s")
                    .file("h", "x")
                    .build()
            },
            Contained(|layer, _| {
                assert!(is_link(layer.join("s")));
                assert_eq!(content(layer.join("h")), "x");
            }),
        ),
        (
            "hard link to a directory",
            |_| TarMaker::new().directory("d/").hard_link("a", "d").build(),
            Refused("unusable"),
        ),
        (
            "hard link to itself",
            |_| TarMaker::new().file("a", "x").hard_link("a", "a").build(),
            Refused("unusable"),
        ),
        (
            "hard link to itself through a link",
            |_| {
                TarMaker::new()
                    .directory("d/")
                    .file("d/a", "x")
                    .symlink("l", "d")
                    .hard_link("l/a", "d/a")
                    .build()
            },
            Contained(|layer, _| assert_eq!(content(layer.join("d/a")), "x")),
        ),
        (
            "hard link to nothing",
            |_| TarMaker::new().hard_link("a", "b").build(),
            Refused("not in the layer"),
        ),
        ("hard link to an empty name", |_| TarMaker::new().hard_link("a", "").build(), Refused("unusable")),
        ("hard link to the root", |_| TarMaker::new().hard_link("a", "/").build(), Refused("unusable")),
        (
            "hard link to a whiteout",
            |_| TarMaker::new().file(".wh.w", "").hard_link("a", "w").build(),
            Refused("unusable"),
        ),
        (
            "hard link, then the second name is written",
            |_| TarMaker::new().file("a", "1").hard_link("b", "a").file("b", "2").build(),
            Contained(|layer, _| {
                assert_eq!(content(layer.join("a")), "1");
                assert_eq!(content(layer.join("b")), "2");
            }),
        ),
        (
            "hard link with a size and no content",
            |_| {
                TarMaker::new()
                    .file("a", "1")
                    .entry(HeaderMaker::new(b'1', "b").link("a").size(4096), b"")
                    .file("c", "3")
                    .build()
            },
            Contained(|layer, _| {
                assert_eq!(content(layer.join("b")), "1");
                assert_eq!(content(layer.join("c")), "3");
            }),
        ),
    ]
}

fn whiteouts() -> Vec<Case> {
    vec![
        ("whiteout of nothing", |_| TarMaker::new().file(".wh.", "").build(), Refused("malformed whiteout")),
        (
            "whiteout of the directory",
            |_| TarMaker::new().file("a/.wh..", "").build(),
            Refused("malformed whiteout"),
        ),
        (
            "whiteout of the parent",
            |_| TarMaker::new().file("a/.wh...", "").build(),
            Refused("malformed whiteout"),
        ),
        (
            "whiteout",
            |_| TarMaker::new().file("a/.wh.b", "").build(),
            Contained(|layer, _| assert!(is_whiteout(layer.join("a/b")))),
        ),
        (
            "opaque directory",
            |_| TarMaker::new().directory("a/").file("a/.wh..wh..opq", "").file("a/b", "x").build(),
            Contained(|layer, _| {
                assert!(is_opaque(layer.join("a")));
                assert_eq!(content(layer.join("a/b")), "x");
                assert!(is_absent(layer.join("a/.wh..wh..opq")));
            }),
        ),
        (
            "whiteout of a directory that comes again",
            |_| TarMaker::new().file(".wh.d", "").directory("d/").file("d/f", "x").build(),
            Contained(|layer, _| {
                assert!(is_opaque(layer.join("d")));
                assert_eq!(content(layer.join("d/f")), "x");
            }),
        ),
        (
            "whiteout after its directory",
            |_| TarMaker::new().file("d/f", "x").file(".wh.d", "").build(),
            Contained(|layer, _| {
                assert!(is_opaque(layer.join("d")));
                assert_eq!(content(layer.join("d/f")), "x");
            }),
        ),
        (
            "whiteout of a file of the same layer",
            |_| TarMaker::new().file("f", "x").file(".wh.f", "").build(),
            Contained(|layer, _| assert_eq!(content(layer.join("f")), "x")),
        ),
        (
            "file after its whiteout",
            |_| TarMaker::new().file(".wh.f", "").file("f", "x").build(),
            Contained(|layer, _| assert_eq!(content(layer.join("f")), "x")),
        ),
        (
            "whiteout through a link",
            |outer| TarMaker::new().symlink("l", outer).file("l/.wh.canary", "").build(),
            Refused("leads nowhere"),
        ),
        (
            "opaque mark through a link",
            |_| TarMaker::new().symlink("l", "../../..").file("l/.wh..wh..opq", "").build(),
            Contained(|layer, _| assert!(is_opaque(layer) && !is_opaque(layer.parent().unwrap()))),
        ),
        (
            "book-keeping of a file system of the past",
            |_| TarMaker::new().file(".wh..wh.plnk", "").directory(".wh..wh.orph/").build(),
            Contained(|layer, unpacked| {
                assert_eq!(fs::read_dir(layer).unwrap().count(), 0);
                assert_eq!(unpacked.skipped, 2);
            }),
        ),
        (
            "file below a whiteout",
            |_| TarMaker::new().file(".wh.d", "").file("d/f", "x").build(),
            Refused("not a directory"),
        ),
        (
            "whiteout as a device node",
            |_| TarMaker::new().entry(HeaderMaker::new(b'3', "etc").device(0, 0), b"").build(),
            Contained(|layer, unpacked| {
                assert!(is_absent(layer.join("etc")));
                assert_eq!(unpacked.skipped, 1);
            }),
        ),
    ]
}

fn nodes_and_attributes() -> Vec<Case> {
    vec![
        (
            "memory device",
            |_| {
                TarMaker::new().entry(HeaderMaker::new(b'3', "dev/mem").device(1, 1).mode(0o666), b"").build()
            },
            Contained(|layer, unpacked| {
                assert!(is_absent(layer.join("dev/mem")));
                assert_eq!(unpacked.notices[0].to_string(), "device node \"dev/mem\" left out");
            }),
        ),
        (
            "disk",
            |_| TarMaker::new().entry(HeaderMaker::new(b'4', "sda").device(8, 0), b"").build(),
            Contained(|layer, _| assert!(is_absent(layer.join("sda")))),
        ),
        (
            "pipe, and a file in its place",
            |_| {
                TarMaker::new()
                    .entry(HeaderMaker::new(b'6', "p"), b"")
                    .entry(HeaderMaker::new(b'6', "q"), b"")
                    .file("q", "x")
                    .build()
            },
            Contained(|layer, _| {
                assert!(layer.join("p").symlink_metadata().unwrap().file_type().is_fifo());
                assert_eq!(content(layer.join("q")), "x");
            }),
        ),
        (
            "setuid and file type bits in the mode",
            |_| {
                TarMaker::new()
                    .file_with(HeaderMaker::new(b'0', "su").mode(0o104_755), "x")
                    .file_with(HeaderMaker::new(b'0', "odd").mode(0o7_777_777), "x")
                    .build()
            },
            Contained(|layer, _| {
                assert_eq!(layer.join("su").metadata().unwrap().mode(), 0o104_755);
                assert_eq!(layer.join("odd").metadata().unwrap().mode(), 0o107_777);
            }),
        ),
        (
            "attribute that redirects overlay",
            |_| with_record("SCHILY.xattr.trusted.overlay.redirect", b"/etc"),
            Contained(|layer, unpacked| {
                assert_eq!(attribute(layer.join("f"), "trusted.overlay.redirect"), None);
                assert_eq!(unpacked.skipped, 1);
            }),
        ),
        (
            "attribute that makes opaque",
            |_| {
                TarMaker::new()
                    .pax(&[
                        ("SCHILY.xattr.trusted.overlay.opaque", b"y"),
                        ("SCHILY.xattr.user.overlay.opaque", b"y"),
                    ])
                    .directory("d/")
                    .build()
            },
            Contained(|layer, unpacked| {
                assert!(!is_opaque(layer.join("d")));
                assert_eq!(unpacked.skipped, 2);
            }),
        ),
        (
            "attributes of security modules",
            |_| with_record("SCHILY.xattr.security.selinux", b"x"),
            Contained(|_, unpacked| assert_eq!(unpacked.skipped, 1)),
        ),
        (
            "attribute with an endless name",
            |_| with_record(&format!("SCHILY.xattr.user.{}", "a".repeat(300)), b"x"),
            Contained(|_, unpacked| assert_eq!(unpacked.skipped, 1)),
        ),
        (
            "attribute with NUL in its name",
            |_| with_record("SCHILY.xattr.user.a\0b", b"x"),
            Contained(|_, unpacked| assert_eq!(unpacked.skipped, 1)),
        ),
        (
            "attribute that is too large",
            |_| with_record("SCHILY.xattr.user.a", &[b'x'; 100_000]),
            Contained(|_, unpacked| assert_eq!(unpacked.skipped, 1)),
        ),
    ]
}

fn lies() -> Vec<Case> {
    vec![
        ("PAX size beyond the end", |_| with_record("size", b"100000"), Refused("cut off")),
        (
            "PAX size beyond all numbers",
            |_| with_record("size", b"18446744073709551616"),
            Refused("not a usable number"),
        ),
        (
            "PAX size of 2^64-1",
            |_| with_record("size", b"18446744073709551615"),
            Refused("not a usable number"),
        ),
        ("PAX size below zero", |_| with_record("size", b"-1"), Refused("not a usable number")),
        ("PAX size in letters", |_| with_record("size", b"1k"), Refused("not a usable number")),
        (
            "header hidden in content",
            |_| {
                let hidden = TarMaker::new().file("../escape", "x").build_cut();
                TarMaker::new()
                    .pax(&[("size", hidden.len().to_string().as_bytes())])
                    .entry(HeaderMaker::new(b'0', "f").size(0), &hidden)
                    .build()
            },
            Contained(|layer, unpacked| {
                assert_eq!(layer.join("f").metadata().unwrap().len(), 1024);
                assert_eq!(unpacked.entries, 1);
            }),
        ),
        (
            "content hidden in a header",
            |_| {
                let shown = TarMaker::new().file("shown", "x").build_cut();
                TarMaker::new()
                    .pax(&[("size", b"0")])
                    .entry(HeaderMaker::new(b'0', "f").size(shown.len() as u64), &shown)
                    .build()
            },
            Contained(|layer, _| assert_eq!(content(layer.join("shown")), "x")),
        ),
        (
            "record longer than its header",
            |_| TarMaker::new().pax_bytes(b"99 path=x\n").file("f", "").build(),
            Refused("damaged extended"),
        ),
        (
            "record without an end",
            |_| TarMaker::new().pax_bytes(b"9 path=xy").file("f", "").build(),
            Refused("damaged extended"),
        ),
        (
            "record without a value",
            |_| TarMaker::new().pax_bytes(b"8 path \n").file("f", "").build(),
            Refused("damaged extended"),
        ),
        (
            "record of length zero",
            |_| TarMaker::new().pax_bytes(b"0 path=x\n").file("f", "").build(),
            Refused("damaged extended"),
        ),
        (
            "extended header of 2 MiB",
            |_| TarMaker::new().pax_bytes(&vec![b'a'; 2 << 20]).file("f", "").build(),
            Refused("at most 1048576"),
        ),
        (
            "extended headers that add up",
            |_| {
                let value = vec![b'a'; 300 << 10];
                (0..8)
                    .fold(TarMaker::new(), |archive, index| {
                        archive.pax(&[(&format!("SCHILY.xattr.user.{index}"), &value[..])])
                    })
                    .file("f", "")
                    .build()
            },
            Refused("at most 1048576"),
        ),
        (
            "long name that claims 8 GiB",
            |_| TarMaker::new().entry(HeaderMaker::new(b'L', "x").size(8 << 30), b"").build(),
            Refused("at most 1048576"),
        ),
        ("PAX path with NUL", |_| with_record("path", b"a\0b"), Refused("NUL")),
        ("user 2^32", |_| with_record("uid", b"4294967296"), Refused("uid")),
        ("user 2^32-1, which means no change", |_| with_record("uid", b"4294967295"), Refused("uid")),
        (
            "group in the header beyond all",
            |_| TarMaker::new().entry(HeaderMaker::new(b'0', "f").field(116, 8, &[0xff; 8]), b"").build(),
            Refused("gid"),
        ),
        ("time in letters", |_| with_record("mtime", b"now"), Refused("mtime")),
        (
            "time at the end of the world",
            |_| with_record("mtime", b"999999999999999999"),
            Contained(|layer, _| assert_eq!(content(layer.join("f")), "x")),
        ),
        (
            "extension headers without end",
            |_| (0..2000).fold(TarMaker::new(), |archive, _| archive.pax(&[("comment", b"x")])).build(),
            Refused("more than 1000 entries"),
        ),
    ]
}

fn structure() -> Vec<Case> {
    vec![
        (
            "wrong sum",
            |_| TarMaker::new().entry(HeaderMaker::new(b'0', "f").damaged(), b"").build(),
            Refused("header at byte 0"),
        ),
        (
            "noise",
            |_| (0..4096_u32).map(|it| (it.wrapping_mul(2_654_435_761) >> 13) as u8).collect(),
            Refused("header at byte 0"),
        ),
        (
            "cut in a header",
            |_| TarMaker::new().file("f", "").build_cut()[..300].to_vec(),
            Refused("cut off"),
        ),
        (
            "cut in content",
            |_| TarMaker::new().file("f", [b'x'; 2000]).build_cut()[..1500].to_vec(),
            Refused("cut off"),
        ),
        (
            "cut in padding",
            |_| TarMaker::new().file("f", "x").build_cut()[..700].to_vec(),
            Refused("cut off"),
        ),
        (
            "no end marker",
            |_| TarMaker::new().file("f", "x").build_cut(),
            Contained(|layer, _| assert_eq!(content(layer.join("f")), "x")),
        ),
        (
            "noise after the end",
            |_| {
                let mut bytes = TarMaker::new().file("f", "x").build();
                bytes.extend_from_slice(&TarMaker::new().file("../escape", "x").build());
                bytes
            },
            Contained(|layer, unpacked| {
                assert_eq!(unpacked.entries, 1);
                assert_eq!(content(layer.join("f")), "x");
            }),
        ),
        ("nothing", |_| Vec::new(), Contained(|_, unpacked| assert_eq!(unpacked.entries, 0))),
        ("sparse file", |_| TarMaker::new().entry(HeaderMaker::new(b'S', "f"), b"").build(), Refused("'S'")),
        ("sparse file by PAX", |_| with_record("GNU.sparse.major", b"1"), Refused("'S'")),
        ("unknown kind", |_| TarMaker::new().entry(HeaderMaker::new(b'Z', "f"), b"").build(), Refused("'Z'")),
        (
            "continued file",
            |_| TarMaker::new().entry(HeaderMaker::new(b'M', "f"), b"").build(),
            Refused("'M'"),
        ),
        (
            "size below zero",
            |_| TarMaker::new().entry(HeaderMaker::new(b'0', "f").field(124, 12, &[0xff; 12]), b"").build(),
            Refused("size"),
        ),
        (
            "size of 8 GiB without content",
            |_| TarMaker::new().entry(HeaderMaker::new(b'0', "f").size(0o77_777_777_777), b"").build(),
            Refused("cut off"),
        ),
        (
            "size that is no octal number",
            |_| {
                TarMaker::new()
                    .entry(HeaderMaker::new(b'0', "f").field(124, 12, b"0000000009x\0"), b"")
                    .build()
            },
            Refused("size"),
        ),
        (
            "component of 256 bytes",
            |_| TarMaker::new().long(b'L', &[b'a'; 256]).file("f", "").build(),
            Refused("component of the path is too long"),
        ),
        (
            "path of 4 KiB",
            |_| TarMaker::new().long(b'L', &b"abcdefgh/".repeat(500)).file("f", "").build(),
            Refused("path is too long"),
        ),
        (
            "path of 300 components",
            |_| TarMaker::new().long(b'L', &b"a/".repeat(300)).file("f", "").build(),
            Refused("too deep"),
        ),
        (
            "one entry more than allowed",
            |_| {
                (0..1001).fold(TarMaker::new(), |archive, index| archive.file(format!("{index}"), "")).build()
            },
            Refused("more than 1000 entries"),
        ),
        (
            "one directory more than allowed",
            |_| {
                (0..101)
                    .fold(TarMaker::new(), |archive, index| archive.directory(format!("{index}/")))
                    .build()
            },
            Refused("more than 100 directories"),
        ),
        (
            "implied directories count too",
            |_| {
                (0..101)
                    .fold(TarMaker::new(), |archive, index| archive.file(format!("{index}/f"), ""))
                    .build()
            },
            Refused("more than 100 directories"),
        ),
        (
            "paths of directories beyond all memory",
            |_| {
                let name = format!("{}/", "d/".repeat(120));
                (0..60)
                    .fold(TarMaker::new(), |archive, index| {
                        archive.long(b'L', format!("{name}{index}").as_bytes()).directory("x/")
                    })
                    .build()
            },
            Refused("directories"),
        ),
        (
            "one file nine hundred times",
            |_| (0..900).fold(TarMaker::new(), |archive, index| archive.file("f", index.to_string())).build(),
            Contained(|layer, _| {
                assert_eq!(content(layer.join("f")), "899");
                assert_eq!(fs::read_dir(layer).unwrap().count(), 1);
            }),
        ),
        (
            "file in place of a full directory",
            |_| TarMaker::new().file("d/f", "").file("d", "").build(),
            Refused("not empty"),
        ),
        (
            "directory in place of a file",
            |_| TarMaker::new().file("d", "x").directory("d/").file("d/f", "x").build(),
            Contained(|layer, _| assert_eq!(content(layer.join("d/f")), "x")),
        ),
        (
            "file below a file",
            |_| TarMaker::new().file("d", "x").file("d/f", "x").build(),
            Refused("not a directory"),
        ),
        ("file in place of the root", |_| TarMaker::new().file(".", "x").build(), Refused("root directory")),
        (
            "link in place of the root",
            |outer| TarMaker::new().symlink("/", outer).build(),
            Refused("root directory"),
        ),
        ("entry without a name", |_| TarMaker::new().file("", "x").build(), Refused("root directory")),
        (
            "root as a directory",
            |_| TarMaker::new().entry(HeaderMaker::new(b'5', "./").mode(0o700), b"").build(),
            Contained(|layer, _| assert_eq!(layer.metadata().unwrap().mode() & 0o7777, 0o700)),
        ),
    ]
}

fn unpack(bytes: &[u8], layer: &Path) -> Result<Unpacked, UnpackError> {
    fs::create_dir(layer).unwrap();
    let limits = Limits {
        layer_entries: 1000,
        layer_directories: 100,
        layer_directory_bytes: 4096,
        ..Limits::DEFAULT
    };
    unpack_layer(bytes, OwnedFd::from(fs::File::open(layer).unwrap()), &limits)
}

#[test]
fn every_hostile_layer_is_answered_as_written_and_stays_inside() {
    let cases: Vec<Case> =
        [traversal(), links(), hard_links(), whiteouts(), nodes_and_attributes(), lies(), structure()]
            .into_iter()
            .flatten()
            .collect();
    assert!(cases.len() >= 100, "{}", cases.len());
    let mut failures = Vec::new();
    for (name, make, outcome) in cases {
        let directory = tempfile::tempdir().unwrap();
        let outer = directory.path().canonicalize().unwrap();
        fs::write(outer.join("canary"), "untouched").unwrap();
        let before = outer.join("canary").metadata().unwrap();
        let layer = outer.join("layer");
        let result = unpack(&make(outer.to_str().unwrap()), &layer);
        match (outcome, &result) {
            (Refused(text), Err(error)) if error.to_string().contains(text) => {}
            (Contained(check), Ok(unpacked)) => {
                let checked = std::panic::catch_unwind(|| check(&layer, unpacked));
                if checked.is_err() {
                    failures.push(format!("{name}: unpacked, but not as expected"));
                }
            }
            (Refused(text), other) => {
                failures.push(format!("{name}: refusal with {text:?} expected, got {other:?}"))
            }
            (Contained(_), other) => failures.push(format!("{name}: should unpack, got {other:?}")),
        }
        let after = outer.join("canary").metadata().unwrap();
        assert_eq!(content(outer.join("canary")), "untouched", "{name}");
        assert_eq!(
            (before.ino(), before.nlink(), before.mode()),
            (after.ino(), after.nlink(), after.mode()),
            "{name}"
        );
        assert_eq!(fs::read_dir(&outer).unwrap().count(), 2, "{name}: something was written outside");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn an_honest_layer_keeps_everything() {
    let layer = TarMaker::new()
        .entry(HeaderMaker::new(b'5', "bin/").modified(1_000_000_000), b"")
        .file_with(HeaderMaker::new(b'0', "bin/su").mode(0o4755).owner(0, 7), "program")
        .pax(&[
            ("SCHILY.xattr.user.note", b"a\nb\0c"),
            ("mtime", b"1234567890.5"),
            ("path", "bin/größe".as_bytes()),
        ])
        .file("f", "x")
        .long(b'L', &[&b"bin/"[..], &[b'n'; 200]].concat())
        .file("f", "long")
        .entry(HeaderMaker::new(b'2', "bin/sh").link("su").owner(5, 6), b"")
        .hard_link("bin/again", "bin/su")
        .build();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("layer");
    let unpacked = unpack(&layer, &root).unwrap();
    assert_eq!((unpacked.entries, unpacked.skipped), (6, 0));
    let su = root.join("bin/su").metadata().unwrap();
    assert_eq!((su.mode() & 0o7777, su.nlink(), su.mtime()), (0o4755, 2, 1_700_000_000));
    let named = root.join("bin/größe");
    assert_eq!(
        (named.metadata().unwrap().mtime(), named.metadata().unwrap().mtime_nsec()),
        (1_234_567_890, 500_000_000)
    );
    assert_eq!(attribute(&named, "user.note").as_deref(), Some(&b"a\nb\0c"[..]));
    assert_eq!(content(root.join("bin").join("n".repeat(200))), "long");
    assert_eq!(root.join("bin").metadata().unwrap().mtime(), 1_000_000_000, "set after its children");
    if rustix::process::geteuid().is_root() {
        assert_eq!((su.uid(), su.gid()), (0, 7));
        let link = root.join("bin/sh").symlink_metadata().unwrap();
        assert_eq!((link.uid(), link.gid()), (5, 6));
    }
}

#[test]
fn file_capabilities_survive_the_change_of_owner() {
    if !testkit::machine::require_root() {
        return;
    }
    // cap_net_raw, version 3 without a namespace: what layers contain for ping.
    let capability: &[u8] = &[1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let layer = TarMaker::new()
        .pax(&[("SCHILY.xattr.security.capability", capability)])
        .file_with(HeaderMaker::new(b'0', "ping").mode(0o755).owner(1000, 1000), "x")
        .build();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("layer");
    assert_eq!(unpack(&layer, &root).unwrap().skipped, 0);
    assert_eq!(attribute(root.join("ping"), "security.capability").as_deref(), Some(capability));
}

/// One entry of a random archive. Few names, so that entries meet each other.
fn random_entry() -> impl proptest::strategy::Strategy<Value = (u8, String, String)> {
    use proptest::prelude::*;
    let component =
        prop::sample::select(vec!["a", "b", "c", ".wh.a", ".wh.b", ".wh..wh..opq", ".", "..", ""]);
    let path = prop::collection::vec(component, 1..4).prop_map(|parts| parts.join("/"));
    let target = prop::sample::select(vec![
        "a",
        "b",
        "a/b",
        "../..",
        "..",
        "/",
        "/a",
        "b/../..",
        "OUTER",
        "OUTER/canary",
        "/proc/self/root",
        "/proc/self/cwd",
        "",
    ]);
    let kind = prop::sample::select(b"0001122255563".to_vec());
    (kind, path, target).prop_map(|(kind, path, target)| (kind, path, target.to_owned()))
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn whatever_entries_come_nothing_outside_changes(entries in proptest::collection::vec(random_entry(), 1..20)) {
        let directory = tempfile::tempdir().unwrap();
        let outer = directory.path().canonicalize().unwrap();
        fs::write(outer.join("canary"), "untouched").unwrap();
        fs::create_dir(outer.join("a")).unwrap();
        let before = outer.metadata().unwrap();
        let mut archive = TarMaker::new();
        for (index, (kind, path, target)) in entries.iter().enumerate() {
            let content = if *kind == b'0' { index.to_string() } else { String::new() };
            let header = HeaderMaker::new(*kind, path)
                .link(target.replace("OUTER", outer.to_str().unwrap()))
                .size(content.len() as u64);
            archive = archive.entry(header, content.as_bytes());
        }
        let layer = outer.join("layer");
        fs::create_dir(&layer).unwrap();
        let root = OwnedFd::from(fs::File::open(&layer).unwrap());
        // Refused or unpacked: either is right.
        let _ = unpack_layer(&archive.build()[..], root, &Limits::DEFAULT);
        let canary = outer.join("canary").symlink_metadata().unwrap();
        proptest::prop_assert_eq!(content(outer.join("canary")), "untouched");
        proptest::prop_assert_eq!(canary.nlink(), 1);
        proptest::prop_assert_eq!(fs::read_dir(&outer).unwrap().count(), 3);
        proptest::prop_assert_eq!(fs::read_dir(outer.join("a")).unwrap().count(), 0);
        proptest::prop_assert_eq!(outer.metadata().unwrap().mode(), before.mode());
        proptest::prop_assert!(!is_opaque(&outer) && !is_opaque(outer.join("a")));
        fs::remove_dir_all(&layer).unwrap();
    }
}
