"""`python -m genai_host`."""

from genai_host.cli.main import main

if __name__ == "__main__":
    main()
