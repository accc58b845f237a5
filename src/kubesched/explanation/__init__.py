"""Explanations: one attempt as a record, as counterfactuals and as text."""
