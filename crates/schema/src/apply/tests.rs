//! Rows that no recorded sequence has, and what holds for every object.

mod algebra;
mod rules;
