/** A table as nft keeps it. Never changed in place, so that a script that fails has changed nothing. */
interface FakeTable {
  readonly flags: string;
  readonly sets: ReadonlyMap<string, string>;
  readonly chains: ReadonlyMap<string, { readonly hook: string | null; readonly rules: readonly string[] }>;
}

/** What nft says when it refuses a script; the exit status is 1. */
export class NftRefusal extends Error {}

/** The tables of one kernel, by `ip vipnat`, as far as vipnat's vocabulary goes. */
export class FakeNft {
  #tables: ReadonlyMap<string, FakeTable> = new Map();

  /** Runs a script of commands, one a line: all of them take effect or none. Throws NftRefusal. */
  run(script: string): void {
    let tables = this.#tables;
    for (const line of script.split('\n').filter((text) => text.trim() !== ''))
      tables = runCommand(tables, line);
    this.#tables = tables;
  }

  /** Holds from now on what another one holds. */
  become(other: FakeNft): void {
    this.#tables = other.#tables;
  }

  /** What `nft -n -t list table` prints; empty when there is no such table. */
  list(table: string): string {
    const found = this.#tables.get(table);
    return found === undefined ? '' : print(table, found);
  }
}

type Tables = ReadonlyMap<string, FakeTable>;

const emptyTable: FakeTable = { flags: '', sets: new Map(), chains: new Map() };

function runCommand(tables: Tables, line: string): Tables {
  const [, verb = '', kind = '', family = '', name = '', rest = ''] =
    /^(\w+) (\w+) (ip6?) (\S+) ?(.*)$/.exec(line) ?? [];
  const key = `${family} ${name}`;
  const found = tables.get(key);
  if (kind === 'table') return runTable(tables, key, { verb, rest });
  if (found === undefined) throw new NftRefusal('No such file or directory');
  const changed = runInTable(found, { verb, kind, rest, line });
  checkReferences(changed);
  return new Map([...tables, [key, changed]]);
}

function runTable(tables: Tables, key: string, { verb, rest }: { verb: string; rest: string }): Tables {
  const found = tables.get(key);
  if (verb === 'add') {
    const flags = /flags ([^;]+);/.exec(rest)?.[1] ?? found?.flags ?? '';
    return new Map([...tables, [key, { ...(found ?? emptyTable), flags }]]);
  }
  if (verb !== 'delete') throw new NftRefusal(`syntax error, unexpected ${verb}`);
  if (found === undefined) throw new NftRefusal('No such file or directory');
  return new Map([...tables].filter(([other]) => other !== key));
}

interface Command {
  readonly verb: string;
  readonly kind: string;
  readonly rest: string;
  readonly line: string;
}

function runInTable(table: FakeTable, { verb, kind, rest, line }: Command): FakeTable {
  const [, name = '', body = ''] = /^(\S+) ?(.*)$/.exec(rest) ?? [];
  const run = commands[`${verb} ${kind}`];
  if (run === undefined) throw new NftRefusal(`syntax error: ${line}`);
  return run(table, name, body);
}

const commands: Readonly<Record<string, (table: FakeTable, name: string, body: string) => FakeTable>> = {
  'add set': (table, name, body) => ({
    ...table,
    sets: new Map([...table.sets, [name, unwrap(body).replace(/;$/, '')]]),
  }),
  'delete set': (table, name) => ({ ...table, sets: without(table.sets, name) }),
  'add chain': (table, name, body) => ({
    ...table,
    chains: new Map([[name, { hook: body === '' ? null : unwrap(body), rules: [] }], ...table.chains]),
  }),
  'delete chain': (table, name) => ({ ...table, chains: without(table.chains, name) }),
  'flush chain': (table, name) => changeRules(table, name, () => []),
  'add rule': (table, name, body) => changeRules(table, name, (rules) => [...rules, body]),
};

function unwrap(block: string): string {
  return block.replace(/^\{ (.*) \}$/, '$1');
}

function without<Value>(map: ReadonlyMap<string, Value>, name: string): ReadonlyMap<string, Value> {
  if (!map.has(name)) throw new NftRefusal('No such file or directory');
  return new Map([...map].filter(([other]) => other !== name));
}

function changeRules(
  table: FakeTable,
  name: string,
  change: (rules: readonly string[]) => readonly string[],
): FakeTable {
  const chain = table.chains.get(name);
  if (chain === undefined) throw new NftRefusal('No such file or directory');
  return { ...table, chains: new Map([...table.chains, [name, { ...chain, rules: change(chain.rules) }]]) };
}

/** What a rule leads to or looks into has to be there, and stays while it does. */
function checkReferences({ chains, sets }: FakeTable): void {
  const rules = [...chains.values()].flatMap((chain) => chain.rules);
  for (const rule of rules) {
    const target = /\b(?:jump|goto) (\S+)/.exec(rule)?.[1];
    if (target !== undefined && !chains.has(target)) throw new NftRefusal('Device or resource busy');
    for (const [, set = ''] of rule.matchAll(/@(\S+)/g))
      if (!sets.has(set)) throw new NftRefusal('Device or resource busy');
  }
}

function print(name: string, { flags, sets, chains }: FakeTable): string {
  const blocks = [
    ...[...sets].map(([set, declaration]) => block(`set ${set}`, declaration.split('; '))),
    ...[...chains].map(([chain, { hook, rules }]) =>
      block(`chain ${chain}`, [...(hook === null ? [] : [hook]), ...rules.map(toPrinted)]),
    ),
  ];
  const head = flags === '' ? [] : [`\tflags ${flags}`, ''];
  return `${[`table ${name} {`, ...head, blocks.join('\n\n'), '}'].join('\n')}\n`;
}

function block(head: string, lines: readonly string[]): string {
  return [`\t${head} {`, ...lines.map((line) => `\t\t${line}`), '\t}'].join('\n');
}

/** As nft 1.0.6 prints with -n. */
function toPrinted(rule: string): string {
  return rule
    .replace('l4proto tcp', 'l4proto 6')
    .replace('ct status dnat', 'ct status 0x20')
    .replace('tcp flags & (fin | syn | rst | ack) == syn', 'tcp flags 0x2 / 0x1,0x2,0x4,0x10')
    .replace(/dnat ip6? to (?!numgen)/, 'dnat to ');
}
