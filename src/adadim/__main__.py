"""``python -m adadim`` is the command ``adadim``."""

from adadim.cli import main

if __name__ == "__main__":
    main()
