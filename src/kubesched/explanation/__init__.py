"""Explanations: one attempt as a record, as a report and as counterfactuals.

`cli.explain.text` formats them as text.
"""
