//! A client for HTTP/1.1 that costs next to nothing: requests are bytes that were made before, answers are read and measured,
//! not understood. It shares the processors with the server that is measured.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::Outcome;
use crate::tls::Connector;

/// A request as it goes over the wire.
#[must_use]
pub fn request(method: &str, path: &str, content_type: &str, body: &str) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n");
    if !body.is_empty() {
        text.push_str(&format!("Content-Type: {content_type}\r\nContent-Length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}

/// One connection that is kept.
#[derive(Debug)]
pub struct Connection {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
}

/// What was answered.
#[derive(Debug)]
pub struct Answer<'c> {
    /// The status code.
    pub code: u16,
    /// The body.
    pub body: &'c [u8],
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    pub async fn open(connector: &Connector) -> Outcome<Self> {
        Ok(Self { stream: connector.connect().await?, buffer: vec![0; 16 * 1024] })
    }

    /// Sends a request and waits for the whole answer, which must say its length.
    ///
    /// # Errors
    ///
    /// When the connection ends or the answer is none.
    pub async fn ask(&mut self, request: &[u8]) -> Outcome<Answer<'_>> {
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        let mut filled = 0;
        let head = loop {
            filled += self.read(filled).await?;
            if let Some(end) = memchr::memmem::find(&self.buffer[..filled], b"\r\n\r\n") {
                break end + 4;
            }
        };
        let text = std::str::from_utf8(&self.buffer[..head])?;
        let code = text.get(9..12).ok_or("no status")?.parse()?;
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        let end = head + length.ok_or("an answer without a length")?;
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        while filled < end {
            filled += self.read(filled).await?;
        }
        Ok(Answer { code, body: &self.buffer[head..end] })
    }

    async fn read(&mut self, from: usize) -> Outcome<usize> {
        if from == self.buffer.len() {
            self.buffer.resize(from * 2, 0);
        }
        match self.stream.read(&mut self.buffer[from..]).await? {
            0 => Err("the server has closed the connection".into()),
            count => Ok(count),
        }
    }
}
