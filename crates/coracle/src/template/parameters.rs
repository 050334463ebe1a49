//! `coracle template parameters`: what a template asks for.

use ::template::Parameter;
use serde_json::{Value, json};

use super::Ended;
use super::arguments::{DialectName, SourceArgs, ValueArgs};
use super::report::Reporter;
use super::source::{self, TemplateSource};
use super::table::{cell, render};
use crate::cluster::ClusterArgs;
use crate::standard_output;

/// Arguments of `coracle template parameters`.
#[derive(clap::Args)]
pub(super) struct ParametersArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t = ParametersForm::Table, value_name = "FORM")]
    output: ParametersForm,
    /// The language of the template's references [default: as its apiVersion says].
    #[arg(long, value_enum, value_name = "DIALECT")]
    dialect: Option<DialectName>,
}

/// The forms of the list of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ParametersForm {
    /// A table.
    Table,
    /// JSON, for forms and programs.
    Json,
    /// Names, one a line.
    Name,
}

/// Stands for the default of a secret parameter.
const MASK: &str = "****";

/// Runs the command.
pub(super) fn run(args: &ParametersArgs) -> Ended {
    let words = source::words(&args.source, |path| path.exists())?;
    let source = source::open(&words.origin, &args.cluster)?;
    print(&source, args.dialect, args.output)
}

/// Prints the parameters of a template.
pub(super) fn print(source: &TemplateSource, dialect: Option<DialectName>, form: ParametersForm) -> Ended {
    let reporter = Reporter::new(&source.input, source.object());
    let args = ValueArgs { dialect, ..ValueArgs::default() };
    let template = source::read(source, &args, &reporter)?;
    let text = match form {
        ParametersForm::Table => {
            let rows: Vec<Vec<String>> = template.parameters.iter().map(row).collect();
            render(&["NAME", "TYPE", "REQUIRED", "DEFAULT", "DESCRIPTION"], &rows)
        }
        ParametersForm::Json => {
            let list: Vec<Value> = template.parameters.iter().map(description).collect();
            format!("{:#}\n", Value::Array(list))
        }
        ParametersForm::Name => template.parameters.iter().map(|each| format!("{}\n", each.name)).collect(),
    };
    standard_output::print(text)?;
    Ok(0)
}

fn row(parameter: &Parameter<'_>) -> Vec<String> {
    let default = match (parameter.value, parameter.generate) {
        (Some(_), _) if parameter.secret => MASK.to_owned(),
        (Some(value), _) => value.to_owned(),
        (None, Some(_)) => format!("generated from {}", parameter.from.unwrap_or("nothing")),
        (None, None) => String::new(),
    };
    let kind = parameter.kind.map_or("", ::template::ParameterType::as_str);
    let about = parameter.description.or(parameter.display_name).unwrap_or_default();
    vec![
        cell(parameter.name),
        if parameter.secret { format!("{kind} secret").trim_start().to_owned() } else { kind.to_owned() },
        if parameter.required { "yes" } else { "no" }.to_owned(),
        cell(&default),
        cell(about),
    ]
}

fn description(parameter: &Parameter<'_>) -> Value {
    let mut value =
        json!({"name": parameter.name, "required": parameter.required, "secret": parameter.secret});
    let default = parameter.value.map(|value| if parameter.secret { MASK } else { value });
    let fields = [
        ("displayName", parameter.display_name),
        ("description", parameter.description),
        ("type", parameter.kind.map(::template::ParameterType::as_str)),
        ("value", default),
        ("generate", parameter.generate),
        ("from", parameter.from),
    ];
    for (name, text) in fields {
        if let Some(text) = text {
            value[name] = json!(text);
        }
    }
    value
}
