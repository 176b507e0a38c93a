"""Analysis worker that a marked text ends"""

import os
import signal
import time

from cocosearchd.sandbox.worker_loop import Handler, run_worker
from cocosearchd.search.lexical.analysis.analysis_messages import AnalysisRequest
from cocosearchd.search.lexical.analysis.analysis_worker import open_handler


def open_stumbling_handler() -> Handler:
    handle = open_handler()

    def stumble(body: bytes) -> bytes:
        request = AnalysisRequest.from_bytes(body)
        text = "".join(chunk.text for file in request.files for chunk in file.chunks)
        if any(file.path == "ever.py" for file in request.files):
            os._exit(9)
        if "FAULT_ALWAYS" in text or ("FAULT" in text and not request.plain):
            os.kill(os.getpid(), signal.SIGSEGV)
        if "STALL" in text and not request.plain:
            time.sleep(3600)
        if "SPIN" in text and not request.plain:
            while True:
                pass
        if "EAT" in text and not request.plain:
            bytearray(2 << 30)
        if "LIE" in text and not request.plain:
            return b"no analysis"
        return handle(body)

    return stumble


if __name__ == "__main__":
    run_worker(open_stumbling_handler)
