"""HTTP extenders: `client` calls them, `server` is one; `wire` has the messages of both."""
