"""The plugin contract: extension points, status codes, cycle state and the handle."""
