"""The other side of command_model.py: a stand-in for a model that needs an environment of its own.

It gives back the last image and always answers the same. Nothing of yanami is imported; serve.py is a copy of
yanami_metric/models/serve.py, which needs Python 3.8 and the standard library.
"""

from serve import Output, options, serve

given = options()  # first: from here on, what is printed goes to standard error, not among the answers
print("loading the weights …")


def generate(requests):
    """Up to max_batch requests; one output each, in order."""
    return [answer(request) for request in requests]


def answer(request):
    if request.expects == "text":
        return Output(text=given["call"]["answer"])
    if not request.images:
        return Output(status="missing_output", reason="nothing to give back")
    return Output(images=[request.images[-1].path] * request.count)


serve(generate, caps={"outputs": ["text", "images"], "max_batch": 8}, identity="stand-in, version 1")
