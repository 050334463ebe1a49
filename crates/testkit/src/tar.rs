//! Makes tar archives entry by entry, honest or not: every field of a header can be given as it should not be.

/// An archive in the making.
#[derive(Debug, Clone, Default)]
pub struct TarMaker {
    bytes: Vec<u8>,
}

/// One header. What is not changed is that of a regular, empty file of root.
#[derive(Debug, Clone)]
pub struct HeaderMaker {
    block: [u8; 512],
    sum: Sum,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sum {
    Right,
    Wrong,
}

impl HeaderMaker {
    /// A header of this type (`b'0'` file, `b'5'` directory, ...) and name. Longer names are cut at 100 bytes.
    pub fn new(kind: u8, name: impl AsRef<[u8]>) -> HeaderMaker {
        let mut header = HeaderMaker { block: [0; 512], sum: Sum::Right };
        header.block[257..263].copy_from_slice(b"ustar\0");
        header.block[263..265].copy_from_slice(b"00");
        header.block[156] = kind;
        let mode = if kind == b'5' { 0o755 } else { 0o644 };
        header.name(name).mode(mode).owner(0, 0).modified(1_700_000_000).size(0)
    }

    /// Another name, cut at 100 bytes.
    pub fn name(self, name: impl AsRef<[u8]>) -> HeaderMaker {
        self.field(0, 100, name.as_ref())
    }

    /// The target of a link, cut at 100 bytes.
    pub fn link(self, target: impl AsRef<[u8]>) -> HeaderMaker {
        self.field(157, 100, target.as_ref())
    }

    /// Permission bits.
    pub fn mode(self, mode: u32) -> HeaderMaker {
        self.field(100, 8, format!("{mode:07o}").as_bytes())
    }

    /// User and group.
    pub fn owner(self, uid: u32, gid: u32) -> HeaderMaker {
        self.number(108, 8, uid.into()).number(116, 8, gid.into())
    }

    /// Seconds since 1970.
    pub fn modified(self, seconds: u64) -> HeaderMaker {
        self.number(136, 12, seconds)
    }

    /// The size that the header claims.
    pub fn size(self, size: u64) -> HeaderMaker {
        self.number(124, 12, size)
    }

    /// Device numbers.
    pub fn device(self, major: u32, minor: u32) -> HeaderMaker {
        self.number(329, 8, major.into()).number(337, 8, minor.into())
    }

    /// Any bytes anywhere.
    pub fn field(mut self, offset: usize, length: usize, bytes: &[u8]) -> HeaderMaker {
        let length = length.min(bytes.len());
        self.block[offset..offset + length].copy_from_slice(&bytes[..length]);
        self
    }

    /// With a wrong sum.
    pub fn damaged(mut self) -> HeaderMaker {
        self.sum = Sum::Wrong;
        self
    }

    fn number(self, offset: usize, length: usize, value: u64) -> HeaderMaker {
        let octal = format!("{value:0width$o}", width = length - 1);
        if octal.len() < length {
            return self.field(offset, length, octal.as_bytes());
        }
        let mut binary = vec![0; length];
        binary[length - 8..].copy_from_slice(&value.to_be_bytes());
        binary[0] |= 0x80;
        self.field(offset, length, &binary)
    }

    /// The 512 bytes.
    pub fn build(mut self) -> [u8; 512] {
        self.block[148..156].copy_from_slice(b"        ");
        let sum: u32 = self.block.iter().map(|byte| u32::from(*byte)).sum();
        let sum = if self.sum == Sum::Right { sum } else { sum ^ 1 };
        self.block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.block
    }
}

impl TarMaker {
    /// An empty archive.
    pub fn new() -> TarMaker {
        TarMaker::default()
    }

    /// A regular file.
    pub fn file(self, name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> TarMaker {
        self.file_with(HeaderMaker::new(b'0', name), content)
    }

    /// A regular file with a header of its own; the size is set.
    pub fn file_with(self, header: HeaderMaker, content: impl AsRef<[u8]>) -> TarMaker {
        let content = content.as_ref();
        self.entry(header.size(content.len() as u64), content)
    }

    /// A program: a file that can be executed.
    pub fn program(self, name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> TarMaker {
        self.file_with(HeaderMaker::new(b'0', name).mode(0o755), content)
    }

    /// A directory.
    pub fn directory(self, name: impl AsRef<[u8]>) -> TarMaker {
        self.entry(HeaderMaker::new(b'5', name), b"")
    }

    /// A symbolic link.
    pub fn symlink(self, name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> TarMaker {
        self.entry(HeaderMaker::new(b'2', name).link(target), b"")
    }

    /// A hard link.
    pub fn hard_link(self, name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> TarMaker {
        self.entry(HeaderMaker::new(b'1', name).link(target), b"")
    }

    /// An extended header for the next entry, from `key=value` records.
    pub fn pax(self, records: &[(&str, &[u8])]) -> TarMaker {
        let content: Vec<u8> = records.iter().flat_map(|(key, value)| pax_record(key, value)).collect();
        self.pax_bytes(&content)
    }

    /// An extended header for the next entry with exactly these bytes.
    pub fn pax_bytes(self, content: &[u8]) -> TarMaker {
        let header = HeaderMaker::new(b'x', "PaxHeaders/entry").size(content.len() as u64);
        self.entry(header, content)
    }

    /// A GNU header that gives the next entry a long name (`b'L'`) or link target (`b'K'`).
    pub fn long(self, kind: u8, text: &[u8]) -> TarMaker {
        let header = HeaderMaker::new(kind, "././@LongLink").size(text.len() as u64 + 1);
        let mut content = text.to_vec();
        content.push(0);
        self.entry(header, &content)
    }

    /// Any header with any content, padded to full blocks.
    pub fn entry(mut self, header: HeaderMaker, content: &[u8]) -> TarMaker {
        self.bytes.extend_from_slice(&header.build());
        self.bytes.extend_from_slice(content);
        let padding = (512 - content.len() % 512) % 512;
        self.bytes.resize(self.bytes.len() + padding, 0);
        self
    }

    /// Any bytes.
    pub fn raw(mut self, bytes: &[u8]) -> TarMaker {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// The archive with its end.
    pub fn build(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 1024, 0);
        self.bytes
    }

    /// The archive without its end.
    pub fn build_cut(self) -> Vec<u8> {
        self.bytes
    }
}

/// One record of an extended header with its right length.
pub fn pax_record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    let mut record = format!("{length} {key}=").into_bytes();
    record.extend_from_slice(value);
    record.push(b'\n');
    record
}
