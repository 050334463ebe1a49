//! Pull, import, verify and unpack images into a content-addressed store
