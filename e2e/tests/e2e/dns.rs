//! Names: services, the pods behind them and the world, as programs in a pod find them.

use std::net::UdpSocket;
use std::process::Command;

use e2e::{Node, Place, binary, finish, privileged};
use nix::sched::{CloneFlags, unshare};

const CLUSTER: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.43.7.7, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: out, namespace: shop}
spec: {type: ExternalName, externalName: www.outside.example}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: None, selector: {app: db}, ports: [{name: db, port: 9}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db-0, namespace: shop, labels: {app: db}}
spec:
  restartPolicy: Never
  hostname: db-0
  subdomain: db
  containers:
  - {name: db, image: coracle.dev/host, command: [/bin/sh, -c, "busybox nc -l -p 9"]}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: shop}
spec:
  restartPolicy: Never
  containers:
  - name: client
    image: coracle.dev/host
    command:
    - /bin/sh
    - -c
    - |
      cat /etc/resolv.conf
      for name in web web.shop web.shop.svc web.shop.svc.cluster.local; do
        getent ahostsv4 $name | awk '/STREAM/ {print $1}'
      done
      busybox nslookup web.shop.svc.cluster.local | awk '/^Address: / {print $2}'
      getent hosts 10.43.7.7 | awk '{print $2}'
      getent ahostsv4 kube-dns.kube-system | awk '/STREAM/ {print $1}'
      getent ahostsv4 nothing.shop.svc.cluster.local. || echo no nothing
      getent ahostsv4 www.outside.example | awk '/STREAM/ {print $1}'
      getent ahostsv4 out | awk '/STREAM/ {print $1}'
      until getent hosts db-0.db > /dev/null; do :; done
      test "$(getent ahostsv4 db | awk '/STREAM/ {print $1}')" = "$(getent ahostsv4 db-0.db.shop | awk '/STREAM/ {print $1}')" && echo one endpoint
      until echo | busybox nc db-0.db 9; do :; done
"#;

/// A machine of its own whose resolver knows that everything outside is at 192.0.2.80; runs the manifest there.
fn run_with_resolver(place: &Place, manifest: &str) -> e2e::Said {
    let conf = place.file("resolv.conf", "nameserver 127.0.0.5\n");
    let data = place.data();
    let manifest = manifest.to_owned();
    let body = move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network of its own");
        let up = finish(Command::new("busybox").args(["ip", "link", "set", "lo", "up"]), "");
        assert_eq!(up.status, 0, "{}", up.all());
        let resolver = UdpSocket::bind("127.0.0.5:53").expect("bound");
        std::thread::spawn(move || {
            let mut buffer = [0; 512];
            while let Ok((length, from)) = resolver.recv_from(&mut buffer) {
                let _ = resolver.send_to(&outside(&buffer[..length]), from);
            }
        });
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\""]);
        command.arg(conf).arg(binary()).args(["run", "-", "--quiet", "--data-dir"]).arg(data);
        finish(command.env_remove("KUBECONFIG").env("NO_COLOR", "1"), &manifest)
    };
    std::thread::spawn(body).join().expect("no panic")
}

/// The answer of that resolver: an address for whoever asks for one.
fn outside(question: &[u8]) -> Vec<u8> {
    let mut answer = question.to_vec();
    let Some(end) = answer.get(12..).and_then(|name| name.iter().position(|byte| *byte == 0)) else {
        return answer;
    };
    let end = 12 + end + 5;
    let wants_address = answer.get(end - 4..end - 2) == Some(&[0, 1]);
    answer.truncate(end);
    answer[2] = 0x81;
    answer[3] = 0x80;
    answer[6..12].copy_from_slice(&[0, u8::from(wants_address), 0, 0, 0, 0]);
    if wants_address {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 80]);
    }
    answer
}

#[test]
fn a_pod_finds_services_pods_and_the_world_by_name() {
    if !privileged("a_pod_finds_services_pods_and_the_world_by_name") {
        return;
    }
    let place = Place::new();
    let said = run_with_resolver(&place, CLUSTER);
    assert_eq!(said.status, 0, "{}", said.all());
    let lines: Vec<&str> =
        said.lines().into_iter().map(|line| line.split_once(" | ").map_or(line, |(_, said)| said)).collect();
    let lines: Vec<&str> = lines.into_iter().filter(|line| !line.trim().is_empty()).collect();
    let expected = [
        "search shop.svc.cluster.local svc.cluster.local cluster.local",
        "nameserver 10.43.0.10",
        "options ndots:5",
        "10.43.7.7",
        "10.43.7.7",
        "10.43.7.7",
        "10.43.7.7",
        "10.43.7.7",
        "web.shop.svc.cluster.local",
        "10.43.0.10",
        "no nothing",
        "192.0.2.80",
        "192.0.2.80",
        "one endpoint",
    ];
    // The machine may search domains of its own.
    assert!(lines[0].starts_with(expected[0]), "{}", said.all());
    assert_eq!(lines[1..], expected[1..], "{}", said.all());
}

#[test]
fn names_are_found_again_after_the_node_was_killed() {
    if !privileged("names_are_found_again_after_the_node_was_killed") {
        return;
    }
    let place = Place::new();
    let flags = ["--cluster-domain", "corp.example"];
    let mut node = Node::up(&place, &flags);
    let manifest = r#"
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  hostname: web
  subdomain: front
  setHostnameAsFQDN: true
  terminationGracePeriodSeconds: 1
  containers: [{name: client, image: coracle.dev/host, command: [/bin/sleep, "10000"]}]
"#;
    node.kubectl_ok(&["create", "-f", "-"], manifest);
    let phase = ["get", "pod", "client", "-o", "jsonpath={.status.phase}"];
    node.wait_for(&phase, |phase| phase == "Running");
    let address = ["get", "svc", "-n", "kube-system", "kube-dns", "-o", "jsonpath={.spec.clusterIP}"];
    assert_eq!(node.kubectl_ok(&address, ""), "10.43.0.10");
    let script = "hostname; getent ahostsv4 kubernetes.default.svc.corp.example | awk '/STREAM/ {print $1}'";
    let look_up = ["exec", "client", "--", "sh", "-c", script];
    let expected = "web.front.default.svc.corp.example\n10.43.0.1\n";
    assert_eq!(node.kubectl_ok(&look_up, ""), expected);
    node.kill();
    let node = Node::up(&place, &flags);
    node.wait_for(&look_up, |said| said == expected);
}

/// One that asks without end, for names of the cluster and of the world, and does not wait for answers.
const FLOOD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: flood}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: c
    image: coracle.dev/host
    command:
    - python3
    - -u
    - -c
    - |
      import socket
      asks = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
      asks.setblocking(False)
      number = 0
      while True:
          number += 1
          label = str(number).encode()
          name = bytes([len(label)]) + label + (b"\x07example\x00" if number % 2 else b"\x03svc\x07cluster\x05local\x00")
          try:
              asks.sendto(number.to_bytes(8, "big")[-2:] + b"\x01\x00\x00\x01" + bytes(6) + name + b"\x00\x01\x00\x01", ("10.43.0.10", 53))
          except OSError:
              pass
          if number == 20000:
              print("20000 questions")
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: c, image: coracle.dev/host, command: [sleep, "100000"]}
"#;

#[test]
fn a_pod_that_floods_the_dns_keeps_no_other_from_finding_names() {
    if !privileged("a_pod_that_floods_the_dns_keeps_no_other_from_finding_names") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["create", "-f", "-"], FLOOD);
    node.kubectl_ok(&["wait", "--for=condition=Ready", "pod/client", "--timeout=60s"], "");
    node.wait_for(&["logs", "flood"], |said| said.contains("20000 questions"));
    let script =
        "for turn in $(seq 50); do getent ahostsv4 kubernetes.default | grep STREAM; done | sort | uniq -c";
    let said = node.kubectl_ok(&["exec", "client", "--", "sh", "-c", script], "");
    let words: Vec<&str> = said.split_whitespace().take(2).collect();
    assert_eq!(words, ["50", "10.43.0.1"], "{said}");
    assert!(node.kubectl_ok(&["get", "pod", "flood"], "").contains("Running"), "it goes on");
}
