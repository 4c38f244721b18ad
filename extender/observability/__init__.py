"""Log lines, metrics and traces: what operators observe of the running process.

Here live the log format, the metric registry with what a scrape reads of the process, and the export of spans. Nothing
here changes what the process does; what `/debug` and `/readyz` answer is in `http`.
"""
