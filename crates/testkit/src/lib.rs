//! Test support: fixtures, waiting for conditions, images made on the spot, a node in memory
