"""Text, JSON, YAML, times, durations, base64, CSV and PEM as Go reads and writes them."""
