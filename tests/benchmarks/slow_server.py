"""A chat server that takes its time, in a process of its own so that it shares no lock with its clients.

``python slow_server.py 0.2`` answers each request after 0.2 seconds, however many there are at
once; it prints its port.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def slow_server(seconds: float) -> Iterator[str]:
    """The URL to ask, for as long as the block lasts."""
    command = [sys.executable, __file__, str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        port = int(process.stdout.readline())
        yield f"http://127.0.0.1:{port}/v1/chat/completions"
    finally:
        process.kill()
        process.wait()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pause: float) -> None:
    """Answer what comes on one connection until it is closed."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            size = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
            asked = json.loads(await reader.readexactly(size))
            await asyncio.sleep(pause)
            text = f"re: {asked['messages'][-1]['content'][-40:]}"
            body = {
                "model": asked["model"],
                "choices": [{"message": {"role": "assistant", "content": text}}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5},
            }
            data = json.dumps(body).encode()
            sent = (
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            )
            writer.write(sent % len(data) + data)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve(pause: float) -> None:
    """Serve until the process ends."""
    server = await asyncio.start_server(
        lambda reader, writer: answer(reader, writer, pause), "127.0.0.1", 0, backlog=512
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
