"""The plugin contract, and the code that runs it."""
