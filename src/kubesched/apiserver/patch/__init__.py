"""The ways of changing part of a document, and who owns which field."""
