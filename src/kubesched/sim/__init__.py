"""What-if runs: pods placed one after the other in memory, as the running scheduler would."""
