//! Many watches on one HTTP/2 connection, by hand: frames are counted and looked at for their revisions, nothing else. It
//! shares the processors with the server that is measured.

use std::time::Instant;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::Outcome;
use crate::tls::Connector;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const INITIAL_WINDOW_SIZE: u16 = 4;
const LARGEST_WINDOW: u32 = (1 << 31) - 1;
const FIRST_WINDOW: u32 = 65_535;
/// Bytes of a stream after which its window and the connection's are opened again.
const OPEN_AGAIN: usize = 1 << 28;
/// `:status: 200` of the static table.
const OK: u8 = 0x88;
const REVISION: &[u8] = b"\"resourceVersion\":\"";

/// What one watch was told.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Revisions in the order in which they came.
    pub revisions: Vec<u64>,
    line: Vec<u8>,
    unread: usize,
}

/// Watches that share a connection.
#[derive(Debug)]
pub struct Watches {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
    filled: usize,
    told: Vec<Told>,
    answered: usize,
    /// When the last event came.
    pub last: Instant,
}

impl Watches {
    /// Opens so many watches of `path` and waits until all are answered.
    ///
    /// # Errors
    ///
    /// When the server refuses one.
    pub async fn open(connector: &Connector, path: &str, count: usize) -> Outcome<Self> {
        let mut stream = connector.connect().await?;
        let mut bytes = PREFACE.to_vec();
        let mut setting = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
        setting.extend(LARGEST_WINDOW.to_be_bytes());
        frame(&mut bytes, SETTINGS, 0, 0, &setting);
        frame(&mut bytes, WINDOW_UPDATE, 0, 0, &(LARGEST_WINDOW - FIRST_WINDOW).to_be_bytes());
        // `:method: GET` and `:scheme: https` of the static table; `:path` and `:authority` by its names.
        let mut headers = vec![0x82, 0x87];
        for (name, value) in [(4, path), (1, "localhost")] {
            headers.push(name);
            length(&mut headers, value.len());
            headers.extend(value.as_bytes());
        }
        for number in 0..count {
            frame(&mut bytes, HEADERS, END_STREAM | END_HEADERS, id_of(number), &headers);
        }
        stream.write_all(&bytes).await?;
        stream.flush().await?;
        let mut watches = Self {
            stream,
            buffer: vec![0; 256 * 1024],
            filled: 0,
            told: vec![Told::default(); count],
            answered: 0,
            last: Instant::now(),
        };
        while watches.answered < count {
            watches.read().await?;
        }
        Ok(watches)
    }

    /// What each watch was told so far.
    #[must_use]
    pub fn told(&self) -> &[Told] {
        &self.told
    }

    /// Reads until each watch was told of this many events.
    ///
    /// # Errors
    ///
    /// When the server ends a watch or the connection.
    pub async fn read_until(&mut self, events: usize) -> Outcome<()> {
        while self.told.iter().any(|told| told.revisions.len() < events) {
            self.read().await?;
        }
        Ok(())
    }

    /// Keeps the connection alive for as long as the future is polled.
    ///
    /// # Errors
    ///
    /// As [`Watches::read_until`].
    pub async fn stay(&mut self) -> Outcome<()> {
        loop {
            self.read().await?;
        }
    }

    async fn read(&mut self) -> Outcome<()> {
        let count = self.stream.read(&mut self.buffer[self.filled..]).await?;
        if count == 0 {
            return Err("the server has closed the connection".into());
        }
        self.filled += count;
        let mut at = 0;
        let mut reply = Vec::new();
        let mut came = false;
        while let Some(head) = self.buffer[at..self.filled].first_chunk::<9>() {
            let size = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            if self.filled - at < 9 + size {
                break;
            }
            let (kind, flags) = (head[3], head[4]);
            let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let payload = &self.buffer[at + 9..at + 9 + size];
            match kind {
                DATA => {
                    let told = self.told.get_mut(number_of(id)).ok_or("data of no watch")?;
                    told.hear(payload)?;
                    came = true;
                    if told.unread > OPEN_AGAIN {
                        let more = u32::try_from(std::mem::take(&mut told.unread))?.to_be_bytes();
                        frame(&mut reply, WINDOW_UPDATE, 0, id, &more);
                        frame(&mut reply, WINDOW_UPDATE, 0, 0, &more);
                    }
                    if flags & END_STREAM != 0 {
                        return Err("the server has ended a watch".into());
                    }
                }
                HEADERS if payload.first() == Some(&OK) && flags & END_STREAM == 0 => self.answered += 1,
                HEADERS => return Err(format!("the server refuses a watch: {payload:?}").into()),
                SETTINGS if flags & ACK == 0 => frame(&mut reply, SETTINGS, ACK, 0, &[]),
                PING if flags & ACK == 0 => frame(&mut reply, PING, ACK, 0, payload),
                SETTINGS | PING | WINDOW_UPDATE => {}
                other => return Err(format!("a frame of type {other}: {payload:?}").into()),
            }
            at += 9 + size;
        }
        self.buffer.copy_within(at..self.filled, 0);
        self.filled -= at;
        if came {
            self.last = Instant::now();
        }
        if !reply.is_empty() {
            self.stream.write_all(&reply).await?;
            self.stream.flush().await?;
        }
        Ok(())
    }
}

impl Told {
    fn hear(&mut self, mut bytes: &[u8]) -> Outcome<()> {
        self.unread += bytes.len();
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            if self.line.is_empty() {
                self.revisions.push(revision(&bytes[..end])?);
            } else {
                self.line.extend(&bytes[..end]);
                self.revisions.push(revision(&self.line)?);
                self.line.clear();
            }
            bytes = &bytes[end + 1..];
        }
        self.line.extend(bytes);
        Ok(())
    }
}

fn revision(line: &[u8]) -> Outcome<u64> {
    let from = memchr::memmem::find(line, REVISION).ok_or("an event without a revision")? + REVISION.len();
    let digits = line[from..].iter().take_while(|byte| byte.is_ascii_digit());
    Ok(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

fn id_of(number: usize) -> u32 {
    2 * number as u32 + 1
}

fn number_of(id: u32) -> usize {
    (id as usize).wrapping_sub(1) / 2
}

fn frame(bytes: &mut Vec<u8>, kind: u8, flags: u8, id: u32, payload: &[u8]) {
    bytes.extend(&(payload.len() as u32).to_be_bytes()[1..]);
    bytes.extend([kind, flags]);
    bytes.extend(id.to_be_bytes());
    bytes.extend(payload);
}

/// The length of a text of headers: seven bits, then more.
fn length(bytes: &mut Vec<u8>, length: usize) {
    if length < 127 {
        bytes.push(length as u8);
        return;
    }
    bytes.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        bytes.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    bytes.push(rest as u8);
}
