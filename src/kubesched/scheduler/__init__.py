"""The running scheduler: scheduling loop, binding cycle, failure handling."""
