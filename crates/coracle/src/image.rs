//! The command `coracle image`: pull, import, list and remove what the image store holds.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use images::{
    HOST_IMAGE, ImageStore, ImportError, ImportOptions, PullImageError, PullOptions, PullProgress, Reference,
    Removed, Silent, StoreError,
};

use crate::failure::{Failure, INPUT, exit_code};
use crate::flag_values;
use crate::standard_output;

mod output;
mod progress;

/// Exit status: an image was not pulled, imported or removed.
const FAILED: u8 = 1;

/// Arguments of `coracle image`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  coracle image pull busybox
  coracle image import shop.tar
  coracle image import ./rootfs --name localhost/shop:1
  coracle image list
  coracle image remove busybox")]
pub(crate) struct ImageArgs {
    #[command(subcommand)]
    command: ImageCommand,
    /// Directory whose `images` holds the store [default: /var/lib/coracle, or the user's own when not root].
    #[arg(long, value_name = "DIR", global = true, value_parser = flag_values::directory())]
    data_dir: Option<PathBuf>,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t = OutputForm::Text, value_name = "FORM", global = true)]
    output: OutputForm,
}

/// What to do with images.
#[derive(clap::Subcommand)]
enum ImageCommand {
    /// Fetch an image from its registry, with the logins and mirrors of this user's container tools.
    Pull {
        /// The image, such as `busybox`, `quay.io/team/app:2` or `app@sha256:...`.
        image: String,
    },
    /// Take images from a file: `docker save`, OCI archive or layout, root file system (directory or tar).
    Import {
        /// The archive or directory.
        file: PathBuf,
        /// Name of the image, in place of what the file says.
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// List the images of this machine.
    #[command(visible_alias = "ls")]
    List,
    /// Remove images by name, or by the beginning of their identity.
    #[command(visible_alias = "rm")]
    Remove {
        /// The images.
        #[arg(required = true)]
        images: Vec<String>,
    },
}

/// For people or for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OutputForm {
    /// Lines and tables.
    Text,
    /// JSON, described in `docs/images.md`.
    Json,
}

/// Runs the command.
pub(crate) fn run(args: ImageArgs) -> ExitCode {
    crate::logging::start_brief();
    let outcome = open(args.data_dir.as_deref()).and_then(|store| match args.command {
        ImageCommand::Pull { image } => pull(&store, &image, args.output),
        ImageCommand::Import { file, name } => import(&store, &file, name.as_deref(), args.output),
        ImageCommand::List => list(&store, args.output),
        ImageCommand::Remove { images } => remove(&store, &images, args.output),
    });
    exit_code(outcome)
}

/// The directory of the store: below `--data-dir`, else root's, else the user's own.
fn store_directory(data_dir: Option<&Path>) -> PathBuf {
    if let Some(directory) = data_dir {
        return directory.join("images");
    }
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/coracle/images");
    }
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user = variable("XDG_DATA_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/share")));
    user.unwrap_or_else(std::env::temp_dir).join("coracle/images")
}

fn open(data_dir: Option<&Path>) -> Result<ImageStore, Failure> {
    let directory = store_directory(data_dir);
    ImageStore::open(&directory).map_err(|error| store_failure(&error))
}

fn store_failure(error: &StoreError) -> Failure {
    let status = if matches!(error, StoreError::Reference(_)) { INPUT } else { FAILED };
    with_hint(Failure::new(status, error), error.hint())
}

fn with_hint(failure: Failure, hint: Option<String>) -> Failure {
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn pull(store: &ImageStore, text: &str, form: OutputForm) -> Result<(), Failure> {
    refuse_host(text)?;
    let bars = progress::on_terminal();
    let options = PullOptions::of_user()
        .map_err(|error| {
            Failure::new(FAILED, &error).hint("correct the file, or set CONTAINERS_REGISTRIES_CONF")
        })?
        .with_progress(bars.clone().map_or(Arc::new(Silent) as Arc<dyn PullProgress>, |bars| bars));
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::new(FAILED, &error))?;
    let pulled = runtime.block_on(store.pull(text, &options));
    if let Some(bars) = bars {
        bars.clear();
    }
    match pulled {
        Ok(image) => standard_output::line(match form {
            OutputForm::Text => output::sentence("pulled", &normal_name(text), &image),
            OutputForm::Json => output::json(&output::describe(&image)),
        }),
        Err(error) => Err(pull_failure(store, text, &options, &error)),
    }
}

fn pull_failure(store: &ImageStore, text: &str, options: &PullOptions, error: &PullImageError) -> Failure {
    let status = if error.is_invalid_name() { INPUT } else { FAILED };
    with_hint(Failure::new(status, error), store.pull_hint(text, options, error))
}

/// The machine itself is neither pulled nor removed.
fn refuse_host(text: &str) -> Result<(), Failure> {
    let host = Reference::parse(text).is_ok_and(|reference| reference.name() == HOST_IMAGE);
    match host {
        false => Ok(()),
        true => {
            Err(Failure::text(INPUT, format!("image {text} is this machine itself and lies in no store"))
                .hint("use it in a pod as it is"))
        }
    }
}

fn import(store: &ImageStore, file: &Path, name: Option<&str>, form: OutputForm) -> Result<(), Failure> {
    let mut options = ImportOptions::new();
    if let Some(name) = name {
        refuse_host(name)?;
        let reference = Reference::parse(name).map_err(|error| Failure::new(INPUT, &error))?;
        if reference.digest().is_some() {
            return Err(Failure::text(INPUT, format!("name {name} has a digest, which nobody can choose"))
                .hint("give a name with a tag"));
        }
        options = options.with_name(reference);
    }
    let bars = progress::on_terminal();
    if let Some(bars) = &bars {
        options = options.with_progress(bars.clone());
    }
    let imported = store.import(file, &options);
    if let Some(bars) = bars {
        bars.clear();
    }
    let imported = imported.map_err(|error| import_failure(file, &error))?;
    match form {
        OutputForm::Json => {
            let images: Vec<_> = imported.images.iter().map(output::describe).collect();
            standard_output::line(output::json(&images))
        }
        OutputForm::Text => {
            for image in &imported.images {
                let name = name.map_or_else(|| output::all_names(image), normal_name);
                standard_output::line(output::sentence("imported", &name, image))?;
            }
            match imported.skipped {
                0 => Ok(()),
                skipped => standard_output::line(format_args!(
                    "{skipped} device nodes or reserved attributes were left out"
                )),
            }
        }
    }
}

fn import_failure(file: &Path, error: &ImportError) -> Failure {
    let status = match error {
        ImportError::NeedsName { .. }
        | ImportError::SeveralImages { .. }
        | ImportError::NotAnArchive { .. } => INPUT,
        ImportError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => INPUT,
        _ => FAILED,
    };
    with_hint(Failure::new(status, error).place(file.display().to_string()), error.hint())
}

fn list(store: &ImageStore, form: OutputForm) -> Result<(), Failure> {
    let images = store.list().map_err(|error| store_failure(&error))?;
    match form {
        OutputForm::Text => print_lines(&output::table(&images)),
        OutputForm::Json => {
            let images: Vec<_> = images.iter().map(output::describe).collect();
            standard_output::line(output::json(&images))
        }
    }
}

fn print_lines(lines: &[String]) -> Result<(), Failure> {
    lines.iter().try_for_each(standard_output::line)
}

/// Removes all that can be removed; the first failure decides the exit status.
fn remove(store: &ImageStore, names: &[String], form: OutputForm) -> Result<(), Failure> {
    let mut removed: Vec<Removed> = Vec::new();
    let mut failure = None;
    for name in names {
        match remove_one(store, name) {
            Ok(done) => removed.push(done),
            Err(error) => match failure {
                None => failure = Some(error),
                Some(_) => drop(error.report()),
            },
        }
    }
    let printed = match form {
        OutputForm::Text => print_lines(&removed.iter().flat_map(output::removal).collect::<Vec<_>>()),
        OutputForm::Json => {
            let removed: Vec<_> = removed.iter().map(output::describe_removal).collect();
            standard_output::line(output::json(&removed))
        }
    };
    failure.map_or(printed, Err)
}

fn remove_one(store: &ImageStore, name: &str) -> Result<Removed, Failure> {
    refuse_host(name)?;
    match store.remove(name).map_err(|error| store_failure(&error))? {
        Some(removed) => Ok(removed),
        None => {
            let hint = match store.nearest(name) {
                Some(near) => format!("did you mean {near}?"),
                None => "`coracle image list` shows what there is".to_owned(),
            };
            Err(Failure::text(
                FAILED,
                format!("image {name} is not in the store {}", store.directory().display()),
            )
            .hint(hint))
        }
    }
}

/// A name in full, as lists show it.
fn normal_name(text: &str) -> String {
    Reference::parse(text).map_or_else(|_| text.to_owned(), |reference| reference.to_string())
}

#[cfg(test)]
mod tests;
