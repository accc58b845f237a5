"""What clients can do to objects, alike for every kind."""
