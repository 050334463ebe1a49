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

    /// Whether JSON satisfies it. YAML does not differ: every JSON text is YAML.
    pub(crate) fn takes_json(&self) -> bool {
        matches!(
            self.name.as_str(),
            "application/json" | "application/yaml" | "application/*" | "*/*" | "text/json"
        )
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
    for range in accepted(headers).iter().filter(|range| range.takes_json()) {
        let version = match (range.parameter("g"), range.parameter("v")) {
            (Some("meta.k8s.io"), Some("v1")) => Some(MetaVersion::V1),
            (Some("meta.k8s.io"), Some("v1beta1")) => Some(MetaVersion::V1beta1),
            _ => None,
        };
        match (range.parameter("as"), version) {
            (None, _) => return Ok(Format::Object),
            (Some("Table"), Some(version)) => return Ok(Format::Table(version)),
            (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), Some(version)) => {
                return Ok(Format::Metadata(version));
            }
            (Some(_), _) => {}
        }
    }
    Err(ApiError::NotAcceptable {
        accepted: vec!["application/json".to_owned(), "application/yaml".to_owned()],
    })
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

    use super::{Format, MetaVersion, object_format};

    fn format(accept: Option<&str>) -> Option<Format> {
        let mut headers = HeaderMap::new();
        if let Some(accept) = accept {
            headers.insert(ACCEPT, accept.parse().expect("a header"));
        }
        object_format(&headers).ok()
    }

    #[test]
    fn the_first_form_that_the_server_has_is_taken() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(format(Some(table)), Some(Format::Table(MetaVersion::V1)));
        assert_eq!(
            format(Some("application/vnd.kubernetes.protobuf,application/json")),
            Some(Format::Object)
        );
        assert_eq!(format(Some("application/vnd.kubernetes.protobuf, */*;q=0.1")), Some(Format::Object));
        assert_eq!(format(None), Some(Format::Object));
        assert_eq!(
            format(Some(
                "application/json;q=0.5, application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
            )),
            Some(Format::Metadata(MetaVersion::V1))
        );
        assert_eq!(format(Some("application/json;as=Nonsense;g=meta.k8s.io;v=v1")), None);
        assert_eq!(format(Some("application/vnd.kubernetes.protobuf")), None);
        assert_eq!(format(Some("text/html")), None);
    }
}
