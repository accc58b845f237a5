"""HTTP services that take part in decisions: the protocol, and our calls to them."""
