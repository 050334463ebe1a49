//! What people hand to a command: files or standard input with manifests, as objects that know where they stand.
//!
//! Several documents and `List` kinds are opened; nothing is checked beyond "this is an object with a kind".

use std::io::{ErrorKind, Read};
use std::path::Path;

use manifest::{Document, Entry, Limits, Mark, Node, NodeValue, Notice, ParseError, Span};

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
    /// What was accepted outside of all objects, such as a list that has `items` twice; with the file's index.
    pub(crate) notices: Vec<(usize, Notice)>,
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
    pub(crate) fn hint(&self) -> String {
        let hint = match self {
            Self::Unreadable { cause, .. } => match cause.kind() {
                ErrorKind::NotFound => "there is no such file: check the path; `-` reads standard input",
                ErrorKind::PermissionDenied => {
                    "give yourself permission to read it, or pipe it in: `-` reads standard input"
                }
                ErrorKind::IsADirectory => {
                    "name the files in it, such as DIRECTORY/*.yaml; directories are not searched"
                }
                _ => "check the path and its permissions; `-` reads standard input",
            },
            Self::Malformed { cause, .. } => return cause.hint(),
            Self::NotAnObject { .. } => {
                "give each document apiVersion, kind and metadata; a file of values is no manifest"
            }
        };
        hint.to_owned()
    }
}

impl InputObject {
    fn new(file: usize, document: Document) -> Self {
        let root = &document.root;
        let metadata = |name: &str| root.get("metadata")?.get(name)?.as_str().map(str::to_owned);
        let generated = || metadata("generateName").map(|prefix| format!("{prefix}*"));
        Self {
            file,
            api_version: text(root, "apiVersion"),
            kind: text(root, "kind"),
            name: metadata("name").or_else(generated).unwrap_or_default(),
            namespace: metadata("namespace").filter(|namespace| !namespace.is_empty()),
            document,
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
        let mut input = Self { files: Vec::new(), objects: Vec::new(), notices: Vec::new() };
        for name in names {
            let shown = name.as_ref().display().to_string();
            let unreadable = |cause| InputError::Unreadable { file: shown.clone(), cause };
            let text = read_limited(name.as_ref(), Limits::default().bytes).map_err(unreadable)?;
            input.add(InputFile { name: shown, text })?;
        }
        Ok(input)
    }

    /// Reads text that a command has from somewhere else.
    ///
    /// # Errors
    ///
    /// As [`Input::read`].
    pub(crate) fn of_text(name: &str, text: Vec<u8>) -> Result<Self, InputError> {
        let mut input = Self { files: Vec::new(), objects: Vec::new(), notices: Vec::new() };
        input.add(InputFile { name: name.to_owned(), text })?;
        Ok(input)
    }

    /// Puts objects at the place of another one, in whose file their values stand.
    pub(crate) fn replace(&mut self, index: usize, objects: Vec<Node>) {
        let file = self.objects[index].file;
        let objects =
            objects.into_iter().map(|root| InputObject::new(file, Document { root, notices: Vec::new() }));
        self.objects.splice(index..=index, objects);
    }

    fn add(&mut self, file: InputFile) -> Result<(), InputError> {
        let malformed = |cause| InputError::Malformed { file: file.name.clone(), cause };
        let documents = manifest::parse_stream(&file.text, &Limits::default()).map_err(malformed)?;
        let index = self.files.len();
        for document in documents.into_iter().filter(|document| !document.root.is_null()) {
            let reader = ListReader { file: index, name: &file.name, input: self };
            reader.add(document, LIST_DEPTH)?;
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

/// Puts the objects of one file's documents into the input.
struct ListReader<'r> {
    file: usize,
    name: &'r str,
    input: &'r mut Input,
}

impl ListReader<'_> {
    fn add(mut self, document: Document, depth: usize) -> Result<(), InputError> {
        self.add_objects(document, depth)
    }

    fn add_objects(&mut self, document: Document, depth: usize) -> Result<(), InputError> {
        let missing = |span: Span, missing| InputError::NotAnObject {
            file: self.name.to_owned(),
            mark: span.start,
            missing,
        };
        let kind = text(&document.root, "kind");
        if kind.is_empty() {
            return Err(missing(document.locate("").span(), "kind"));
        }
        let api_version = text(&document.root, "apiVersion");
        let is_list = kind.ends_with("List")
            && matches!(list_items(&document.root), Some(NodeValue::List(_) | NodeValue::Null));
        if is_list && depth > 0 {
            return self.add_items(document, &kind, &api_version, depth);
        }
        self.input.objects.push(InputObject::new(self.file, document));
        Ok(())
    }

    /// Opens a list. Each item gets what was noticed in it, and, as from kubectl, the list's type if it names none.
    fn add_items(
        &mut self,
        list: Document,
        kind: &str,
        api_version: &str,
        depth: usize,
    ) -> Result<(), InputError> {
        let mut notices = list.notices;
        let NodeValue::Map(entries) = list.root.value else { return Ok(()) };
        let items = entries.into_iter().find(|entry| entry.key == "items").map(|entry| entry.value.value);
        let Some(NodeValue::List(items)) = items else { return Ok(()) };
        let item_kind = kind.strip_suffix("List").filter(|kind| !kind.is_empty());
        for mut item in items {
            if let Some(item_kind) = item_kind
                && (text(&item, "kind").is_empty() || text(&item, "apiVersion").is_empty())
            {
                set(&mut item, "kind", item_kind);
                set(&mut item, "apiVersion", api_version);
            }
            let range = item.span.range();
            let is_inside = |notice: &Notice| {
                let Notice::DuplicateKey { again, .. } = notice;
                range.contains(&(again.start.offset as usize))
            };
            let own = notices.extract_if(.., |notice| is_inside(notice)).collect();
            self.add_objects(Document { root: item, notices: own }, depth - 1)?;
        }
        self.input.notices.extend(notices.into_iter().map(|notice| (self.file, notice)));
        Ok(())
    }
}

/// The text of a field; empty when it has none.
fn text(node: &Node, name: &str) -> String {
    node.get(name).and_then(Node::as_str).unwrap_or_default().to_owned()
}

fn list_items(list: &Node) -> Option<&NodeValue> {
    list.get("items").map(|items| &items.value)
}

/// Sets a field of a map that does not have it in the file: it stands where the map begins.
fn set(node: &mut Node, name: &str, value: &str) {
    let span = Span { start: node.span.start, end: node.span.start.offset };
    let value = Node { value: NodeValue::String(value.to_owned()), span };
    if let NodeValue::Map(entries) = &mut node.value {
        match entries.iter_mut().find(|entry| entry.key == name) {
            Some(entry) => entry.value = value,
            None => entries.push(Entry { key: name.to_owned(), key_span: span, value }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Input, InputError> {
        let mut input = Input { files: Vec::new(), objects: Vec::new(), notices: Vec::new() };
        input.add(InputFile { name: "f.yaml".into(), text: text.into() })?;
        Ok(input)
    }

    #[test]
    fn lists_are_opened_and_objects_keep_their_place() {
        let text = "apiVersion: v1\nkind: List\nitems:\n- kind: Pod\n  apiVersion: v1\n  metadata: {name: a, namespace: n}\n- kind: Service\n  apiVersion: v1\n  metadata: {generateName: b-}\n---\n---\nkind: Secret\napiVersion: v1\n";
        let input = read(text).unwrap();
        let seen =
            input.objects.iter().map(|each| (each.kind.as_str(), each.name.as_str())).collect::<Vec<_>>();
        assert_eq!(seen, [("Pod", "a"), ("Service", "b-*"), ("Secret", "")]);
        assert_eq!(input.place(&input.objects[0], "metadata.namespace"), "f.yaml:6:34");
    }

    #[test]
    fn items_of_a_typed_list_need_no_kind() {
        let text = "apiVersion: apps/v1\nkind: DeploymentList\nitems:\n- metadata: {name: a}\n- {apiVersion: apps/v1beta1, kind: Deployment, metadata: {name: b}}\n";
        let input = read(text).unwrap();
        let seen: Vec<_> = input
            .objects
            .iter()
            .map(|each| (each.api_version.as_str(), each.kind.as_str(), each.name.as_str()))
            .collect();
        assert_eq!(seen, [("apps/v1", "Deployment", "a"), ("apps/v1beta1", "Deployment", "b")]);
        let json = input.objects[0].document.root.to_json();
        assert_eq!(json["kind"], "Deployment", "what is sent to an API server says so too");
        assert_eq!(input.place(&input.objects[0], "kind"), "f.yaml:4:3");
        let error = read("apiVersion: v1\nkind: List\nitems:\n- metadata: {name: a}\n").err().unwrap();
        assert_eq!(error.to_string(), "f.yaml:4:3: this is no Kubernetes object: it has no kind");
    }

    #[test]
    fn a_key_that_stands_twice_in_an_item_is_known_of_that_item() {
        let text = "apiVersion: v1\nkind: List\nitems: []\nitems:\n- {apiVersion: v1, kind: Pod}\n- apiVersion: v1\n  kind: Secret\n  data: {}\n  data: {}\n";
        let input = read(text).unwrap();
        let counts: Vec<usize> = input.objects.iter().map(|each| each.document.notices.len()).collect();
        assert_eq!((counts, input.notices.len()), (vec![0, 1], 1));
    }

    #[test]
    fn a_document_that_is_no_object_is_named_with_its_line() {
        let error = read("apiVersion: v1\nkind: Pod\n---\na: 1\n").err().unwrap();
        assert_eq!(error.to_string(), "f.yaml:4:1: this is no Kubernetes object: it has no kind");
        assert!(error.hint().contains("a file of values is no manifest"), "{}", error.hint());
    }

    #[test]
    fn each_file_that_cannot_be_read_has_its_own_hint() {
        let directory = tempfile::tempdir().expect("a directory");
        let hint = |path: &Path| Input::read(&[path]).err().expect("unreadable").hint();
        assert!(hint(&directory.path().join("none.yaml")).contains("no such file"));
        assert!(hint(directory.path()).contains("directories are not searched"));
        let file = directory.path().join("tab.yaml");
        std::fs::write(&file, "a:\n\tb: 1\n").expect("a file");
        assert!(hint(&file).contains("YAML takes no tabs"));
    }
}
