"""`genai-host assistants`: assistants at the command line.

group     create, list, show and delete assistants
run       send a message to an assistant, and print its answer
terminal  shared parts: the API in this process, uploaded files, output
"""
