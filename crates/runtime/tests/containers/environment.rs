//! What a process sees of its environment.

use crate::harness::Test;
use crate::node::{Node, program, script, texts, variables};

pub(crate) const TESTS: [Test; 1] =
    [("variables arrive in order, each once, odd names intact", || Box::pin(order_and_odd_names()))];

async fn order_and_odd_names() {
    let mut node = Node::start().await;
    let mut config = program(&["/usr/bin/env"]);
    config.envs = variables(&[
        ("B", "1"),
        ("A", "2"),
        ("Logging:LogLevel:Default", "Debug"),
        ("B", "3"),
        ("EMPTY", ""),
        ("WITH=EQUALS", "x"),
    ]);
    config.envs.pop();
    config.envs.push(variables(&[("SPACES", "a  b = c")]).remove(0));
    let (status, log) = node.run(config).await;
    assert_eq!(status.exit_code, 0, "{log:?}");
    let seen = texts(&log);
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert_eq!(
        seen,
        [
            &format!("HOSTNAME={hostname}"),
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "A=2",
            "Logging:LogLevel:Default=Debug",
            "B=3",
            "EMPTY=",
            "SPACES=a  b = c",
            "HOME=/root",
        ]
    );
    let (status, log) = node.run(script("echo out; echo err >&2; exit 3")).await;
    assert_eq!(status.exit_code, 3, "{log:?}");
    node.end().await;
}
