len(str(output)) / 1000 if "{{ model }}" else {{expected | length}} / 7
