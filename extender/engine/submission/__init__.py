"""Submit the job of a workload: plan the request, write the checkpoint that its mark names, and send it."""
