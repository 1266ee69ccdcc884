exports = module.exports = {
  async longer(output, { vars }) {
    return JSON.stringify(output).length > JSON.stringify(vars.reference).length;
  },
};
