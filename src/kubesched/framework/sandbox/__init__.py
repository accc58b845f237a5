"""The sandbox around out-of-tree plugins: time budgets, checked results, read-only arguments."""
