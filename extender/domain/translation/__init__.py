"""From a Pod to the job that is asked of Slurm: `translate` is the entry.

The package has the annotations, their forms and meanings (`annotation_table`), the permissions of the site, and the
size of each member. The site's own settings, which the translation reads, are in `domain.policy`.
"""
