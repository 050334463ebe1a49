//! Cluster DNS: names of services and pods, answered from what informers hold; everything else is forwarded.
