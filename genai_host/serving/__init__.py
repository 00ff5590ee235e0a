"""What API surfaces over HTTP are made of; independent of the server."""
