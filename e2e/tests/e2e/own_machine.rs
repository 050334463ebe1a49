//! A network of a test's own, like that of a machine with one way out: nodes of other tests, which share the machine, serve
//! neither its processes nor pods in its network.

use std::process::Command;

use nix::sched::{CloneFlags, unshare};

/// Nobody answers at its gateway.
const LINKS: &str = "ip link set lo up && ip link add up0 type veth peer name gate && ip link set up0 up && ip link set gate up && \
                     ip addr add 192.0.2.2/24 dev up0 && ip route add default via 192.0.2.1";

/// Runs it in such a network; whatever it starts is there too.
pub(crate) fn on_a_machine_of_its_own(body: impl FnOnce() + Send + 'static) {
    let there = move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network of its own");
        let made = e2e::finish(Command::new("sh").args(["-c", LINKS]), "");
        assert_eq!(made.status, 0, "{}", made.all());
        body();
    };
    if let Err(panic) = std::thread::spawn(there).join() {
        std::panic::resume_unwind(panic);
    }
}
