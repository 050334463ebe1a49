//! What may help a pod that waits: it is looked at again only then.

use std::ops::{BitOr, BitOrAssign};

/// A set of kinds of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Occasions(u16);

impl Occasions {
    pub(super) const NONE: Self = Self(0);
    /// There is a new node.
    pub(super) const NODE: Self = Self(1);
    /// Labels of a node have changed, or a node is gone.
    pub(super) const NODE_LABELS: Self = Self(1 << 1);
    /// A node has lost a taint or a mark.
    pub(super) const NODE_TAINTS: Self = Self(1 << 2);
    /// A node offers more.
    pub(super) const NODE_ROOM: Self = Self(1 << 3);
    /// A pod was given to a node.
    pub(super) const POD_PLACED: Self = Self(1 << 4);
    /// A pod has left a node, or takes less.
    pub(super) const POD_GONE: Self = Self(1 << 5);
    /// Labels of a pod on a node have changed, or of a namespace.
    pub(super) const LABELS: Self = Self(1 << 6);
    /// Claims, volumes or classes have changed.
    pub(super) const VOLUMES: Self = Self(1 << 7);

    pub(super) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Occasions {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Occasions {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
