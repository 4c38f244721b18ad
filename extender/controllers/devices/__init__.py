"""Write the devices of grants into ResourceClaims: read what Pods request, check, write, and check again."""
