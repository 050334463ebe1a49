//! Arguments that several subcommands share: where the template is, its values, and the cluster.

use std::path::PathBuf;

use ::template::Dialect;

use crate::flag_values;

/// Where the template is.
#[derive(clap::Args)]
pub(super) struct SourceArgs {
    /// A template of the cluster (`NAME`, `template/NAME`, `NAMESPACE//NAME`) or a file; words with `=` are values.
    #[arg(value_name = "TEMPLATE | NAME=VALUE")]
    pub(super) words: Vec<String>,
    /// A file with the template; `-` is standard input.
    #[arg(short = 'f', long = "filename", visible_alias = "file", value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
}

/// The languages of references.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DialectName {
    /// `$(NAME)` and `$((NAME))`.
    Proposal,
    /// `${NAME}` and `${{NAME}}`.
    Openshift,
}

impl From<DialectName> for Dialect {
    fn from(name: DialectName) -> Self {
        match name {
            DialectName::Proposal => Self::Proposal,
            DialectName::Openshift => Self::OpenShift,
        }
    }
}

/// Values and labels for a template.
#[derive(clap::Args, Default)]
#[command(next_help_heading = "Templates")]
pub(crate) struct ValueArgs {
    /// A value of a parameter; `NAME=@FILE` reads it from a file, without its last line break (`@@` is one `@`).
    #[arg(short = 'p', long = "param", alias = "value", value_name = "NAME=VALUE")]
    pub(crate) params: Vec<String>,
    /// An env file with values; `-` is standard input.
    #[arg(long = "param-file", value_name = "FILE")]
    pub(crate) param_files: Vec<PathBuf>,
    /// Take values from environment variables: parameter NAME from PREFIXNAME.
    #[arg(long, value_name = "PREFIX")]
    pub(crate) param_env_prefix: Option<String>,
    /// Ignore values for parameters that the template does not have.
    #[arg(long)]
    pub(crate) ignore_unknown_parameters: bool,
    /// Labels for every object, besides the template's own.
    #[arg(short = 'l', long = "labels", value_name = "KEY=VALUE", value_delimiter = ',')]
    pub(crate) labels: Vec<String>,
    /// Name of the instance: a label of every object.
    #[arg(long, value_name = "NAME", value_parser = flag_values::instance)]
    pub(crate) instance: Option<String>,
    /// The language of the template's references [default: as its apiVersion says].
    #[arg(long, value_enum, value_name = "DIALECT")]
    pub(crate) dialect: Option<DialectName>,
    /// Do not ask for missing values on the terminal.
    #[arg(long)]
    pub(crate) no_prompt: bool,
}

/// The forms in which objects are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ObjectForm {
    /// YAML.
    Yaml,
    /// JSON.
    Json,
    /// `kind/name`, one a line.
    Name,
}

/// The forms in which lists are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ListForm {
    /// A table.
    Table,
    /// JSON.
    Json,
    /// Names, one a line.
    Name,
}
