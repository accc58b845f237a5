"""Tools for all packages: clocks, tasks, klog's log lines, memory settings, text."""
