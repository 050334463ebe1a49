//! Tokens: each stands for one request, once, for a short time.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rand::Rng as _;
use tokio::time::Instant;

use super::StreamRequest;

/// More URLs are waiting to be used than the server keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{limit} streams were asked for and not used yet; try again in a minute")]
pub(crate) struct TooManyTokens {
    pub(crate) limit: usize,
}

/// A secret: whoever has it has the stream.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Token(String);

impl Token {
    fn random() -> Self {
        let bytes: [u8; 16] = {
            let mut bytes = [0; 16];
            rand::rng().fill_bytes(&mut bytes);
            bytes
        };
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The text that stands in the URL.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token")
    }
}

impl From<&str> for Token {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// The tokens that are good now. Time comes from outside and never goes back.
#[derive(Debug)]
pub(super) struct Tokens {
    lifetime: Duration,
    limit: usize,
    waiting: BTreeMap<Token, (Instant, StreamRequest)>,
}

impl Tokens {
    pub(super) fn new(lifetime: Duration, limit: usize) -> Self {
        Self { lifetime, limit, waiting: BTreeMap::new() }
    }

    fn drop_old(&mut self, now: Instant) {
        let lifetime = self.lifetime;
        self.waiting.retain(|_, (issued, _)| now.duration_since(*issued) < lifetime);
    }

    pub(super) fn issue(&mut self, request: StreamRequest, now: Instant) -> Result<Token, TooManyTokens> {
        self.drop_old(now);
        if self.waiting.len() >= self.limit {
            return Err(TooManyTokens { limit: self.limit });
        }
        let token = Token::random();
        self.waiting.insert(token.clone(), (now, request));
        Ok(token)
    }

    /// Takes the request of a good token, which is then good no more.
    pub(super) fn redeem(&mut self, token: &Token, now: Instant) -> Option<StreamRequest> {
        self.drop_old(now);
        self.waiting.remove(token).map(|(_, request)| request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(ports: &[u16]) -> StreamRequest {
        StreamRequest::PortForward { sandbox: "pod".into(), ports: ports.to_vec() }
    }

    #[test]
    fn a_token_is_good_once() {
        let (now, mut tokens) = (Instant::now(), Tokens::new(Duration::from_secs(60), 10));
        let token = tokens.issue(request(&[80]), now).expect("room");
        assert_eq!(token.reveal().len(), 32);
        assert_eq!(tokens.redeem(&"guess".into(), now), None);
        assert_eq!(tokens.redeem(&token, now), Some(request(&[80])));
        assert_eq!(tokens.redeem(&token, now), None);
    }

    #[test]
    fn a_token_is_good_for_its_time() {
        let (now, mut tokens) = (Instant::now(), Tokens::new(Duration::from_secs(60), 10));
        let token = tokens.issue(request(&[80]), now).expect("room");
        assert_eq!(tokens.redeem(&token, now + Duration::from_secs(60)), None);
    }

    #[test]
    fn unused_tokens_have_a_limit_and_old_ones_make_room() {
        let (now, mut tokens) = (Instant::now(), Tokens::new(Duration::from_secs(60), 2));
        for _ in 0..2 {
            tokens.issue(request(&[]), now).expect("room");
        }
        assert_eq!(tokens.issue(request(&[]), now), Err(TooManyTokens { limit: 2 }));
        assert!(tokens.issue(request(&[]), now + Duration::from_secs(61)).is_ok());
    }

    #[test]
    fn a_token_does_not_show_in_debug_output() {
        let mut tokens = Tokens::new(Duration::from_secs(60), 2);
        let token = tokens.issue(request(&[]), Instant::now()).expect("room");
        assert!(!format!("{token:?} {tokens:?}").contains(token.reveal()));
    }
}
