//! The server's own certificate authority: one CA, a server certificate, client certificates; files of the owner only,
//! renewed when they come near their end, moved aside when damaged.

mod files;
mod kubeconfig;
mod token_key;

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};

use crate::identity::Identity;

pub use kubeconfig::{Kubeconfig, write_kubeconfig};
pub use token_key::TokenKey;

/// Life of the authority's own certificate.
const AUTHORITY_YEARS: i16 = 10;
/// Life of the certificates that it gives.
const LEAF_YEARS: i16 = 1;
/// A certificate is renewed when it lasts for less than this.
const RENEW_DAYS: i64 = 60;

/// Why certificates cannot be read or made.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file or directory.
    #[error("cannot keep certificates in {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A certificate or key cannot be made.
    #[error("cannot make the certificate for {subject}")]
    Certificate {
        /// For whom.
        subject: String,
        /// The cause.
        #[source]
        source: rcgen::Error,
    },
    /// A name that no certificate can carry.
    #[error("{name:?} is neither a DNS name nor an IP address; it cannot stand in the server's certificate")]
    Name {
        /// The name.
        name: String,
    },
}

/// A certificate with its key.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    certificate: String,
    key: String,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential")
    }
}

impl Credential {
    /// The certificate in PEM form.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate
    }

    /// The private key in PEM form.
    pub fn key_pem(&self) -> &str {
        &self.key
    }
}

/// The certificate authority of one data directory.
pub struct Authority {
    directory: PathBuf,
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
    replaced: Option<Replaced>,
}

/// An authority that could not be used any more: clients that trust it do not trust its successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Why.
    pub reason: ReplacedReason,
    /// Where its files are kept.
    pub kept: Vec<PathBuf>,
}

/// Why an authority was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplacedReason {
    /// Its files are damaged, or do not belong together.
    Damaged,
    /// One of its files is missing.
    Incomplete,
    /// It would end soon.
    Ends,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Authority {
    /// Opens the authority kept in `directory` (0700), or makes a new one there. One that cannot be used any more is moved
    /// aside; [`Self::replaced`] tells.
    ///
    /// # Errors
    /// See [`AuthorityError`].
    pub fn open(directory: &Path) -> Result<Authority, AuthorityError> {
        files::make_directory(directory)?;
        let reason = match files::read(directory, "ca")? {
            files::Kept::Nothing => None,
            files::Kept::Part => Some(ReplacedReason::Incomplete),
            files::Kept::NoText => Some(ReplacedReason::Damaged),
            files::Kept::Whole(credential) => match authority(&credential) {
                Err(reason) => Some(reason),
                Ok(issuer) => {
                    let (directory, certificate) = (directory.to_owned(), credential.certificate);
                    return Ok(Authority { directory, certificate, issuer, replaced: None });
                }
            },
        };
        let replaced = match reason {
            None => None,
            Some(reason) => Some(Replaced { reason, kept: files::move_aside(directory, "ca")? }),
        };
        let subject = "coracle-ca";
        let failed = |source| AuthorityError::Certificate { subject: subject.to_owned(), source };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = leaf_params(subject, &[], AUTHORITY_YEARS);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).map_err(failed)?.pem();
        let credential = Credential { certificate: certificate.clone(), key: key.serialize_pem() };
        files::write(directory, "ca", &credential)?;
        let (directory, issuer) = (directory.to_owned(), Issuer::new(params, key));
        Ok(Authority { directory, certificate, issuer, replaced })
    }

    /// The authority that this one was made in place of, when it was opened.
    pub fn replaced(&self) -> Option<&Replaced> {
        self.replaced.as_ref()
    }

    /// The authority's certificate in PEM form.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate
    }

    /// The key that tokens of service accounts are signed with; made when there is none.
    ///
    /// # Errors
    /// See [`AuthorityError`].
    pub fn token_key(&self) -> Result<TokenKey, AuthorityError> {
        TokenKey::open(&self.directory)
    }

    /// The server's certificate for `names` (DNS names and IP addresses), kept as `apiserver`; made anew when it lacks a name
    /// or ends soon.
    ///
    /// # Errors
    /// See [`AuthorityError`].
    pub fn server(&self, names: &[String]) -> Result<Credential, AuthorityError> {
        let mut wanted: Vec<String> = names.to_vec();
        wanted.sort();
        wanted.dedup();
        let kept = self.kept("apiserver")?.filter(|credential| {
            let mut present = files::names(&credential.certificate);
            present.sort();
            present == wanted
        });
        if let Some(credential) = kept {
            return Ok(credential);
        }
        let mut params = leaf_params("coracle-apiserver", &[], LEAF_YEARS);
        for name in &wanted {
            let san = match name.parse() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(
                    name.as_str().try_into().map_err(|_| AuthorityError::Name { name: name.clone() })?,
                ),
            };
            params.subject_alt_names.push(san);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue("apiserver", "coracle-apiserver", &params)
    }

    /// A client certificate that names `identity`, kept under `file`; made anew when it names somebody else or ends soon.
    ///
    /// # Errors
    /// See [`AuthorityError`].
    pub fn client(&self, file: &str, identity: &Identity) -> Result<Credential, AuthorityError> {
        let kept = self.kept(file)?.filter(|credential| {
            files::der(&credential.certificate).and_then(|der| Identity::from_certificate(&der)).as_ref()
                == Some(identity)
        });
        if let Some(credential) = kept {
            return Ok(credential);
        }
        let mut params = leaf_params(identity.name(), identity.groups(), LEAF_YEARS);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(file, identity.name(), &params)
    }

    /// A certificate of this authority that lasts long enough.
    fn kept(&self, file: &str) -> Result<Option<Credential>, AuthorityError> {
        let kept = match files::read(&self.directory, file)? {
            files::Kept::Whole(credential) => Some(credential),
            files::Kept::Nothing | files::Kept::Part | files::Kept::NoText => None,
        };
        Ok(kept.filter(|credential| {
            KeyPair::from_pem(&credential.key).is_ok()
                && files::days_left(&credential.certificate).is_some_and(|days| days > RENEW_DAYS)
                && files::is_signed_by(&credential.certificate, &self.certificate)
        }))
    }

    fn issue(
        &self,
        file: &str,
        subject: &str,
        params: &CertificateParams,
    ) -> Result<Credential, AuthorityError> {
        let failed = |source| AuthorityError::Certificate { subject: subject.to_owned(), source };
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?.pem();
        let credential = Credential { certificate, key: key.serialize_pem() };
        files::write(&self.directory, file, &credential)?;
        Ok(credential)
    }
}

/// The authority of these files, if it can sign for long enough.
fn authority(credential: &Credential) -> Result<Issuer<'static, KeyPair>, ReplacedReason> {
    let key = KeyPair::from_pem(&credential.key).map_err(|_| ReplacedReason::Damaged)?;
    if !files::holds_key(&credential.certificate, &key) {
        return Err(ReplacedReason::Damaged);
    }
    if files::days_left(&credential.certificate).is_none_or(|days| days <= RENEW_DAYS) {
        return Err(ReplacedReason::Ends);
    }
    Issuer::from_ca_cert_pem(&credential.certificate, key).map_err(|_| ReplacedReason::Damaged)
}

fn leaf_params(common_name: &str, organisations: &[String], years: i16) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    for organisation in organisations {
        subject.push(DnType::OrganizationName, organisation.as_str());
    }
    subject.push(DnType::CommonName, common_name);
    params.distinguished_name = subject;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    // Valid since yesterday: the clocks of clients may be behind.
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let first = today.yesterday().unwrap_or(today);
    let last =
        jiff::civil::date(today.year().saturating_add(years).min(9000), today.month(), today.day().min(28));
    params.not_before = rcgen::date_time_ymd(i32::from(first.year()), month(first), day(first));
    params.not_after = rcgen::date_time_ymd(i32::from(last.year()), month(last), day(last));
    params
}

fn month(date: jiff::civil::Date) -> u8 {
    date.month().unsigned_abs()
}

fn day(date: jiff::civil::Date) -> u8 {
    date.day().unsigned_abs()
}

#[cfg(test)]
mod tests;
