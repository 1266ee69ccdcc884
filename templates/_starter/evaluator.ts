// /// script
// [tool.evalcell.output]
// kind = "categorical"
// labels = {match = 1, mismatch = 0}
//
// [tool.evalcell.parameters]
// output = {type = "string"}
// reference = {type = "string"}
// case_sensitive = {type = "boolean", default = true, description = "Whether upper and lower case differ."}
// ///
/**
 * Whether the output says what the reference says; white space around either does not count.
 */

interface Parameters {
  output: string;
  reference: string;
  case_sensitive?: boolean;
}

export function evaluate({ output, reference, case_sensitive = true }: Parameters) {
  let [found, wanted] = [output.trim(), reference.trim()];
  if (!case_sensitive) {
    [found, wanted] = [found.toLowerCase(), wanted.toLowerCase()];
  }
  if (found === wanted) {
    return { label: "match", explanation: "The output is the reference." };
  }
  return { label: "mismatch", explanation: "The output differs from the reference." };
}
