//! Which signal asks a container to end, and how the protocol names it.

use cri::v1::Signal;

/// Names of ordinary signals and their numbers, in the protocol's order.
const NAMED: [(Signal, &str, i32); 33] = [
    (Signal::Sigabrt, "ABRT", libc::SIGABRT),
    (Signal::Sigalrm, "ALRM", libc::SIGALRM),
    (Signal::Sigbus, "BUS", libc::SIGBUS),
    (Signal::Sigchld, "CHLD", libc::SIGCHLD),
    (Signal::Sigcld, "CLD", libc::SIGCHLD),
    (Signal::Sigcont, "CONT", libc::SIGCONT),
    (Signal::Sigfpe, "FPE", libc::SIGFPE),
    (Signal::Sighup, "HUP", libc::SIGHUP),
    (Signal::Sigill, "ILL", libc::SIGILL),
    (Signal::Sigint, "INT", libc::SIGINT),
    (Signal::Sigio, "IO", libc::SIGIO),
    (Signal::Sigiot, "IOT", libc::SIGIOT),
    (Signal::Sigkill, "KILL", libc::SIGKILL),
    (Signal::Sigpipe, "PIPE", libc::SIGPIPE),
    (Signal::Sigpoll, "POLL", libc::SIGPOLL),
    (Signal::Sigprof, "PROF", libc::SIGPROF),
    (Signal::Sigpwr, "PWR", libc::SIGPWR),
    (Signal::Sigquit, "QUIT", libc::SIGQUIT),
    (Signal::Sigsegv, "SEGV", libc::SIGSEGV),
    (Signal::Sigstkflt, "STKFLT", libc::SIGSTKFLT),
    (Signal::Sigstop, "STOP", libc::SIGSTOP),
    (Signal::Sigsys, "SYS", libc::SIGSYS),
    (Signal::Sigterm, "TERM", libc::SIGTERM),
    (Signal::Sigtrap, "TRAP", libc::SIGTRAP),
    (Signal::Sigtstp, "TSTP", libc::SIGTSTP),
    (Signal::Sigttin, "TTIN", libc::SIGTTIN),
    (Signal::Sigttou, "TTOU", libc::SIGTTOU),
    (Signal::Sigurg, "URG", libc::SIGURG),
    (Signal::Sigusr1, "USR1", libc::SIGUSR1),
    (Signal::Sigusr2, "USR2", libc::SIGUSR2),
    (Signal::Sigvtalrm, "VTALRM", libc::SIGVTALRM),
    (Signal::Sigwinch, "WINCH", libc::SIGWINCH),
    (Signal::Sigxcpu, "XCPU", libc::SIGXCPU),
];

/// The protocol counts real-time signals from 35 (the first) to 65 (the last).
const FIRST_REAL_TIME: i32 = 35;

/// The number of the signal: the pod's, else the image's, else SIGTERM. A name that nobody knows counts as none.
pub(crate) fn stop_signal(asked: Signal, image: Option<&str>) -> i32 {
    if asked == Signal::Sigxfsz {
        return libc::SIGXFSZ;
    }
    if let Some((_, _, number)) = NAMED.iter().find(|(signal, ..)| *signal == asked) {
        return *number;
    }
    let real_time = i32::from(asked) - FIRST_REAL_TIME;
    if real_time >= 0 {
        return libc::SIGRTMIN() + real_time;
    }
    image.and_then(parse).unwrap_or(libc::SIGTERM)
}

/// A signal as images name it: `SIGTERM`, `TERM`, `15`, `SIGRTMIN+3`.
fn parse(text: &str) -> Option<i32> {
    let valid = |number: i32| Some(number).filter(|number| (1..=libc::SIGRTMAX()).contains(number));
    if let Ok(number) = text.parse() {
        return valid(number);
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some(offset) = name.strip_prefix("RTMIN") {
        let offset: i32 = if offset.is_empty() { 0 } else { offset.strip_prefix('+')?.parse().ok()? };
        return valid(libc::SIGRTMIN() + offset);
    }
    if let Some(offset) = name.strip_prefix("RTMAX") {
        let offset: i32 = if offset.is_empty() { 0 } else { offset.strip_prefix('-')?.parse().ok()? };
        return valid(libc::SIGRTMAX() - offset);
    }
    if name == "XFSZ" {
        return Some(libc::SIGXFSZ);
    }
    NAMED.iter().find(|(_, known, _)| *known == name).map(|(_, _, number)| *number)
}

/// The protocol's name of a number.
pub(crate) fn protocol_signal(number: i32) -> Signal {
    if number == libc::SIGXFSZ {
        return Signal::Sigxfsz;
    }
    if let Some((signal, ..)) = NAMED.iter().find(|(_, _, known)| *known == number) {
        return *signal;
    }
    Signal::try_from(number - libc::SIGRTMIN() + FIRST_REAL_TIME).unwrap_or(Signal::RuntimeDefault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pod_comes_before_the_image_and_the_image_before_sigterm() {
        assert_eq!(stop_signal(Signal::Sigusr1, Some("SIGINT")), libc::SIGUSR1);
        assert_eq!(stop_signal(Signal::RuntimeDefault, Some("SIGINT")), libc::SIGINT);
        assert_eq!(stop_signal(Signal::RuntimeDefault, Some("SIGWRONG")), libc::SIGTERM);
        assert_eq!(stop_signal(Signal::RuntimeDefault, None), libc::SIGTERM);
        assert_eq!(stop_signal(Signal::Sigrtminplus3, None), libc::SIGRTMIN() + 3);
        assert_eq!(stop_signal(Signal::Sigrtmax, None), libc::SIGRTMAX());
    }

    #[test]
    fn images_name_signals_in_many_ways() {
        for (text, number) in [
            ("15", Some(15)),
            ("term", Some(15)),
            ("SIGRTMIN+3", Some(libc::SIGRTMIN() + 3)),
            ("RTMAX-1", Some(libc::SIGRTMAX() - 1)),
            ("0", None),
            ("65", None),
            ("-9", None),
            ("SIGRTMIN+99", None),
            ("", None),
        ] {
            assert_eq!(parse(text), number, "{text}");
        }
    }

    #[test]
    fn numbers_come_back_as_names() {
        assert_eq!(protocol_signal(15), Signal::Sigterm);
        assert_eq!(protocol_signal(libc::SIGRTMIN() + 3), Signal::Sigrtminplus3);
        assert_eq!(protocol_signal(6), Signal::Sigabrt);
    }
}
