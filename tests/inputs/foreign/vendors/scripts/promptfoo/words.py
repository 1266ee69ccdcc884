def get_assert(output, context):
    said, wanted = (set(str(text).split()) for text in (output, context["vars"]["expected"]))
    share = len(said & wanted) / max(1, len(wanted))
    return {"pass": share > 0.3, "score": share, "reason": f"{share:.0%} of the words, {context['vars'].get('model')}"}
