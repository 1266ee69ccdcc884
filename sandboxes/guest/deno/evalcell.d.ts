// What an evaluator may name without importing it.

/** What the function is given: the columns of a row, and whatever else is mapped. */
interface EvaluatorParams {
  input: any;
  output: any;
  reference: any;
  metadata: any;
  [name: string]: any;
}

/** A label, a score and why. A score of null with one of the others declines to judge. */
interface EvaluatorScore {
  label?: string | null;
  score?: number | null;
  explanation?: string | null;
}

/** What it may return: text is a label, a number a score. */
type EvaluatorResult = string | number | boolean | null | EvaluatorScore;

/** What it may return with several outputs: one result for each. */
type EvaluatorResults = { [output: string]: EvaluatorResult };

/** The function that an evaluator exports. */
type Evaluator<Params = EvaluatorParams, Returned = EvaluatorResult> = (params: Params) => Returned | Promise<Returned>;
