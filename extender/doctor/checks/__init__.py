"""The checks, a file for each subject. They judge facts: they send no request, and read neither files nor clocks."""
