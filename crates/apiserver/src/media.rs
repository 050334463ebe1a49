//! Media types: what a client can read (`Accept`) and what it sent (`Content-Type`).

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

use crate::status::ApiError;

/// What an answer should look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The object or list itself.
    Object,
    /// A table of `meta.k8s.io`, in this version of the group.
    Table(MetaVersion),
    /// Metadata only.
    Metadata(MetaVersion),
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notation {
    Json,
    Yaml,
    Protobuf,
}

impl Notation {
    const ALL: [Notation; 3] = [Notation::Json, Notation::Yaml, Notation::Protobuf];

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Notation::Json => "application/json",
            Notation::Yaml => "application/yaml",
            Notation::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}

/// Every notation, for answers 406 and 415.
pub(crate) fn media_types() -> Vec<String> {
    Notation::ALL.map(|notation| notation.media_type().to_owned()).to_vec()
}

/// The notations of kinds that are not Kubernetes' own, for answers 406 and 415.
pub(crate) fn media_types_without_protobuf() -> Vec<String> {
    media_types().into_iter().filter(|own| own != Notation::Protobuf.media_type()).collect()
}

/// The version of `meta.k8s.io` that a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    V1,
    V1beta1,
}

impl MetaVersion {
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// One entry of an `Accept` header.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MediaRange {
    /// Lower case, without parameters.
    pub(crate) name: String,
    pub(crate) parameters: Vec<(String, String)>,
    quality: f32,
}

impl MediaRange {
    fn parse(text: &str) -> Option<MediaRange> {
        let mut parts = text.split(';').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty())?.to_ascii_lowercase();
        let mut range = MediaRange { name, parameters: Vec::new(), quality: 1.0 };
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim().trim_matches('"'));
            if key == "q" {
                range.quality = value.parse().unwrap_or(0.0);
            } else {
                range.parameters.push((key, value.to_owned()));
            }
        }
        Some(range)
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The notation that it takes; of several, the first that the server has.
    pub(crate) fn notation(&self) -> Option<Notation> {
        match self.name.as_str() {
            "application/*" | "*/*" | "text/json" => Some(Notation::Json),
            name => Notation::ALL.into_iter().find(|notation| notation.media_type() == name),
        }
    }

    /// Whether JSON satisfies it.
    pub(crate) fn takes_json(&self) -> bool {
        self.notation() == Some(Notation::Json)
    }

    /// The form that it asks for; `None`: one that the server does not have.
    fn format(&self) -> Option<Format> {
        let version = match (self.parameter("g"), self.parameter("v")) {
            (Some("meta.k8s.io"), Some("v1")) => Some(MetaVersion::V1),
            (Some("meta.k8s.io"), Some("v1beta1")) => Some(MetaVersion::V1beta1),
            _ => None,
        };
        match (self.parameter("as"), version) {
            (None, _) => Some(Format::Object),
            (Some("Table"), Some(version)) => Some(Format::Table(version)),
            (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), Some(version)) => {
                Some(Format::Metadata(version))
            }
            (Some(_), _) => None,
        }
    }
}

/// The entries of the `Accept` header, best first; nothing means anything.
pub(crate) fn accepted(headers: &HeaderMap) -> Vec<MediaRange> {
    let mut ranges: Vec<MediaRange> = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(MediaRange::parse)
        .filter(|range| range.quality > 0.0)
        .collect();
    if ranges.is_empty() && !headers.contains_key(ACCEPT) {
        ranges.extend(MediaRange::parse("*/*"));
    }
    ranges.sort_by(|left, right| right.quality.total_cmp(&left.quality));
    ranges
}

/// The form of an answer that holds objects.
pub(crate) fn object_format(headers: &HeaderMap) -> Result<Format, ApiError> {
    negotiate(headers, true).map(|(format, _)| format)
}

/// The form and the notation of an answer that holds objects; `travels` says whether they have a form in protobuf.
pub(crate) fn negotiate(headers: &HeaderMap, travels: bool) -> Result<(Format, Notation), ApiError> {
    let fits = |format: Format, notation: Notation| match (notation, format) {
        (Notation::Json | Notation::Yaml, _) | (Notation::Protobuf, Format::Metadata(_)) => true,
        // Upstream's tables have no form in protobuf either.
        (Notation::Protobuf, Format::Table(_)) => false,
        (Notation::Protobuf, Format::Object) => travels,
    };
    first(headers, fits).ok_or_else(|| ApiError::NotAcceptable {
        accepted: if travels { media_types() } else { media_types_without_protobuf() },
    })
}

/// The same for a watch, which YAML cannot carry.
pub(crate) fn negotiate_stream(headers: &HeaderMap, travels: bool) -> Result<(Format, Notation), ApiError> {
    let fits = |format: Format, notation: Notation| match (notation, format) {
        (Notation::Json, _) | (Notation::Protobuf, Format::Metadata(_)) => true,
        (Notation::Yaml, _) | (Notation::Protobuf, Format::Table(_)) => false,
        (Notation::Protobuf, Format::Object) => travels,
    };
    first(headers, fits).ok_or_else(|| ApiError::NotAcceptable {
        accepted: [Notation::Json, Notation::Protobuf]
            .into_iter()
            .filter(|notation| travels || *notation == Notation::Json)
            .map(|notation| format!("{};stream=watch", notation.media_type()))
            .collect(),
    })
}

fn first(headers: &HeaderMap, fits: impl Fn(Format, Notation) -> bool) -> Option<(Format, Notation)> {
    accepted(headers)
        .iter()
        .filter_map(|range| range.format().zip(range.notation()))
        .find(|(format, notation)| fits(*format, *notation))
}

/// The media type of a request body, lower case and without parameters; `None` when the client did not say.
pub(crate) fn content_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let name = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http::header::ACCEPT;

    use super::{Format, MetaVersion, Notation, negotiate, negotiate_stream};

    fn headers(accept: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(accept) = accept {
            headers.insert(ACCEPT, accept.parse().expect("a header"));
        }
        headers
    }

    #[test]
    fn the_first_form_and_notation_that_the_server_has_are_taken() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let protobuf_table = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io";
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
        let cases = [
            (None, Some((Format::Object, Notation::Json))),
            (Some("*/*"), Some((Format::Object, Notation::Json))),
            (Some("application/*;q=0.5, text/html"), Some((Format::Object, Notation::Json))),
            (Some("application/yaml"), Some((Format::Object, Notation::Yaml))),
            (Some(table), Some((Format::Table(MetaVersion::V1), Notation::Json))),
            (
                Some("application/vnd.kubernetes.protobuf,application/json"),
                Some((Format::Object, Notation::Protobuf)),
            ),
            (
                Some("application/vnd.kubernetes.protobuf;q=0.1, */*;q=0.5"),
                Some((Format::Object, Notation::Json)),
            ),
            (
                Some("Application/VND.kubernetes.protobuf;stream=watch"),
                Some((Format::Object, Notation::Protobuf)),
            ),
            (Some(metadata), Some((Format::Metadata(MetaVersion::V1), Notation::Protobuf))),
            (
                Some(
                    "application/json;q=0.5, application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                ),
                Some((Format::Metadata(MetaVersion::V1), Notation::Json)),
            ),
            (Some(protobuf_table), None),
            (Some("application/json;as=Nonsense;g=meta.k8s.io;v=v1"), None),
            (Some("application/json;as=Table;g=meta.k8s.io;v=v2"), None),
            (Some("application/cbor"), None),
            (Some("text/html"), None),
            (Some("application/json;q=0"), None),
        ];
        for (accept, want) in cases {
            assert_eq!(negotiate(&headers(accept), true).ok(), want, "{accept:?}");
        }
        let both = format!("{protobuf_table},{table}");
        assert_eq!(
            negotiate(&headers(Some(&both)), true).ok(),
            Some((Format::Table(MetaVersion::V1), Notation::Json))
        );
    }

    #[test]
    fn kinds_without_protobuf_are_json_or_refused_but_their_metadata_travels() {
        let protobuf = "application/vnd.kubernetes.protobuf";
        let metadata = format!("{protobuf};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1");
        let cases = [
            (format!("{protobuf},application/json"), Some((Format::Object, Notation::Json))),
            (protobuf.to_owned(), None),
            (metadata, Some((Format::Metadata(MetaVersion::V1beta1), Notation::Protobuf))),
        ];
        for (accept, want) in cases {
            assert_eq!(negotiate(&headers(Some(&accept)), false).ok(), want, "{accept}");
        }
        let error = negotiate(&headers(Some(protobuf)), false).expect_err("refused");
        assert!(error.to_string().ends_with("accepted: application/json, application/yaml"), "{error}");
    }

    #[test]
    fn a_watch_is_never_yaml() {
        let watch = |accept: &str| negotiate_stream(&headers(Some(accept)), true);
        assert_eq!(watch("application/yaml, */*").ok(), Some((Format::Object, Notation::Json)));
        assert_eq!(
            watch("application/vnd.kubernetes.protobuf;stream=watch").ok(),
            Some((Format::Object, Notation::Protobuf))
        );
        let error = watch("application/yaml").expect_err("refused").to_string();
        assert!(
            error
                .ends_with("application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"),
            "{error}"
        );
    }
}
