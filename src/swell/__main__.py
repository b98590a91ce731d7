"""`python -m swell`: the program, where its folder is not on the path of the shell."""

from swell.cli.main import main

if __name__ == "__main__":
    main()
