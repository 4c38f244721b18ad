"""What is promised of every run, and the judge who holds it against the truth."""
