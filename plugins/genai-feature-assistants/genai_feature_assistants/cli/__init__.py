"""`genai-host assistants`: assistants at the command line.

group     create, list, show and delete assistants
run       send a message to an assistant, and print its answer
import_   import assistants that were exported elsewhere
terminal  shared parts: the API in this process, uploaded files, output
"""
