//! `coracle template lint`: what is wrong with templates, before anybody processes them.

use std::path::PathBuf;

use ::template::{Request, Template};
use environment::Severity;

use super::Ended;
use super::arguments::DialectName;
use super::report::Reporter;
use super::source::is_template;
use crate::failure::{Failure, INPUT};
use crate::input::Input;
use crate::standard_output;

/// Arguments of `coracle template lint`.
#[derive(clap::Args)]
#[command(after_help = "\
Exit status: 0; 1 with --strict, when there is a finding of warning level; 2 when a template could never be processed.")]
pub(super) struct LintArgs {
    /// Files with templates; `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present = "more")]
    files: Vec<PathBuf>,
    /// The same, as a flag.
    #[arg(short = 'f', long = "filename", visible_alias = "file", value_name = "FILE", id = "more")]
    more: Vec<PathBuf>,
    /// End with status 1 if there is a finding of warning level or above.
    #[arg(long)]
    strict: bool,
    /// The language of the templates' references [default: as their apiVersion says].
    #[arg(long, value_enum, value_name = "DIALECT")]
    dialect: Option<DialectName>,
}

/// Runs the command.
pub(super) fn run(args: &LintArgs) -> Ended {
    let files: Vec<&PathBuf> = args.files.iter().chain(&args.more).collect();
    let input = Input::read(&files).map_err(|error| Failure::new(INPUT, &error).hint(error.hint()))?;
    let templates: Vec<_> = input.objects.iter().filter(|object| is_template(object)).collect();
    if templates.is_empty() {
        return Err(Failure::text(INPUT, "there is no template in the input")
            .place(input.files.first().map(|file| file.name.clone()).unwrap_or_default())
            .hint("a template has kind Template and apiVersion template.coracle.dev/v1, template.openshift.io/v1 or v1"));
    }
    let (mut errors, mut warnings) = (0, 0);
    for object in &templates {
        let reporter = Reporter::new(&input, object);
        let checked = ::template::check_keys(&object.document.root, &object.document.notices)
            .and_then(|()| Template::read(&object.document.root, args.dialect.map(Into::into)))
            .and_then(|template| ::template::check(&template, &Request::default()));
        let findings = match checked {
            Ok(findings) => findings,
            Err(refusal) => {
                errors += refusal.problems.len() + refusal.left_out;
                let _ = reporter.refusal(&refusal);
                refusal.findings
            }
        };
        reporter.findings(&findings, Severity::Info);
        warnings += findings.iter().filter(|finding| finding.severity() >= Severity::Warning).count();
    }
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    standard_output::line(format_args!(
        "{}: {}, {}",
        plural(templates.len(), "template"),
        plural(errors, "error"),
        plural(warnings, "warning")
    ))?;
    Ok(match (errors, warnings) {
        (1.., _) => INPUT,
        (0, 1..) if args.strict => 1,
        (0, _) => 0,
    })
}
