//! What people hand to a command: files or standard input with manifests, as objects that know where they stand.
//!
//! Several documents and `List` kinds are opened; nothing is checked beyond "this is an object with a kind".

use std::io::Read;
use std::path::Path;

use manifest::{Document, Limits, Mark, NodeValue, ParseError, Span};

/// A file, or standard input, as it was read.
pub(crate) struct InputFile {
    /// Its name, as the user wrote it; `-` is standard input.
    pub(crate) name: String,
    /// Its content.
    pub(crate) text: Vec<u8>,
}

/// One Kubernetes object of the input.
pub(crate) struct InputObject {
    /// Index of its file.
    pub(crate) file: usize,
    /// The object; its spans are those of the file.
    pub(crate) document: Document,
    /// `apiVersion`, or nothing.
    pub(crate) api_version: String,
    /// `kind`.
    pub(crate) kind: String,
    /// `metadata.name`, or `metadata.generateName` with a star.
    pub(crate) name: String,
    /// `metadata.namespace`, when it is written.
    pub(crate) namespace: Option<String>,
}

/// Everything that was read.
pub(crate) struct Input {
    /// The files, in the order of the command line.
    pub(crate) files: Vec<InputFile>,
    /// Their objects, in order.
    pub(crate) objects: Vec<InputObject>,
}

/// Why the input cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    /// The file cannot be read.
    #[error("{file}: cannot be read")]
    Unreadable {
        /// Its name.
        file: String,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// It is neither YAML nor JSON.
    #[error("{file}{}: {cause}", place(cause.mark()))]
    Malformed {
        /// Its name.
        file: String,
        /// What is wrong.
        cause: ParseError,
    },
    /// A document is no object with a kind.
    #[error("{file}{}: this is no Kubernetes object: it has no {missing}", place(Some(*mark)))]
    NotAnObject {
        /// Name of the file.
        file: String,
        /// Where the document begins.
        mark: Mark,
        /// What is not there.
        missing: &'static str,
    },
}

/// `:line:column`, or nothing.
fn place(mark: Option<Mark>) -> String {
    mark.map(|mark| format!(":{}:{}", mark.line, mark.column)).unwrap_or_default()
}

impl InputError {
    /// What to do about it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "check the path and its permissions; `-` reads standard input",
            Self::Malformed { .. } => {
                "mend the file there; indentation and unbalanced quotes or brackets are the usual causes"
            }
            Self::NotAnObject { .. } => "give each document apiVersion, kind and metadata",
        }
    }
}

/// How deep `List` kinds may lie in each other.
const LIST_DEPTH: usize = 8;

impl Input {
    /// Reads all files; `-` is standard input.
    ///
    /// # Errors
    ///
    /// The first file that cannot be read, or the first document that is no object.
    pub(crate) fn read<P: AsRef<Path>>(names: &[P]) -> Result<Self, InputError> {
        let mut input = Self { files: Vec::new(), objects: Vec::new() };
        for name in names {
            let shown = name.as_ref().display().to_string();
            let unreadable = |cause| InputError::Unreadable { file: shown.clone(), cause };
            let text = read_limited(name.as_ref(), Limits::default().bytes).map_err(unreadable)?;
            input.add(InputFile { name: shown, text })?;
        }
        Ok(input)
    }

    fn add(&mut self, file: InputFile) -> Result<(), InputError> {
        let malformed = |cause| InputError::Malformed { file: file.name.clone(), cause };
        let documents = manifest::parse_stream(&file.text, &Limits::default()).map_err(malformed)?;
        let index = self.files.len();
        for document in documents.into_iter().filter(|document| !document.root.is_null()) {
            add_objects(index, &file.name, document, LIST_DEPTH, &mut self.objects)?;
        }
        self.files.push(file);
        Ok(())
    }

    /// `file:line:column` of a field of this object, as near as the file comes to it.
    pub(crate) fn place(&self, object: &InputObject, field: &str) -> String {
        let mark = object.document.locate(field).span().start;
        format!("{}:{}:{}", self.files[object.file].name, mark.line, mark.column)
    }
}

/// Reads at most the limit and one byte more, so that what is too large is found out without reading all of it.
fn read_limited(name: &Path, limit: usize) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let most = limit as u64 + 1;
    if name.as_os_str() == "-" {
        std::io::stdin().lock().take(most).read_to_end(&mut text)?;
    } else {
        std::fs::File::open(name)?.take(most).read_to_end(&mut text)?;
    }
    Ok(text)
}

fn add_objects(
    file: usize,
    file_name: &str,
    document: Document,
    depth: usize,
    objects: &mut Vec<InputObject>,
) -> Result<(), InputError> {
    let missing = |span: Span, missing| InputError::NotAnObject {
        file: file_name.to_owned(),
        mark: span.start,
        missing,
    };
    let root = &document.root;
    let text = |name: &str| root.get(name).and_then(|node| node.as_str()).unwrap_or_default().to_owned();
    let kind = text("kind");
    if kind.is_empty() {
        return Err(missing(document.locate("").span(), "kind"));
    }
    let items = root.get("items").filter(|_| kind.ends_with("List")).map(|items| items.items().to_vec());
    if let (Some(items), true) = (items, depth > 0) {
        for item in items {
            let document = Document { root: item, notices: Vec::new() };
            add_objects(file, file_name, document, depth - 1, objects)?;
        }
        return Ok(());
    }
    let metadata = |name: &str| match root.get("metadata")?.get(name)?.value {
        NodeValue::String(ref text) => Some(text.clone()),
        NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Int(_)
        | NodeValue::Float(_)
        | NodeValue::List(_)
        | NodeValue::Map(_) => None,
    };
    let generated = || metadata("generateName").map(|prefix| format!("{prefix}*"));
    objects.push(InputObject {
        file,
        api_version: text("apiVersion"),
        kind,
        name: metadata("name").or_else(generated).unwrap_or_default(),
        namespace: metadata("namespace").filter(|namespace| !namespace.is_empty()),
        document,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Input, InputError> {
        let mut input = Input { files: Vec::new(), objects: Vec::new() };
        input.add(InputFile { name: "f.yaml".into(), text: text.into() })?;
        Ok(input)
    }

    #[test]
    fn lists_are_opened_and_objects_keep_their_place() {
        let text = "kind: List\nitems:\n- kind: Pod\n  metadata: {name: a, namespace: n}\n- kind: Service\n  metadata: {generateName: b-}\n---\n---\nkind: Secret\n";
        let input = read(text).unwrap();
        let seen =
            input.objects.iter().map(|each| (each.kind.as_str(), each.name.as_str())).collect::<Vec<_>>();
        assert_eq!(seen, [("Pod", "a"), ("Service", "b-*"), ("Secret", "")]);
        assert_eq!(input.place(&input.objects[0], "metadata.namespace"), "f.yaml:4:34");
    }

    #[test]
    fn a_document_without_kind_is_named_with_its_line() {
        let error = read("kind: Pod\n---\na: 1\n").err().unwrap();
        assert_eq!(error.to_string(), "f.yaml:3:1: this is no Kubernetes object: it has no kind");
    }
}
