"""The life of a placeholder: every legal transition lives in this package, and only here is a state assigned.

Each room holds the rules of the states it is named for; `table` is their form, `step` the one door. As much as possible
is the table: a pair of state and event that is in it neither as a rule nor as an ignored event raises
`InvalidTransitionError`.
"""
