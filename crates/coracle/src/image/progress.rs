//! Progress bars, one a layer, on a terminal only.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use images::{Digest, PullProgress, TransferEvent};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// Bars on standard error.
pub(super) struct Bars {
    all: MultiProgress,
    layers: Mutex<HashMap<Digest, ProgressBar>>,
}

/// Bars, when somebody is looking.
pub(super) fn on_terminal() -> Option<Arc<Bars>> {
    std::io::stderr()
        .is_terminal()
        .then(|| Arc::new(Bars { all: MultiProgress::new(), layers: Mutex::new(HashMap::new()) }))
}

impl Bars {
    /// Takes the bars away, so that the outcome stands alone.
    pub(super) fn clear(&self) {
        // A terminal that has gone shows no bars either.
        let _ = self.all.clear();
    }

    fn with_layer(&self, layer: Digest, change: impl FnOnce(&ProgressBar)) {
        let layers = self.layers.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(bar) = layers.get(&layer) {
            change(bar);
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates of this file are valid")
}

const WAITING: &str = "{prefix} {bar:32} {bytes:>10}/{total_bytes:<10} {msg}";
const DONE: &str = "{prefix} {msg}";

impl PullProgress for Bars {
    fn report(&self, event: TransferEvent) {
        match event {
            TransferEvent::Resolving { registry } => {
                // Shown above the bars and kept: it is part of what happened.
                let _ = self.all.println(format!("asking {registry}"));
            }
            TransferEvent::Layer { layer, size, present } => {
                // Complete before it is shown, or the first picture is one of defaults.
                let (template, message) = if present { (DONE, "already here") } else { (WAITING, "waiting") };
                let bar = ProgressBar::new(size)
                    .with_style(style(template))
                    .with_prefix(layer.to_hex()[..12].to_owned())
                    .with_message(message);
                let bar = self.all.add(bar);
                match present {
                    true => bar.finish(),
                    false => bar.tick(),
                }
                self.layers.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(layer, bar);
            }
            TransferEvent::Received { layer, bytes } => self.with_layer(layer, |bar| {
                bar.set_message("receiving");
                bar.inc(bytes);
            }),
            TransferEvent::Unpacking { layer } => self.with_layer(layer, |bar| {
                bar.set_style(style("{prefix} {spinner} {msg}"));
                bar.set_message("unpacking");
                bar.enable_steady_tick(Duration::from_millis(100));
            }),
            TransferEvent::Unpacked { layer, skipped } => self.with_layer(layer, |bar| {
                bar.set_style(style(DONE));
                bar.finish_with_message(match skipped {
                    0 => "done".to_owned(),
                    count => format!("done, {count} entries left out"),
                });
            }),
            TransferEvent::Retrying { reason } => {
                let _ = self.all.println(format!("trying again: {reason}"));
            }
        }
    }
}
