//! Our own API vocabulary: annotations, feature gates, event reasons, waiting reasons, limits
