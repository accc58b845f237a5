"""From a configuration to profiles: loading plugins and building the framework that runs them."""
