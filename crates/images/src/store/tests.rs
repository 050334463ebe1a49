//! Behaviour of the store on a disk: names, damage, several processes, a full disk.
