"""`genai-host assistants`: assistants at the command line.

group     create, list, show and delete them
run       say something to one
import_   take what was exported elsewhere
opened    the API in this process, and which object is meant
uploads   files of the user's
heard     what is heard of a run
terminal  what is printed
"""
