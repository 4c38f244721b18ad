"""Decisions of a site: for the translation of all Pods (`site`), and rule by rule for some of them (`tenancy`)."""
