"""Describe placeholder jobs: their requests, their marks, and the changes of their Pods that they can follow."""
