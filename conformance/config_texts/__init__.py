"""Parts of the generator of configuration files."""
