//! The caps on everything that comes from outside.

/// Caps for archives, layers, manifests and configurations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one unpacked layer, headers included.
    pub layer_bytes: u64,
    /// Entries of one layer, extension headers included.
    pub layer_entries: u64,
    /// Directories of one layer: their times are kept in memory until the layer is complete.
    pub layer_directories: u64,
    /// Bytes of the paths of all directories of one layer, kept in memory likewise.
    pub layer_directory_bytes: u64,
    /// Unpacked bytes for each transported byte, checked beyond [`Limits::ratio_free_bytes`].
    pub ratio: u64,
    /// Unpacked bytes of a layer that need no justification by its transported size.
    pub ratio_free_bytes: u64,
    /// Bytes of one path in a layer (the kernel's limit).
    pub path_bytes: usize,
    /// Components of one path in a layer; deeper trees cannot be removed again with few open files.
    pub path_depth: usize,
    /// Bytes of one component of a path (the kernel's limit).
    pub name_bytes: usize,
    /// Bytes of all extension headers of one entry (long names, PAX records).
    pub extension_bytes: u64,
    /// Largest window of a zstd stream, as a power of two.
    pub zstd_window_log: u32,
    /// Layers of one image (more than an overlay mount takes is useless).
    pub layers: usize,
    /// Bytes of a manifest or an index.
    pub manifest_bytes: u64,
    /// Bytes of an image configuration.
    pub config_bytes: u64,
    /// Bytes of one transported layer.
    pub blob_bytes: u64,
    /// Members of an archive (`docker save`, OCI).
    pub archive_entries: u64,
}

impl Limits {
    /// The caps of the product.
    pub const DEFAULT: Limits = Limits {
        layer_bytes: 64 << 30,
        layer_entries: 1_000_000,
        layer_directories: 200_000,
        layer_directory_bytes: 16 << 20,
        ratio: 250,
        ratio_free_bytes: 256 << 20,
        path_bytes: 4095,
        path_depth: 256,
        name_bytes: 255,
        extension_bytes: 1 << 20,
        zstd_window_log: 25,
        layers: 120,
        manifest_bytes: 4 << 20,
        config_bytes: 4 << 20,
        blob_bytes: 32 << 30,
        archive_entries: 100_000,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Limits::DEFAULT
    }
}
