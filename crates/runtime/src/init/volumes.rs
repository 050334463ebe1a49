//! Files and directories of the node that the pod shows inside a container.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use sys::{MountAttributes, MountChange, Propagation};

use super::error::{InitError, Step as _};
use super::filesystems::copy_mount;
use super::targets::{attach, find_or_make, kind_of, shown};
use crate::launch::{MountPropagation, VolumeMount};

/// A copy of a volume, taken in the node's own mount namespace so that propagation means the node.
pub(super) struct OpenedVolume {
    copy: OwnedFd,
    volume: VolumeMount,
}

/// Takes a copy of each volume; outer destinations come before inner ones, else in the order given.
/// With users of the pod's own its files belong to those.
pub(super) fn open_volumes(
    volumes: Vec<VolumeMount>,
    users: Option<BorrowedFd<'_>>,
) -> Result<Vec<OpenedVolume>, InitError> {
    let mut opened = volumes
        .into_iter()
        .map(|volume| {
            let copy =
                copy_mount(&volume.source, true).step_path("mount the volume", shown(&volume.source))?;
            if let Some(users) = users {
                sys::map_owners(copy.as_fd(), users, true)
                    .step_path("give to the pod's own users the volume", shown(&volume.source))?;
            }
            Ok(OpenedVolume { copy, volume })
        })
        .collect::<Result<Vec<_>, InitError>>()?;
    opened.sort_by_key(|opened| depth(&opened.volume.destination));
    Ok(opened)
}

fn depth(path: &str) -> usize {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").count()
}

/// Attaches a volume at its place below `root`.
pub(super) fn attach_volume(root: BorrowedFd<'_>, opened: OpenedVolume) -> Result<(), InitError> {
    let OpenedVolume { copy, volume } = opened;
    let destination = &volume.destination;
    let kind = kind_of(&copy).step_path("mount the volume", shown(&volume.source))?;
    let point = find_or_make(root, destination, kind)?;
    let propagation = match volume.propagation {
        MountPropagation::Private => Propagation::Private,
        MountPropagation::HostToContainer => Propagation::Slave,
        MountPropagation::Bidirectional => Propagation::Shared,
    };
    sys::change_mount(
        copy.as_fd(),
        MountChange { propagation: Some(propagation), recursive: true, ..Default::default() },
    )
    .step_path("set the propagation of", destination)?;
    if volume.read_only {
        let read_only = MountAttributes { read_only: true, ..Default::default() };
        sys::change_mount(
            copy.as_fd(),
            MountChange { set: read_only, recursive: volume.recursive_read_only, ..Default::default() },
        )
        .step_path("make read-only", destination)?;
    }
    attach(copy, point).step_path("mount the volume at", destination)
}

#[cfg(test)]
mod tests {
    use super::depth;

    #[test]
    fn outer_destinations_come_first() {
        let mut destinations = vec!["/a/b/c", "/z", "/a//b/", "/"];
        destinations.sort_by_key(|path| depth(path));
        assert_eq!(destinations, ["/", "/z", "/a//b/", "/a/b/c"]);
    }
}
