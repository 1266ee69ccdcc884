const PRINTED = 100_000; // characters of what one call prints that are passed on

/** Runs a program, and what its tests ask of it. It has no tests here, and nothing that it says is believed. */
export class Program {
  objects: any[] = [];
  classes: Record<string, unknown> = {};
  found: (name: string) => any = () => undefined;

  async answers(text: string, asked: any[]): Promise<unknown> {
    const loading = await this.caught(() => this.load(text));
    if ("raised" in loading) return { unloaded: loading.raised };
    const answers: any[] = [];
    for (const one of asked) answers.push(await this.answer(one));
    return { answers, classes: this.classes };
  }

  async load(text: string) {
    const common = { exports: {} as any };
    Object.assign(globalThis, { module: common, exports: common.exports });
    // Names of a module are seen by code in it alone.
    const all = `${text}\n;export const evalcell_found = (name: string): any => eval(name);\n`;
    const module = await import(`data:application/typescript;charset=utf-8,${encodeURIComponent(all)}`);
    this.found = (name) => {
      if (Object.hasOwn(Object(common.exports), name)) return common.exports[name];
      if (name in module) return module[name];
      if (!/^[A-Za-z_$][\w$]*$/.test(name)) return undefined;
      try {
        return module.evalcell_found(name);
      } catch {
        return name === "default" ? common.exports : undefined;
      }
    };
  }

  answer(asked: any): Promise<any> {
    if ("names" in asked) {
      return this.caught(() => {
        const named = asked.names.map((name: string) => [name, this.found(name)]);
        return Object.fromEntries(named.filter(([, one]: any) => one !== undefined));
      });
    }
    const given = (asked.args ?? []).map((one: unknown) => this.decoded(one));
    return this.caught(() => this.done(asked, given), () => this.changed(asked.args ?? [], given));
  }

  done(asked: any, given: any[]): any {
    if (asked.of === null) {
      const path = asked.name.split(".");
      const last = path.pop();
      const place = path.reduce((at: any, name: string) => at[name], path.length ? this.found(path.shift()) : undefined);
      const found = place === undefined ? this.found(last) : place[last];
      return asked.get ? found : asked.new ? new found(...given) : found.apply(place, given);
    }
    const place = this.decoded(asked.of);
    if ("set" in asked) return (place[asked.name] = given[0]);
    if (asked.get) return place[asked.name];
    return asked.name === null ? place(...given) : place[asked.name](...given);
  }

  changed(before: unknown[], given: any[]) {
    const now = given.map((one) => this.encoded(one));
    const changed = now.map((one, at) => [at, one]).filter(([at, one]: any) => JSON.stringify(one) !== JSON.stringify(before[at]));
    return changed.length ? { changed } : {};
  }

  async caught(step: () => any, after: () => object = () => ({})): Promise<any> {
    let printed = "";
    const say = (...words: unknown[]) => {
      if (printed.length < PRINTED) printed += words.map(String).join(" ") + "\n";
    };
    Object.assign(console, { log: say, info: say, error: say, warn: say, debug: say });
    let told: any, waited = false;
    try {
      let value = step();
      waited = value instanceof Promise;
      if (waited) value = await value;
      told = { value: this.encoded(value) };
    } catch (error) {
      told = { raised: this.error(error) };
    }
    return { ...told, ...(waited ? { waited } : {}), ...after(), ...(printed ? { printed: printed.slice(0, PRINTED) } : {}) };
  }

  error(error: any) {
    const classes: string[] = [];
    for (let at = error; at !== null && typeof at === "object" && classes.length < 50; at = Object.getPrototypeOf(at)) {
      const name = Object.hasOwn(at, "constructor") ? at.constructor?.name : undefined;
      if (typeof name === "string") classes.push(name);
    }
    const text = error !== null && typeof error === "object" && "message" in error ? error.message : error;
    return { classes, name: String(error?.name ?? "Error").slice(0, 200), text: String(text).split("\n")[0].slice(0, 1000) };
  }

  encoded(value: any): unknown {
    return encodedValue(value, (one) => this.own(one));
  }

  own(value: any): unknown {
    if (!this.objects.includes(value)) this.objects.push(value);
    const own = this.objects.indexOf(value);
    if (typeof value !== "object") return { own, class: typeof value };
    const bases: string[] = [], methods: string[] = [];
    for (let at = Object.getPrototypeOf(value); at !== null && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
      bases.push(String(at.constructor?.name));
      for (const [name, one] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
        if (typeof one.value === "function" && name !== "constructor") methods.push(name);
      }
    }
    const name = bases[0] ?? "Object";
    this.classes[name] = { bases, methods };
    return { own, class: name };
  }

  decoded(value: unknown): any {
    return decodedValue(value, (one) => (one.own === "program" ? this.found(one.name) : this.objects[one.own]));
  }
}
