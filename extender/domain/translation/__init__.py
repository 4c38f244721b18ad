"""From a Pod to the job that is asked of Slurm: `translate` is the entry.

Here live the annotations, their forms and meanings (`settings`), what the site lets whom ask for, and the size of each
member. The site's own words, which the translation reads, are in `domain.policy`.
"""
