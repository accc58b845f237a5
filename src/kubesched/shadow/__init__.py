"""`kubesched run --shadow`: decides beside another scheduler and compares."""
