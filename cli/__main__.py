"""`python -m cli`: the program, for processes that start it again."""

from cli.main import main

main()
