//! The service proxy of a node: from Services and EndpointSlices to the routes that [`network`] keeps.
