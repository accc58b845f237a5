// Empty: it lets main.go declare methods of another package without bodies.
