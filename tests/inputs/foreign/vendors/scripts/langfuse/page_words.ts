function evaluate(ctx) {
  const said: string[] = JSON.stringify(ctx.observation.output).split(" ");
  const wanted: string[] = JSON.stringify(ctx.experiment.itemExpectedOutput).split(" ");
  const share = wanted.filter((word) => said.includes(word)).length / wanted.length;
  return { scores: [{ name: "words", value: share, comment: `${wanted.length} words` }] };
}
