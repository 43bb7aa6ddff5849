"""The front end of a core: fetch, decode, issue with register tokens, uniform registers."""
