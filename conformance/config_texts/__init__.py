"""What the generator of configuration files is made of."""
