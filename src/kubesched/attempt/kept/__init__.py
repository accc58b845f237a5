"""Kept verdicts: filter verdicts and scores of every node, kept from attempt to attempt.

`fast_path.schedule_by_kept_verdicts` is the entry. `basis` has the types that explanations read.
`docs/kept-verdicts.md` says what is kept and what invalidates it.
"""
