//! IPv4 and IPv6 side by side, on a machine that has both; and a machine without IPv6, where all is as with IPv4 alone.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::{Node, PATIENCE, Place, finish, privileged};

use super::own_machine::on_a_machine_of_its_own;
use super::services::{CURL, fetched, output_of};

const WEB: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: NodePort
  ipFamilyPolicy: PreferDualStack
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: http}]
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: server
    image: coracle.dev/host
    command: ["/bin/sh", "-c", "mkdir /tmp/www && echo from $HOSTNAME at $PLACE of $MACHINE > /tmp/www/index.html && exec busybox httpd -f -p 8080 -h /tmp/www"]
    env:
    - {name: PLACE, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}
    - {name: MACHINE, valueFrom: {fieldRef: {fieldPath: status.hostIPs}}}
    ports: [{name: http, containerPort: 8080, hostPort: 8099}]
    readinessProbe: {httpGet: {port: http, path: /}, periodSeconds: 1}
"#;

fn shell(script: &str) {
    let made = finish(Command::new("sh").args(["-c", script]), "");
    assert_eq!(made.status, 0, "{}", made.all());
}

fn field(node: &Node, object: &[&str], path: &str) -> String {
    let path = format!("jsonpath={path}");
    node.kubectl_ok(&[["get"].as_slice(), object, &["-o", &path]].concat(), "")
}

fn wait_for_endpoints(node: &Node, expected: &str) {
    let ready = "jsonpath={.items[*].endpoints[*].conditions.ready}";
    node.wait_for(&["get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", ready], |text| {
        text == expected
    });
}

#[test]
fn a_service_of_both_families_is_reached_over_both_from_everywhere_also_while_the_daemon_is_dead() {
    if !privileged(
        "a_service_of_both_families_is_reached_over_both_from_everywhere_also_while_the_daemon_is_dead",
    ) {
        return;
    }
    if !std::path::Path::new("/proc/sys/net/ipv6").exists() {
        eprintln!("skipped: the kernel has no IPv6");
        return;
    }
    on_a_machine_of_its_own(|| {
        shell("ip addr add fd99::2/64 dev up0 nodad && ip -6 route add default via fd99::1");
        let place = Place::new();
        let mut node = Node::up(&place, &[]);
        node.kubectl_ok(&["create", "-f", "-"], WEB);
        wait_for_endpoints(&node, "true true");

        let pod_ips = field(&node, &["pod", "web"], "{.status.podIPs[*].ip}").replace(' ', ",");
        let host_ips = field(&node, &["pod", "web"], "{.status.hostIPs[*].ip}").replace(' ', ",");
        let (pod_v4, pod_v6) = pod_ips.split_once(',').expect("two addresses");
        assert!(
            pod_v4.contains('.') && pod_v6.contains(':') && host_ips.contains(':'),
            "{pod_ips} {host_ips}"
        );
        assert_eq!(field(&node, &["pod", "web"], "{.status.podIP}"), pod_v4);
        let machine =
            field(&node, &["nodes"], "{.items[0].status.addresses[?(@.type=='InternalIP')].address}");
        assert_eq!(machine.replace(' ', ","), host_ips);
        let ranges = field(&node, &["nodes"], "{.items[0].spec.podCIDRs[*]}");
        assert!(ranges.contains("/20 fd") && ranges.ends_with("::/64"), "{ranges}");

        let addresses = field(&node, &["service", "web"], "{.spec.clusterIPs[*]}");
        let (v4, v6) = addresses.split_once(' ').expect("two addresses");
        let port = field(&node, &["service", "web"], "{.spec.ports[0].nodePort}");
        let said = format!("from web at {pod_ips} of {host_ips}");
        let urls = [
            format!("http://{v4}/"),
            format!("http://[{v6}]/"),
            format!("http://[{pod_v6}]:8080/"),
            format!("http://[fd99::2]:{port}/"),
            "http://[fd99::2]:8099/".to_owned(),
        ];
        let script: String = urls.iter().map(|url| format!("{CURL} '{url}'; ")).collect();
        let script = format!("{script} grep -c \"$(hostname)\" /etc/hosts; {CURL} -6 http://web/");
        assert_eq!(
            output_of(&node, "client", &script),
            format!("{}2\n{said}\n", format!("{said}\n").repeat(urls.len())),
            "from a pod"
        );
        for url in urls {
            assert_eq!(fetched(&url), said, "from the machine: {url}");
        }
        for host in ["127.0.0.1", "[::1]"] {
            assert_eq!(fetched(&format!("http://{host}:{port}/")), said, "at the node's port: {host}");
            assert_eq!(fetched(&format!("http://{host}:8099/")), said, "at the pod's port: {host}");
        }

        node.kill();
        assert_eq!(fetched(&format!("http://[{v6}]/")), said, "while no daemon is there");
        node = Node::up(&place, &[]);
        assert_eq!(fetched(&format!("http://[{v6}]/")), said, "as soon as the next is there");
        assert_eq!(field(&node, &["pod", "web"], "{.status.podIPs[*].ip}").replace(' ', ","), pod_ips);
        node.kubectl_ok(&["delete", "pod", "web", "--wait=true"], "");
        let target = format!("[{v6}]:80").parse().expect("an address");
        let begun = Instant::now();
        loop {
            match TcpStream::connect_timeout(&target, Duration::from_secs(5)).map_err(|error| error.kind()) {
                Err(ErrorKind::ConnectionRefused) => break,
                other => assert!(begun.elapsed() < PATIENCE, "nobody is left: {other:?}"),
            }
        }
    });
}

#[test]
fn a_machine_without_ipv6_has_pods_and_services_of_ipv4_and_nothing_is_said_about_it() {
    if !privileged("a_machine_without_ipv6_has_pods_and_services_of_ipv4_and_nothing_is_said_about_it") {
        return;
    }
    on_a_machine_of_its_own(|| {
        shell("echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6");
        let place = Place::new();
        let node = Node::up(&place, &[]);
        node.kubectl_ok(&["create", "-f", "-"], WEB);
        wait_for_endpoints(&node, "true");
        let pod_ips = field(&node, &["pod", "web"], "{.status.podIPs[*].ip}");
        assert!(pod_ips.contains('.') && !pod_ips.contains([' ', ':']), "{pod_ips}");
        let address = field(&node, &["service", "web"], "{.spec.clusterIPs[*]}");
        assert!(!address.contains([' ', ':']), "{address}");
        let ranges = field(&node, &["nodes"], "{.items[0].spec.podCIDRs[*]}");
        assert!(ranges.ends_with("/20") && !ranges.contains(' '), "{ranges}");
        let said = fetched(&format!("http://{address}/"));
        assert!(said.starts_with(&format!("from web at {pod_ips} of ")), "{said}");
        assert!(!node.log().contains("IPv6"), "{}", node.log());
    });
}
