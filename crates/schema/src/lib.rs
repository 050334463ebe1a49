//! One compact table of every built-in Kubernetes type, resource and table column, and the walkers over it.
//!
//! The table is made from `facts/` by `cargo run -p xtask` and checked in as `table.bin`; it is read in place, so
//! that using it costs no start-up time. Walkers: [`decode`] (strict decoding in upstream's words, with the zero
//! values that Go prints), [`inspect`] (the same for a manifest's author: everything at once, with places and
//! suggestions), [`convert_unstructured`] (the same for trees that come out of a patch), [`strategic_merge`],
//! [`protobuf`] in both directions, [`openapi`], and [`apply`] (server-side apply, and who manages which field). No
//! walker has code for a kind.
//!
//! Pure: no IO, no clock, no logging.

pub mod apply;
mod decode;
mod goduration;
mod gotext;
mod gotime;
mod json;
mod merge;
pub mod openapi;
pub mod protobuf;
mod resources;
mod table;

pub use decode::{
    DecodeError, Decoded, FieldProblem, FieldValidation, Inspection, Mismatch, ProblemKind, Step, Suggestion,
    TypeMeta, convert_unstructured, decode, decode_value, inspect, is_near, peek_type_meta,
};
pub use gotext::{go_print, go_quote, is_printable};
pub use merge::{MergeError, strategic_merge};
pub use resources::{Column, Group, Resource, Subresource, Verb, groups, resource, resources, table_columns};
pub use table::{Field, ListType, Shape, ShapeRef, Special, Type, TypeTable, builtin};
