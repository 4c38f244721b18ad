"""What a site decides: for the translation of all Pods (`site`), and rule by rule for those of some (`tenancy`)."""
