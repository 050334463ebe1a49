//! How much memory the allocator of the C library keeps for itself. Other C libraries keep little, and nothing is done there.

/// Bounds what the allocator keeps apart for threads. A node has some thirty threads, most of which wait for the file system;
/// unbounded, each would be given a region of its own, and what is freed in one is of no use to the others.
///
/// Called once, before there are threads.
#[allow(unsafe_code)]
pub fn bound_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: a setting by value; the C library refuses what it does not know.
    // JUSTIFICATION: the environment variable for it would have to be set before the process begins.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 2);
    }
}

/// Gives free memory back to the machine, if more than `spare` bytes of it are free. Takes some milliseconds for a large heap.
#[allow(unsafe_code)]
pub fn give_back_heap(spare: usize) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: both calls lock what they look at, and no memory that is in use moves.
    // JUSTIFICATION: the allocator gives back by itself only what is free at the end of a region.
    unsafe {
        if libc::mallinfo2().fordblks > spare {
            libc::malloc_trim(spare);
        }
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = spare;
}

#[cfg(test)]
mod tests {
    use super::give_back_heap;

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn memory_that_was_freed_in_pieces_does_not_stay_with_the_process() {
        let private = || {
            let text = std::fs::read_to_string("/proc/self/smaps_rollup").expect("the kernel tells");
            let line = text.lines().find(|line| line.starts_with("Private_Dirty:")).expect("a row");
            line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok()).expect("a number")
        };
        let mut pieces: Vec<Vec<u8>> = (0..32_768).map(|_| vec![1; 1024]).collect();
        let full = private();
        // The last piece keeps the end of the region from being given back.
        let last = pieces.pop();
        drop(pieces);
        give_back_heap(1 << 20);
        let freed = full.saturating_sub(private());
        assert!(freed > 24 * 1024, "{freed} KiB of 32 MiB were given back");
        drop(last);
    }
}
