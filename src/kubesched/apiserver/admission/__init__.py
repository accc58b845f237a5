"""What is filled in or refused because of other objects."""
