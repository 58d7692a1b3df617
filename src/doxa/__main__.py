"""``python -m doxa``: the command line, where the ``doxa`` command is not on the path."""

from doxa.cli import main

if __name__ == "__main__":
    main()
