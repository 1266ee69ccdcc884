export async function longer(output, { vars }) {
  return JSON.stringify(output).length / JSON.stringify(vars.expected).length;
}
