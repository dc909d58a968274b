"""The rules of the language, one code each; a rule's docstring is the page that `awf explain` prints."""
