"""Protection of claims and volumes that are in use."""
