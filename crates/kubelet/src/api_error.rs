//! An error of the API client in one short line: what the server said, or why it was not reached; never the whole answer.

use std::error::Error as _;
use std::fmt;

/// Shows an error in one line.
#[derive(Debug)]
pub(crate) struct Brief<'e>(pub(crate) &'e kube::Error);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            kube::Error::Api(status) if !status.message.is_empty() => formatter.write_str(&status.message),
            kube::Error::Api(status) => write!(formatter, "the server answered {}", status.code),
            other => {
                let mut text = other.to_string();
                let mut cause = other.source();
                while let Some(error) = cause {
                    let more = error.to_string();
                    // Some errors repeat their cause in their own text.
                    if !text.contains(&more) {
                        text = format!("{text}: {more}");
                    }
                    cause = error.source();
                }
                formatter.write_str(&text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Brief;

    #[test]
    fn a_refusal_of_the_api_is_one_line_and_not_the_whole_answer() {
        let status =
            kube::core::Status { message: "Node \"n\" is invalid".into(), code: 422, ..Default::default() };
        let error = kube::Error::Api(Box::new(status));
        assert_eq!(Brief(&error).to_string(), "Node \"n\" is invalid");
    }
}
