"""List and watch: reflectors, and the stream they read."""
