"""`python -m extender` is `slurm-extender`."""

from extender.cli import main

if __name__ == "__main__":
    main()
