//! The authority's files, and what their certificates say.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::{AuthorityError, Credential};

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> AuthorityError {
    let path = path.to_owned();
    move |source| AuthorityError::File { path, source }
}

pub(super) fn make_directory(directory: &Path) -> Result<(), AuthorityError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(file_error(directory))
}

fn paths(directory: &Path, name: &str) -> (PathBuf, PathBuf) {
    (directory.join(format!("{name}.crt")), directory.join(format!("{name}.key")))
}

/// What there is of a certificate and its key.
pub(super) enum Kept {
    /// Neither file.
    Nothing,
    /// One of the two files.
    Part,
    /// Both, and one of them is not text.
    NoText,
    /// Both.
    Whole(Credential),
}

/// Reads both files.
pub(super) fn read(directory: &Path, name: &str) -> Result<Kept, AuthorityError> {
    let (certificate, key) = paths(directory, name);
    Ok(match (read_bytes(&certificate)?, read_bytes(&key)?) {
        (None, None) => Kept::Nothing,
        (Some(_), None) | (None, Some(_)) => Kept::Part,
        (Some(certificate), Some(key)) => match (String::from_utf8(certificate), String::from_utf8(key)) {
            (Ok(certificate), Ok(key)) => Kept::Whole(Credential { certificate, key }),
            (_, Err(_)) | (Err(_), _) => Kept::NoText,
        },
    })
}

fn read_bytes(path: &Path) -> Result<Option<Vec<u8>>, AuthorityError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_error(path)(error)),
    }
}

/// Writes both files, the key first, each whole or not at all.
pub(super) fn write(directory: &Path, name: &str, credential: &Credential) -> Result<(), AuthorityError> {
    let (certificate, key) = paths(directory, name);
    write_private(&key, credential.key.as_bytes()).map_err(file_error(&key))?;
    write_private(&certificate, credential.certificate.as_bytes()).map_err(file_error(&certificate))
}

/// Replaces a file that only its owner may read. Not synced: what a power cut damages is noticed and made anew at the next
/// start, and a start should not wait for the disk.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let new = PathBuf::from(name);
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    fs::rename(&new, path)
}

/// Keeps damaged or ending files under another name; answers which.
pub(super) fn move_aside(directory: &Path, name: &str) -> Result<Vec<PathBuf>, AuthorityError> {
    let stamp = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let (certificate, key) = paths(directory, name);
    let mut kept = Vec::new();
    for path in [certificate, key] {
        // Two in one second do not replace each other.
        let aside = (0_u32..)
            .map(|number| {
                let mut aside = path.as_os_str().to_owned();
                aside.push(if number == 0 {
                    format!(".old-{stamp}")
                } else {
                    format!(".old-{stamp}-{number}")
                });
                PathBuf::from(aside)
            })
            .find(|aside| !aside.exists())
            .expect("there are more numbers than files");
        match fs::rename(&path, &aside) {
            Ok(()) => kept.push(aside),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(file_error(&path)(error)),
        }
    }
    Ok(kept)
}

/// Whether a certificate is about this key.
pub(super) fn holds_key(pem: &str, key: &rcgen::KeyPair) -> bool {
    let Some(der) = der(pem) else { return false };
    let Ok((_, certificate)) = X509Certificate::from_der(&der) else { return false };
    certificate.public_key().raw == rcgen::PublicKeyData::subject_public_key_info(key)
}

pub(super) fn der(pem: &str) -> Option<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem.as_bytes()).ok()
}

/// Days until a certificate ends; negative afterwards.
pub(super) fn days_left(pem: &str) -> Option<i64> {
    let der = der(pem)?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    let left = certificate.validity().not_after.timestamp() - jiff::Timestamp::now().as_second();
    Some(left / 86_400)
}

/// The DNS names and addresses of a server certificate.
pub(super) fn names(pem: &str) -> Vec<String> {
    let Some(der) = der(pem) else { return Vec::new() };
    let Ok((_, certificate)) = X509Certificate::from_der(&der) else { return Vec::new() };
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return Vec::new() };
    let address = |bytes: &[u8]| -> Option<std::net::IpAddr> {
        match bytes.len() {
            4 => <[u8; 4]>::try_from(bytes).ok().map(Into::into),
            16 => <[u8; 16]>::try_from(bytes).ok().map(Into::into),
            _ => None,
        }
    };
    extension
        .value
        .general_names
        .iter()
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
            _ => None,
        })
        .collect()
}

/// Whether a certificate names the authority as its issuer, key included.
pub(super) fn is_signed_by(pem: &str, authority_pem: &str) -> bool {
    let (Some(der), Some(authority_der)) = (der(pem), der(authority_pem)) else { return false };
    let (Ok((_, certificate)), Ok((_, authority))) =
        (X509Certificate::from_der(&der), X509Certificate::from_der(&authority_der))
    else {
        return false;
    };
    let issuer_key = certificate.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        x509_parser::extensions::ParsedExtension::AuthorityKeyIdentifier(found) => {
            found.key_identifier.as_ref().map(|key| key.0.to_vec())
        }
        _ => None,
    });
    let authority_key =
        authority.iter_extensions().find_map(|extension| match extension.parsed_extension() {
            x509_parser::extensions::ParsedExtension::SubjectKeyIdentifier(found) => Some(found.0.to_vec()),
            _ => None,
        });
    certificate.issuer() == authority.subject() && issuer_key.is_some() && issuer_key == authority_key
}
