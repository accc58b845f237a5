"""`kubesched extender`: Python plugins served to another scheduler."""
