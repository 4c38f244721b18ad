"""`slurm-extender doctor`: find incompatible Slurm, Kubernetes and extender settings before they cause failures.

`gather` fetches facts with the access of the caller. `facts` defines them. `checks` has a file for each subject; a
check judges facts and fetches none. To add a check, write one function in the file of its subject and register it.
The doctor changes nothing. Only the probe, which is optional, submits a job, and cancels it.
"""
