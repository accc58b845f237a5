"""EndpointSlices of services."""
