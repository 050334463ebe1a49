//! What machines have and what they lack; the switches of a namespace of a test's own.

use super::*;
use crate::links;
use crate::machine::*;

fn facts(addresses: &[&str]) -> Ipv6Facts {
    Ipv6Facts {
        supported: true,
        disabled: false,
        addresses: addresses.iter().map(|text| text.parse().expect("an address")).collect(),
        no_forwarding: None,
    }
}

#[test]
fn a_machine_has_both_families_when_others_can_answer_it_and_it_forwards() {
    let disabled = NoIpv6::Disabled { path: "/proc/sys/net/ipv6/conf/all/disable_ipv6".into() };
    let no_forwarding = NoIpv6::NoForwarding { path: FORWARDING.into(), reason: "read-only".into() };
    let both = facts(&["fe80::1", "fd00::2"]);
    let table = [
        (facts(&["2001:db8::2"]), None, "a global address"),
        (both.clone(), None, "a unique-local address"),
        (facts(&[]), Some(NoIpv6::NoAddress), "none at all"),
        (facts(&["fe80::1", "::1", "::ffff:192.0.2.1"]), Some(NoIpv6::NoAddress), "nothing for others"),
        (Ipv6Facts { supported: false, ..facts(&[]) }, Some(NoIpv6::Unsupported), "no IPv6 in the kernel"),
        (Ipv6Facts { disabled: true, ..both.clone() }, Some(disabled), "switched off"),
        (Ipv6Facts { no_forwarding: Some("read-only".into()), ..both }, Some(no_forwarding), "no router"),
    ];
    for (facts, expected, why) in table {
        assert_eq!(missing(&facts), expected, "{why}");
    }
}

#[test]
fn links_that_hear_routers_go_on_hearing_them_and_others_stay_as_they_are() {
    let switches =
        [("all", "1"), ("default", "1"), ("lo", "1"), ("eth0", "1"), ("eth1", "2"), ("veth7", "0")];
    let switches: Vec<_> =
        switches.iter().map(|(link, value)| ((*link).to_owned(), (*value).to_owned())).collect();
    assert_eq!(links_that_learn(&switches), ["eth0"]);
}

#[test]
fn a_machine_is_looked_at_and_made_to_forward_and_back() {
    let Some(machine) = Machine::new() else { return };
    if skipped_without_ipv6() {
        return;
    }
    inside(&machine.namespace, || assert_eq!(has_both_families(), Err(NoIpv6::NoAddress)));
    let up0 = machine.routing().link("up0").expect("up0").index;
    let address: IpAddr = "fd99::1".parse().expect("an address");
    machine.routing().apply(&[links::add_address(LOOPBACK, address)]).expect("added");
    inside(&machine.namespace, || assert_eq!(has_both_families(), Err(NoIpv6::NoAddress), "on loopback"));
    machine.routing().remove_address(LOOPBACK, address).expect("removed");
    machine.routing().apply(&[links::add_address(up0, address)]).expect("added");
    inside(&machine.namespace, || {
        let read = |path: &Path| fs::read_to_string(path).expect("readable").trim().to_owned();
        let (accept, forwarding) = (switch("up0", "accept_ra"), Path::new(FORWARDING));
        assert_eq!(has_both_families(), Ok(()));
        assert_eq!(
            (read(&accept), read(forwarding)),
            ("1".to_owned(), "0".to_owned()),
            "nothing is changed by looking"
        );
        let forwarded = switch_forwarding_on().expect("on").expect("it was off");
        assert_eq!(forwarded, Forwarded { learning: vec!["up0".to_owned()] });
        assert_eq!((read(&accept), read(forwarding)), ("2".to_owned(), "1".to_owned()));
        assert_eq!(switch_forwarding_on().expect("on"), None, "it is on");
        switch_forwarding_off(&forwarded);
        assert_eq!((read(&accept), read(forwarding)), ("1".to_owned(), "0".to_owned()));
        fs::write(switch("all", "disable_ipv6"), "1").expect("written");
        assert!(matches!(has_both_families(), Err(NoIpv6::Disabled { .. })));
    });
}
