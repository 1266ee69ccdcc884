const graders = {
  longer: (output, context) => JSON.stringify(output).length / (1 + JSON.stringify(context.vars.reference).length),
};
export default graders;
