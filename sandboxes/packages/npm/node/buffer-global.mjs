import buffer from "evalcell-outside:node:buffer";

export const Buffer = /* @__PURE__ */ (() => buffer.Buffer)();
