JSON.stringify(output).length > {{ input | length }} * 40 ? {{ expected | dump | length }} / 10 : 0
