//! Runs tests one after the other, and says which failed.

use std::ffi::OsString;
use std::future::Future;
use std::io::Write as _;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures::FutureExt as _;

use crate::inventory::Inventory;

/// A test: its name as a sentence, and its body.
pub(crate) type Test = (&'static str, fn() -> Pin<Box<dyn Future<Output = ()>>>);

/// Nothing here takes longer unless it hangs.
const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) fn run(arguments: &[OsString], tests: &[Test]) -> ExitCode {
    let filters: Vec<String> = arguments
        .iter()
        .skip(1)
        .filter_map(|argument| argument.to_str())
        .filter(|argument| !argument.starts_with('-'))
        .map(str::to_owned)
        .collect();
    if arguments.iter().any(|argument| argument == "--list") {
        for (name, _) in tests {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    if !rustix::process::geteuid().is_root() {
        if std::env::var_os("REQUIRE_PRIVILEGED").is_some_and(|value| value == "1") {
            eprintln!("the container tests need root, and REQUIRE_PRIVILEGED=1 forbids to leave them out");
            return ExitCode::FAILURE;
        }
        println!("left out: the container tests need root");
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut failed = Vec::new();
    let selected: Vec<_> = tests
        .iter()
        .filter(|(name, _)| filters.is_empty() || filters.iter().any(|filter| name.contains(filter)))
        .collect();
    for (name, body) in &selected {
        print!("test {name} ... ");
        let _ = std::io::stdout().flush();
        let before = Inventory::take();
        let begun = Instant::now();
        let outcome = runtime.block_on(async {
            tokio::time::timeout(DEADLINE, AssertUnwindSafe(body()).catch_unwind()).await
        });
        let left = Inventory::take().more_than(&before);
        let problem = match outcome {
            Err(_) => Some(format!("still running after {} s", DEADLINE.as_secs())),
            Ok(Err(panic)) => Some(
                panic
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                    .unwrap_or_else(|| "panicked".to_owned()),
            ),
            Ok(Ok(())) if !left.is_empty() => Some(format!("left behind: {left:?}")),
            Ok(Ok(())) => None,
        };
        match problem {
            None => println!("ok ({} ms)", begun.elapsed().as_millis()),
            Some(problem) => {
                println!("FAILED\n    {problem}");
                failed.push(*name);
            }
        }
    }
    println!("\ntest result: {} passed; {} failed", selected.len() - failed.len(), failed.len());
    for name in &failed {
        println!("    failed: {name}");
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints how long things take.
pub(crate) fn measure() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(crate::latency::measure());
    ExitCode::SUCCESS
}
