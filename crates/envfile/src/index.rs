//! Names to their assignment: a small open-addressing table over the names of one file.
//!
//! The file is at most 64 KiB, so a table built by hand is both enough and several times faster than a
//! general map; the order of the assignments lives elsewhere.

/// Maps names, which live in the file's text, to the number of the assignment that answers for them.
#[derive(Clone)]
pub(crate) struct NameIndex {
    /// Assignment number plus one, 0 for a free place. The length is a power of two.
    places: Vec<u32>,
    used: usize,
}

impl NameIndex {
    /// A table that holds about `expected` names before it grows.
    pub(crate) fn with_capacity(expected: usize) -> Self {
        Self { places: vec![0; (expected * 2).next_power_of_two().max(16)], used: 0 }
    }

    /// The assignment that answers for `name`; `name_of` gives the name of an assignment.
    pub(crate) fn find<'t>(&self, name: &str, name_of: impl Fn(u32) -> &'t str) -> Option<u32> {
        let mask = self.places.len() - 1;
        let mut place = hash(name) & mask;
        loop {
            let assignment = self.places[place].checked_sub(1)?;
            if name_of(assignment) == name {
                return Some(assignment);
            }
            place = (place + 1) & mask;
        }
    }

    /// Makes `assignment` answer for `name` if nothing does, or if `replace` says so.
    /// Gives the assignment that answered before.
    pub(crate) fn insert<'t>(
        &mut self,
        name: &str,
        assignment: u32,
        replace: bool,
        name_of: impl Fn(u32) -> &'t str,
    ) -> Option<u32> {
        if (self.used + 1) * 4 > self.places.len() * 3 {
            self.grow(&name_of);
        }
        let mask = self.places.len() - 1;
        let mut place = hash(name) & mask;
        loop {
            let Some(present) = self.places[place].checked_sub(1) else {
                self.places[place] = assignment + 1;
                self.used += 1;
                return None;
            };
            if name_of(present) == name {
                if replace {
                    self.places[place] = assignment + 1;
                }
                return Some(present);
            }
            place = (place + 1) & mask;
        }
    }

    fn grow<'t>(&mut self, name_of: &impl Fn(u32) -> &'t str) {
        let old = std::mem::take(&mut self.places);
        self.places = vec![0; old.len() * 2];
        let mask = self.places.len() - 1;
        for assignment in old.into_iter().filter_map(|entry| entry.checked_sub(1)) {
            let mut place = hash(name_of(assignment)) & mask;
            while self.places[place] != 0 {
                place = (place + 1) & mask;
            }
            self.places[place] = assignment + 1;
        }
    }
}

/// Mixes eight bytes at a time. Collisions cost time only, and a file of 64 KiB bounds that time.
fn hash(name: &str) -> usize {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut state = name.len() as u64;
    for chunk in name.as_bytes().chunks(8) {
        let mut word = [0_u8; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = (state.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
    }
    // The product's upper half is the well-mixed one.
    (state >> 32) as usize
}
