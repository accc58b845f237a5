"""The running scheduler: its loop, what follows a decision, and what it does about failures."""
