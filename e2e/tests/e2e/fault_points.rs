//! The named points of the source (see the crate `fault`) and the tables of the tests that kill at them: each point is in a
//! table, and each row names a point. That each is reached is what those tests wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::{
    controller_kill_points, job_kill_points, kill_points, namespace_kill_points, pull_kill_points,
    service_kill_points, shim_kill_points, storage_kill_points,
};

/// The points that the source below these directories has, each with the files that name it.
fn points_below(mut pending: Vec<PathBuf>) -> BTreeMap<String, Vec<PathBuf>> {
    let mut points: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(&dir).expect("the source can be read").flatten() {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("the source can be read");
                for rest in text.split("fault::point(").skip(1) {
                    let name = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
                    // A name that is put together when the program runs is in no table.
                    let (name, _) =
                        name.unwrap_or_else(|| panic!("{}: a point without a name", path.display()));
                    points.entry(name.to_owned()).or_default().push(path.clone());
                }
            }
        }
    }
    points
}

#[test]
fn each_point_is_in_a_table_of_kills_and_each_row_names_a_point() {
    let tables = [
        kill_points::points(),
        shim_kill_points::points(),
        pull_kill_points::points(),
        controller_kill_points::points(),
        service_kill_points::points(),
        job_kill_points::points(),
        namespace_kill_points::points(),
        storage_kill_points::points(),
        // It tells whether a binary has points at all.
        BTreeSet::from(["process.begun".to_owned()]),
    ];
    let named: BTreeSet<String> = tables.into_iter().flatten().collect();
    let found = points_below(vec![e2e::project().join("crates")]);
    let unnamed: Vec<_> = found.iter().filter(|(point, _)| !named.contains(*point)).collect();
    assert!(unnamed.is_empty(), "in no table: {unnamed:#?}");
    let missing: Vec<_> = named.iter().filter(|point| !found.contains_key(*point)).collect();
    assert!(missing.is_empty(), "in a table, and not in the source: {missing:?}");
}
