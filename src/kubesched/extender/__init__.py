"""HTTP extenders both ways: `client` calls them, `server` is one; `wire` has the messages."""
