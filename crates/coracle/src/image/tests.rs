//! The table, sizes, and where the store lies.

use images::{Digest, Image, ImageConfig};

use super::*;

fn image(references: &[&str], digests: &[&str], size: u64) -> Image {
    let own = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    Image {
        id: Digest::of(b"image"),
        references: own(references),
        repo_digests: own(digests),
        config: ImageConfig::default(),
        architecture: "amd64".to_owned(),
        layers: Vec::new(),
        size,
        is_host: false,
    }
}

#[test]
fn the_table_has_a_line_for_each_name() {
    let digest = format!("quay.io/team/app@{}", Digest::of(b"manifest"));
    let images = [
        image(&["docker.io/library/busybox:1.36", "localhost:5000/b:latest"], &[], 2_211_000),
        image(&[], &[&digest], 999),
        image(&[], &[], 0),
    ];
    assert_eq!(
        output::table(&images),
        [
            "REPOSITORY                  TAG      IMAGE ID       SIZE",
            "docker.io/library/busybox   1.36     6105d6cc76af   2.21 MB",
            "localhost:5000/b            latest   6105d6cc76af   2.21 MB",
            "quay.io/team/app            <none>   6105d6cc76af   999 B",
            "<none>                      <none>   6105d6cc76af   0 B",
        ]
    );
}

#[test]
fn sizes_have_three_digits() {
    for (bytes, expected) in [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (9_994, "9.99 kB"),
        (12_345, "12.3 kB"),
        (123_456_789, "123 MB"),
        (999_900, "1.00 MB"),
        (4_200_000_000, "4.20 GB"),
        (u64::MAX, "18447 PB"),
    ] {
        assert_eq!(output::human_size(bytes), expected);
    }
}

#[test]
fn the_data_directory_decides_where_the_store_lies() {
    assert_eq!(store_directory(Some(Path::new("/data"))), Path::new("/data/images"));
    assert!(store_directory(None).ends_with("coracle/images"));
}

#[test]
fn the_machine_itself_is_not_pulled_or_removed() {
    assert!(refuse_host("coracle.dev/host").is_err());
    assert!(refuse_host("coracle.dev/host:other").is_err());
    assert!(refuse_host("busybox").is_ok());
}
