"""A server for each module: no scheduler meets nodes and pods that other tests left behind."""

from kubesched.pytest_plugin import server_fixtures

api_server, api, plain_api = server_fixtures("module")
