//! Pod network: addresses, routed veth, way out, resolv.conf and hosts files
