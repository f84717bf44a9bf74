"""Runs the examples of the documentation with redis-py; see said.py."""

import sys

import redis
from redis.utils import HIREDIS_AVAILABLE

from connect import connect, whole
from said import read, said

client = connect()
print("redis-py", redis.__version__, "with hiredis" if HIREDIS_AVAILABLE else "alone", flush=True)
for line in sys.stdin:
    name, words = read(line)
    try:
        reply = client.execute_command(name, *words)
    except redis.RedisError as error:
        reply = Exception(whole(error))
    print(said(reply), flush=True)
