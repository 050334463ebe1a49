//! Downloads one layer into a file: hashed on the way, resumed where it broke off, verified at the end.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::PullImageError;
use super::registry::Registry;
use crate::digest::Digest;
use crate::layer::LayerError;
use crate::manifest::Descriptor;
use crate::progress::{PullProgress, TransferEvent};

/// How often a transfer may break off without having brought anything.
const ATTEMPTS: u32 = 5;
/// Pieces that wait for the disk.
const QUEUE: usize = 32;

/// What has arrived so far.
struct Received {
    file: File,
    hash: Sha256,
    bytes: u64,
}

/// Downloads a layer into a new file. Fails unless exactly the announced content came.
pub(super) async fn download(
    registry: &Registry,
    layer: &Descriptor,
    path: &Path,
    progress: &dyn PullProgress,
) -> Result<(), PullImageError> {
    let storage = |source: std::io::Error| PullImageError::Layer {
        reference: registry.name.clone(),
        layer: layer.digest,
        source: Box::new(LayerError::Io(source)),
    };
    let file = File::create_new(path).map_err(storage)?;
    let mut received = Received { file, hash: Sha256::new(), bytes: 0 };
    let mut attempt = 0;
    loop {
        let before = received.bytes;
        let failure = match registry.blob(layer.digest, received.bytes).await {
            Ok((from, stream)) => {
                if from != received.bytes {
                    received = start_again(received).map_err(storage)?;
                }
                let (state, failure) = receive(received, stream, layer, registry, progress).await?;
                received = state;
                failure
            }
            Err(error) if error.is_retryable() => Some(error),
            Err(error) => return Err(error),
        };
        if received.bytes == layer.size {
            return verify(registry, layer, received.hash);
        }
        let failure = failure.unwrap_or_else(|| PullImageError::Transfer {
            registry: registry.name.clone(),
            digest: layer.digest,
            reason: format!("{} of {} bytes came", received.bytes, layer.size),
        });
        if !failure.is_retryable() {
            return Err(failure);
        }
        attempt = if received.bytes > before { 1 } else { attempt + 1 };
        if attempt >= ATTEMPTS {
            return Err(failure);
        }
        progress.report(TransferEvent::Retrying { reason: failure.to_string() });
        tokio::time::sleep(Duration::from_millis(100) * 2_u32.pow(attempt)).await;
    }
}

fn verify(registry: &Registry, layer: &Descriptor, hash: Sha256) -> Result<(), PullImageError> {
    let actual = Digest::from_hash(hash);
    match actual == layer.digest {
        true => Ok(()),
        false => {
            Err(PullImageError::Digest { registry: registry.name.clone(), expected: layer.digest, actual })
        }
    }
}

/// The registry cannot resume.
fn start_again(mut received: Received) -> std::io::Result<Received> {
    received.file.rewind()?;
    received.file.set_len(0)?;
    Ok(Received { file: received.file, hash: Sha256::new(), bytes: 0 })
}

/// Writes a stream behind what was received. Answers the new state and why the stream ended early, if it did.
async fn receive(
    mut received: Received,
    mut stream: impl futures::Stream<Item = std::io::Result<Bytes>> + Unpin,
    layer: &Descriptor,
    registry: &Registry,
    progress: &dyn PullProgress,
) -> Result<(Received, Option<PullImageError>), PullImageError> {
    let (pieces, mut queue) = mpsc::channel::<Bytes>(QUEUE);
    let mut announced = received.bytes;
    // Hashing and writing are the disk's pace, not the network's.
    let writer = tokio::task::spawn_blocking(move || -> std::io::Result<Received> {
        while let Some(piece) = queue.blocking_recv() {
            received.hash.update(&piece);
            received.file.write_all(&piece)?;
            received.bytes += piece.len() as u64;
        }
        Ok(received)
    });
    let mut failure = None;
    while let Some(piece) = stream.next().await {
        let piece = match piece {
            Ok(piece) => piece,
            Err(error) => {
                failure = Some(registry.broken(layer.digest, &error));
                break;
            }
        };
        announced += piece.len() as u64;
        if announced > layer.size {
            return Err(PullImageError::TooLarge {
                what: "layer",
                digest: layer.digest,
                size: announced,
                limit: layer.size,
            });
        }
        let bytes = piece.len() as u64;
        if pieces.send(piece).await.is_err() {
            // The writer failed and says why below.
            break;
        }
        progress.report(TransferEvent::Received { layer: layer.digest, bytes });
        fault::point("pull.piece_received");
    }
    drop(pieces);
    let received =
        writer.await.map_err(|_| PullImageError::Interrupted)?.map_err(|source| PullImageError::Layer {
            reference: registry.name.clone(),
            layer: layer.digest,
            source: Box::new(LayerError::Io(source)),
        })?;
    Ok((received, failure))
}
