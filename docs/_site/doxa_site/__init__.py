"""The machinery of the documentation site: extensions of Sphinx, used by ``docs/_site/conf.py``."""
