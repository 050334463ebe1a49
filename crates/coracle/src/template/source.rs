//! Where a template comes from: a file, standard input, or the API server.

use std::path::{Path, PathBuf};

use ::template::{Dialect, Template};
use manifest::Node;

use super::arguments::{SourceArgs, ValueArgs};
use super::report::Reporter;
use crate::cluster::ClusterArgs;
use crate::cluster::{Cluster, ClusterError};
use crate::failure::{Failure, INPUT};
use crate::input::{Input, InputObject};

/// What the words of the command line mean.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    /// The template.
    pub(super) origin: Origin,
    /// `NAME=VALUE`.
    pub(super) values: Vec<String>,
}

/// Where the template is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// A file, or standard input.
    File(PathBuf),
    /// A template that the API server stores.
    Stored {
        /// Its namespace, when the word names one.
        namespace: Option<String>,
        /// Its name.
        name: String,
    },
}

/// Why the words cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WordsError {
    /// Nothing says where the template is.
    #[error("Must pass a filename or name of stored template")]
    Missing,
    /// Several templates.
    #[error("only one template can be processed: {0} and {1} are two")]
    Several(String, String),
}

/// Reads the words: those with `=` are values, the other one is a file if there is one of that name, else a stored
/// template.
pub(super) fn words(args: &SourceArgs, is_file: impl Fn(&Path) -> bool) -> Result<Words, WordsError> {
    let (values, others): (Vec<&String>, Vec<&String>) =
        args.words.iter().partition(|word| word.contains('=') && !is_file(Path::new(word)));
    let files = args.files.iter().map(|file| (file.display().to_string(), Origin::File(file.clone())));
    let named = others.into_iter().map(|word| (word.clone(), origin_of(word, &is_file)));
    let mut origins = files.chain(named);
    let (first, origin) = origins.next().ok_or(WordsError::Missing)?;
    if let Some((second, _)) = origins.next() {
        return Err(WordsError::Several(first, second));
    }
    Ok(Words { origin, values: values.into_iter().cloned().collect() })
}

fn origin_of(word: &str, is_file: impl Fn(&Path) -> bool) -> Origin {
    let looks_like_a_file = word == "-"
        || is_file(Path::new(word))
        || [".yaml", ".yml", ".json"].iter().any(|ending| word.ends_with(ending));
    if looks_like_a_file {
        return Origin::File(word.into());
    }
    let (namespace, rest) = match word.split_once('/') {
        Some((namespace, rest)) if rest.starts_with('/') || rest.contains('/') => {
            (Some(namespace.to_owned()), rest.trim_start_matches('/'))
        }
        _ => (None, word),
    };
    let name = match rest.split_once('/') {
        Some(("template" | "templates", name)) => name,
        _ => rest,
    };
    Origin::Stored { namespace, name: name.to_owned() }
}

/// A template with the text that it stands in.
pub(super) struct TemplateSource {
    /// What was read.
    pub(super) input: Input,
    /// Which object of it.
    index: usize,
    /// The namespace that a stored template is in.
    pub(super) namespace: Option<String>,
}

impl TemplateSource {
    /// The template's document.
    pub(super) fn object(&self) -> &InputObject {
        &self.input.objects[self.index]
    }

    /// The template's tree.
    pub(super) fn root(&self) -> &Node {
        &self.object().document.root
    }

    /// Reads a file. Only the first template of several is used, which is said.
    ///
    /// # Errors
    ///
    /// The file cannot be used, or holds no template.
    pub(super) fn of_file(path: &Path) -> Result<Self, Failure> {
        let shown = path.to_string_lossy();
        if shown.starts_with("http://") || shown.starts_with("https://") {
            return Err(Failure::text(INPUT, "templates are not fetched")
                .place(shown.into_owned())
                .hint("pipe it in: curl -sSf URL | coracle template process -f -"));
        }
        let input = Input::read(&[path]).map_err(|error| Failure::new(INPUT, &error).hint(error.hint()))?;
        let mut found = (0..input.objects.len()).filter(|index| is_template(&input.objects[*index]));
        let Some(index) = found.next() else { return Err(no_template(&input)) };
        let others = found.count();
        if others > 0 {
            let count = others + 1;
            Failure::text(
                INPUT,
                format!("{count} input templates found, but only the first will be processed"),
            )
            .warn();
        }
        Ok(Self { input, index, namespace: None })
    }

    /// Reads a template that the API server stores; it is shown as it would be printed.
    ///
    /// # Errors
    ///
    /// It is not there, or the server cannot be asked.
    pub(super) async fn of_cluster(
        cluster: &Cluster,
        namespace: &str,
        name: &str,
    ) -> Result<Self, ClusterError> {
        let root = cluster.stored_template(namespace, name).await?;
        let text = manifest::to_yaml(&root);
        let shown = format!("template/{name}");
        let input = Input::of_text(&shown, text.into_bytes())
            .map_err(|error| ClusterError::Unexpected { what: shown, message: error.to_string() })?;
        Ok(Self { input, index: 0, namespace: Some(namespace.to_owned()) })
    }
}

/// Reads the template that the words name; for a stored one, asks the API server.
///
/// # Errors
///
/// The file or the server cannot be used.
pub(super) fn open(origin: &Origin, args: &ClusterArgs) -> Result<TemplateSource, Failure> {
    match origin {
        Origin::File(path) => TemplateSource::of_file(path),
        Origin::Stored { namespace, name } => crate::cluster::block_on(async {
            let mut cluster = Cluster::connect(args).await?;
            if let Some(namespace) = namespace {
                cluster.namespace.clone_from(namespace);
            }
            TemplateSource::of_cluster(&cluster, &cluster.namespace, name).await
        })?
        .map_err(|error| error.failure()),
    }
}

/// Whether an object of the input is a template.
pub(super) fn is_template(object: &InputObject) -> bool {
    Template::is_one(&object.document.root)
}

fn no_template(input: &Input) -> Failure {
    let failure = Failure::text(INPUT, "there is no template in the input");
    let failure = match input.objects.first() {
        Some(object) => failure.place(input.place(object, "kind")),
        None => failure.place(input.files.first().map(|file| file.name.clone()).unwrap_or_default()),
    };
    failure.hint(
        "a template has kind Template and apiVersion template.coracle.dev/v1, template.openshift.io/v1 or v1",
    )
}

impl From<WordsError> for Failure {
    fn from(error: WordsError) -> Self {
        let hint = match &error {
            WordsError::Missing => "for example: coracle template process -f app.yaml -p TAG=1.2",
            WordsError::Several(..) => "process them one after the other; values are written NAME=VALUE",
        };
        Failure::new(INPUT, &error).hint(hint)
    }
}

/// Reads the template, in the language that the flag or a stored template's annotation says.
pub(super) fn read<'s>(
    source: &'s TemplateSource,
    args: &ValueArgs,
    reporter: &Reporter<'_>,
) -> Result<Template<'s>, Failure> {
    ::template::check_keys(source.root(), &source.object().document.notices)
        .and_then(|()| Template::read(source.root(), dialect(source, args)))
        .map_err(|refusal| reporter.refusal(&refusal))
}

fn dialect(source: &TemplateSource, args: &ValueArgs) -> Option<Dialect> {
    let noted = || {
        let annotations = source.root().get("metadata")?.get("annotations")?;
        Dialect::parse(annotations.get(api::annotations::TEMPLATE_DIALECT)?.as_str()?)
    };
    args.dialect.map(Into::into).or_else(noted)
}
