//! Tables of services before and after, and what is changed in the packet filter.

use super::*;

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn web(number: u16, backends: &[&str]) -> ServicePort {
    ServicePort {
        name: "ns/web:http".to_owned(),
        family: Family::V4,
        protocol: Protocol::Tcp,
        port: number,
        cluster_addresses: vec![address("10.43.0.7")],
        external_addresses: Vec::new(),
        node_port: None,
        affinity_seconds: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        backends: backends.iter().map(|text| text.parse().expect("a backend")).collect(),
        local_backends: Vec::new(),
    }
}

fn frontend(frontend: &Frontend) -> String {
    let Frontend { address, protocol, port } = frontend;
    let protocol = format!("{protocol:?}").to_lowercase();
    match frontend.by() {
        By::Address => format!("{}/{protocol}", SocketAddr::new(*address, *port)),
        By::Port => format!("{}*:{port}/{protocol}", of(frontend.family())),
    }
}

fn of(family: Family) -> &'static str {
    match family {
        Family::V4 => "",
        Family::V6 => "IPv6 ",
    }
}

fn side(side: Side) -> &'static str {
    match side {
        Side::Everybody => "",
        Side::Outside => "outside ",
    }
}

fn key(key: &Key) -> String {
    match key {
        Key::ClusterAddress(address) => format!("address {address}"),
        Key::Beyond(backend, _) => format!("beyond {backend}"),
        Key::Refused(refused) => format!("refused {}", frontend(refused)),
        Key::Plan(family, whom, by, Plan { count, affinity }) => {
            format!(
                "{}{}plan {by:?} {count}{}",
                of(*family),
                side(*whom),
                if *affinity { " sticky" } else { "" }
            )
        }
        Key::Note(family, by, seconds) => format!("{}note {by:?} {seconds}", of(*family)),
        Key::Noted(_, one) => format!("noted {}", frontend(one)),
        Key::Frontend(whom, _, one) => format!("{}{}", side(*whom), frontend(one)),
        Key::Backend(whom, _, one, place) => format!("{}{} #{place}", side(*whom), frontend(one)),
    }
}

fn shown(changes: &Changes) -> Vec<String> {
    let removed = changes.removed.iter().map(|gone| format!("- {}", key(gone)));
    let added = changes.added.iter().map(|(new, content)| match content {
        Content::Nothing => format!("+ {}", key(new)),
        Content::Backend(backend) => format!("+ {} = {backend}", key(new)),
        Content::Seconds(seconds) => format!("+ {} = {seconds}", key(new)),
        Content::Target { plan: Some(plan), .. } => {
            format!("+ {} = {}{}", key(new), plan.count, if plan.affinity { " sticky" } else { "" })
        }
        Content::Target { plan: None, .. } => format!("+ {} = nobody", key(new)),
    });
    let led = |mark: &'static str, led: &Led| -> Vec<String> {
        led.iter().map(|(one, backends)| format!("{mark} {} {backends:?}", frontend(one))).collect()
    };
    removed
        .chain(added)
        .chain(led("flows", &changes.flows))
        .chain(led("affinity", &changes.affinity))
        .collect()
}

fn table(services: &[(&str, Vec<ServicePort>)]) -> ServiceTable {
    services.iter().map(|(name, ports)| ((*name).to_owned(), ports.clone())).collect()
}

fn routes(services: &[(&str, Vec<ServicePort>)]) -> Routes {
    let mut routes =
        Routes::new(["10.128.0.0/20", "fd12::/64"].map(|text| text.parse().expect("a range")).into());
    routes.update(table(services));
    routes
}

/// What happens, the service before and after, and what that changes.
type Case = (&'static str, Vec<ServicePort>, Vec<ServicePort>, &'static [&'static str]);

#[test]
fn a_change_of_one_service_touches_its_own_elements_only() {
    let one = web(80, &["10.128.0.2:8080"]);
    let two = web(80, &["10.128.0.2:8080", "10.128.0.3:8080"]);
    let node_port = ServicePort { node_port: Some(30080), ..one.clone() };
    let local = ServicePort { external_policy: TrafficPolicy::Local, ..node_port.clone() };
    let sticky = |port: &ServicePort| ServicePort { affinity_seconds: Some(60), ..port.clone() };
    let udp = |port: &ServicePort| ServicePort { protocol: Protocol::Udp, ..port.clone() };
    let cases: Vec<Case> = vec![
        (
            "a new service",
            vec![],
            vec![one.clone()],
            &[
                "+ address 10.43.0.7",
                "+ plan Address 1",
                "+ 10.43.0.7:80/tcp = 1",
                "+ 10.43.0.7:80/tcp #0 = 10.128.0.2:8080",
            ],
        ),
        ("nothing new", vec![one.clone()], vec![one.clone()], &[]),
        (
            "one more backend",
            vec![one.clone()],
            vec![two.clone()],
            &[
                "- plan Address 1",
                "- 10.43.0.7:80/tcp",
                "+ plan Address 2",
                "+ 10.43.0.7:80/tcp = 2",
                "+ 10.43.0.7:80/tcp #1 = 10.128.0.3:8080",
            ],
        ),
        (
            "another backend",
            vec![one.clone()],
            vec![web(80, &["10.128.0.9:8080"])],
            &["- 10.43.0.7:80/tcp #0", "+ 10.43.0.7:80/tcp #0 = 10.128.0.9:8080"],
        ),
        (
            "no backend any more",
            vec![node_port.clone()],
            vec![ServicePort { backends: Vec::new(), ..node_port.clone() }],
            &[
                "- plan Address 1",
                "- plan Port 1",
                "- 10.43.0.7:80/tcp",
                "- *:30080/tcp",
                "- 10.43.0.7:80/tcp #0",
                "- *:30080/tcp #0",
                "+ refused *:30080/tcp",
                "+ 10.43.0.7:80/tcp = nobody",
                "+ *:30080/tcp = nobody",
            ],
        ),
        (
            "only backends of this node for clients from outside",
            vec![node_port],
            vec![local.clone()],
            &["+ refused *:30080/tcp", "+ outside *:30080/tcp = nobody"],
        ),
        (
            "a backend elsewhere",
            vec![one.clone()],
            vec![web(80, &["192.0.2.9:8080"])],
            &["- 10.43.0.7:80/tcp #0", "+ beyond 192.0.2.9:8080", "+ 10.43.0.7:80/tcp #0 = 192.0.2.9:8080"],
        ),
        (
            "a service that goes",
            vec![one.clone()],
            vec![],
            &["- address 10.43.0.7", "- plan Address 1", "- 10.43.0.7:80/tcp", "- 10.43.0.7:80/tcp #0"],
        ),
        (
            "a backend with affinity that goes",
            vec![sticky(&two)],
            vec![sticky(&one)],
            &[
                "- plan Address 2 sticky",
                "- 10.43.0.7:80/tcp",
                "- 10.43.0.7:80/tcp #1",
                "+ plan Address 1 sticky",
                "+ 10.43.0.7:80/tcp = 1 sticky",
                "affinity 10.43.0.7:80/tcp {10.128.0.2:8080}",
            ],
        ),
        (
            "a UDP backend that goes",
            vec![udp(&two)],
            vec![udp(&one)],
            &[
                "- plan Address 2",
                "- 10.43.0.7:80/udp",
                "- 10.43.0.7:80/udp #1",
                "+ plan Address 1",
                "+ 10.43.0.7:80/udp = 1",
                "flows 10.43.0.7:80/udp {10.128.0.2:8080}",
            ],
        ),
    ];
    for (what, before, now, expected) in cases {
        let mut routes = routes(&[("ns/web", before)]);
        let changes = routes.update(table(&[("ns/web", now)]));
        assert_eq!(shown(&changes), expected, "{what}");
    }
}

#[test]
fn a_plan_stays_as_long_as_any_service_has_it() {
    let one = web(80, &["10.128.0.2:8080"]);
    let other = ServicePort { cluster_addresses: vec![address("10.43.0.8")], ..one.clone() };
    let mut routes = routes(&[("ns/one", vec![one]), ("ns/other", vec![other])]);
    let changes = routes.update(table(&[("ns/one", vec![])]));
    assert!(!shown(&changes).contains(&"- plan Address 1".to_owned()), "{changes:?}");
    let changes = routes.update(table(&[("ns/other", vec![])]));
    assert!(shown(&changes).contains(&"- plan Address 1".to_owned()), "{changes:?}");
    assert_eq!(routes.all(), Changes::default(), "nothing is left");
}

/// Else whoever may make a service could take the place of the cluster's DNS.
#[test]
fn an_external_address_never_takes_a_cluster_address_away() {
    let dns = web(53, &["10.128.0.2:53"]);
    let thief = ServicePort {
        cluster_addresses: vec![address("10.43.0.99")],
        external_addresses: vec![address("10.43.0.7")],
        ..web(53, &["10.128.0.66:53"])
    };
    let target = |routes: &Routes| {
        let all = routes.all();
        shown(&all).into_iter().filter(|line| line.starts_with("+ 10.43.0.7:53/tcp #")).collect::<Vec<_>>()
    };
    let mut both = routes(&[("a/thief", vec![thief.clone()]), ("ns/dns", vec![dns.clone()])]);
    assert_eq!(target(&both), ["+ 10.43.0.7:53/tcp #0 = 10.128.0.2:53"]);
    both.update(table(&[("ns/dns", vec![ServicePort { backends: Vec::new(), ..dns.clone() }])]));
    let lines = shown(&both.all());
    assert!(lines.contains(&"+ 10.43.0.7:53/tcp = nobody".to_owned()), "{lines:?}");
    both.update(table(&[("ns/dns", vec![dns])]));
    both.update(table(&[("a/thief", vec![])]));
    assert_eq!(target(&both), ["+ 10.43.0.7:53/tcp #0 = 10.128.0.2:53"]);
}

#[test]
fn of_two_services_that_want_one_port_the_first_by_name_has_it_and_the_other_gets_it_next() {
    let one = |backend| ServicePort { node_port: Some(30080), ..web(80, &[backend]) };
    let mut both = routes(&[("ns/b", vec![one("10.128.0.3:80")]), ("ns/a", vec![one("10.128.0.2:80")])]);
    let target = |routes: &Routes| {
        let all = routes.all();
        shown(&all).into_iter().find(|line| line.starts_with("+ *:30080/tcp #0")).expect("it")
    };
    assert_eq!(target(&both), "+ *:30080/tcp #0 = 10.128.0.2:80");
    both.update(table(&[("ns/a", vec![])]));
    assert_eq!(target(&both), "+ *:30080/tcp #0 = 10.128.0.3:80");
}

/// Any order of changes ends where all at once would.
#[test]
fn changes_add_up() {
    let shapes = [
        vec![],
        vec![web(80, &["10.128.0.2:80"])],
        vec![web(80, &["10.128.0.2:80", "10.128.0.3:80"]), web(81, &[])],
        vec![ServicePort {
            node_port: Some(30000),
            affinity_seconds: Some(5),
            ..web(82, &["10.128.0.4:80"])
        }],
        vec![ServicePort { external_addresses: vec![address("10.43.0.7")], ..web(80, &["192.0.2.4:80"]) }],
    ];
    let mut kept = routes(&[]);
    let mut elements: BTreeMap<Key, Content> = BTreeMap::new();
    let mut number: u64 = 7;
    for _ in 0..500 {
        // A small generator of numbers that look random.
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let name = format!("ns/{}", (number >> 40) % 4);
        let ports = shapes[usize::try_from((number >> 50) % 5).expect("small")].clone();
        let changes = kept.update(ServiceTable::from([(name, ports)]));
        for gone in &changes.removed {
            assert!(elements.remove(gone).is_some(), "{gone:?} was there");
        }
        for (new, content) in changes.added {
            assert_eq!(elements.insert(new, content), None, "{new:?} was not there");
        }
        let all: BTreeMap<Key, Content> = kept.all().added.into_iter().collect();
        assert_eq!(elements, all);
    }
}
