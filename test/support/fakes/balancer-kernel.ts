import type { BalancerKernel } from '../../../lib/kernel/kernel.ts';
import type { ElementChange } from '../../../lib/kernel/nft-netlink.ts';
import type { MissingFeatures } from '../../../lib/kernel/nftables.ts';
import type { Family } from '../../../lib/net.ts';
import { VipnatError } from '../../../lib/errors.ts';

/**
 * The tables of a host, as far as the balancer asks for them: it takes the commands that the balancer gives to nft, and prints
 * what they come to. A script is taken whole or not at all.
 */
export class FakeBalancerKernel implements Pick<
  BalancerKernel,
  'listTable' | 'readHandles' | 'apply' | 'check' | 'changeElements' | 'listMemories'
> {
  /** The scripts that were taken, those included that changes of elements stand for. */
  readonly scripts: string[] = [];
  readonly changes: ElementChange[] = [];
  /** Whether elements cannot be changed without a tool. */
  needsTool = false;
  lists = 0;
  /** How many elements each memory has. */
  memoryCount: number | null = null;
  /** Set: the next script is refused. */
  failure: Error | null = null;
  /** What nft refuses wherever it is in a script. */
  refuses: RegExp | null = null;
  questions = 0;
  missing: MissingFeatures = { ipv4: [], ipv6: [] };
  #tables = new Map<string, FakeTable>();
  #handle = 0;

  async listTable(table: string): Promise<string> {
    this.lists += 1;
    await Promise.resolve();
    return print(table, this.#tables.get(table));
  }

  listMemories(name: string): Promise<ReadonlyMap<string, number | null>> {
    const sets = [...(this.#tables.get(`ip ${name}`)?.sets ?? [])];
    const dynamic = sets.filter(([, { declaration }]) => declaration.includes('dynamic'));
    return Promise.resolve(new Map(dynamic.map(([set]) => [`ipv4 ${set}`, this.memoryCount])));
  }

  readHandles(name: string): Promise<Readonly<Record<Family, number | null>>> {
    const find = (word: string) => this.#tables.get(`${word} ${name}`)?.handle ?? null;
    return Promise.resolve({ ipv4: find('ip'), ipv6: find('ip6') });
  }

  async apply(script: string): Promise<void> {
    await Promise.resolve();
    const { failure } = this;
    this.failure = null;
    if (failure !== null) throw failure;
    this.#refuse(script);
    const tables = structuredClone(this.#tables);
    for (const line of script.split('\n').filter((one) => one !== '')) this.#run(tables, line);
    this.#tables = tables;
    this.scripts.push(script);
  }

  check(script: string): Promise<string | null> {
    this.questions += 1;
    try {
      this.#refuse(script);
      return Promise.resolve(null);
    } catch (error) {
      return Promise.resolve((error as Error).message);
    }
  }

  #refuse(script: string): void {
    const found = this.refuses?.exec(script)?.[0];
    if (found !== undefined) throw new VipnatError('TOOL_FAILED', `nft does not take ${found}`);
  }

  async changeElements(changes: readonly ElementChange[]): Promise<boolean> {
    if (this.needsTool || this.failure !== null) return false;
    const lines = changes.flatMap(({ family, table, set, removed, added }) => {
      const place = `element ${family === 'ipv6' ? 'ip6' : 'ip'} ${table} ${set}`;
      const texts = added.map(([key, value]) => (value === '' ? key : `${key} : ${value}`));
      return [
        ...(removed.length === 0 ? [] : [`delete ${place} { ${removed.join(', ')} }`]),
        ...(texts.length === 0 ? [] : [`add ${place} { ${texts.join(', ')} }`]),
      ];
    });
    try {
      await this.apply(lines.map((line) => `${line}\n`).join(''));
    } catch {
      return false;
    }
    this.changes.push(...changes);
    return true;
  }

  async meddle(script: string): Promise<void> {
    await this.apply(script);
    this.scripts.pop();
  }

  #run(tables: Map<string, FakeTable>, line: string): void {
    const [verb = '', kind = '', family = '', name = '', object = '', ...rest] = line.split(' ');
    const key = `${family} ${name}`;
    if (kind === 'table') {
      if (verb === 'delete') tables.delete(key);
      else if (!tables.has(key))
        tables.set(key, { handle: (this.#handle += 1), sets: new Map(), chains: new Map() });
      return;
    }
    const table = tables.get(key);
    if (table === undefined) throw new Error(`no such table: ${line}`);
    change(table, { verb, kind, object, text: rest.join(' ') }, line);
  }
}

interface FakeTable {
  readonly handle: number;
  readonly sets: Map<string, { kind: string; declaration: string; elements: Map<string, string> }>;
  readonly chains: Map<string, { hook: string; rules: string[] }>;
}

interface Command {
  readonly verb: string;
  readonly kind: string;
  readonly object: string;
  readonly text: string;
}

function change(table: FakeTable, command: Command, line: string): void {
  if (command.kind === 'chain' || command.kind === 'rule') changeChain(table.chains, command, line);
  else changeSet(table.sets, command, line);
}

function changeChain(chains: FakeTable['chains'], { verb, kind, object, text }: Command, line: string): void {
  if (kind === 'rule') find(chains, object, line).rules.push(text);
  else if (verb === 'add') chains.set(object, { hook: unwrap(text), rules: [] });
  else if (verb === 'flush') find(chains, object, line).rules.splice(0);
  else if (!chains.delete(object)) throw new Error(`nothing to delete: ${line}`);
}

function changeSet(sets: FakeTable['sets'], { verb, kind, object, text }: Command, line: string): void {
  if (kind === 'element') changeElements(find(sets, object, line).elements, verb, unwrap(text));
  else if (verb === 'add')
    sets.set(object, { kind, declaration: unwrap(text).replace(/;$/, ''), elements: new Map() });
  else if (verb === 'flush') find(sets, object, line).elements.clear();
  else if (!sets.delete(object)) throw new Error(`nothing to delete: ${line}`);
}

function unwrap(text: string): string {
  return text.replace(/^\{ (.*) \}$/, '$1');
}

function changeElements(elements: Map<string, string>, verb: string, list: string): void {
  for (const element of list.split(', ')) {
    const [key = '', value = ''] = element.split(' : ');
    if (elements.has(key) !== (verb === 'delete')) throw new Error(`cannot ${verb} element ${element}`);
    if (verb === 'delete') elements.delete(key);
    else elements.set(key, value);
  }
}

function find<T>(objects: ReadonlyMap<string, T>, name: string, line: string): T {
  const found = objects.get(name);
  if (found === undefined) throw new Error(`no such object: ${line}`);
  return found;
}

function print(name: string, table: FakeTable | undefined): string {
  if (table === undefined) return '';
  const sets = [...table.sets].flatMap(([set, { kind, declaration, elements }]) => {
    const list = [...elements]
      .map(([key, value]) => (value === '' ? key : `${key} : ${value}`))
      .join(',\n\t\t\t     ');
    return [
      `\t${kind} ${set} {`,
      ...declaration.split('; '),
      ...(list === '' ? [] : [`\t\telements = { ${list} }`]),
      '\t}',
    ];
  });
  const chains = [...table.chains].flatMap(([chain, { hook, rules }]) => [
    `\tchain ${chain} {`,
    ...(hook === '' ? [] : [hook]),
    ...rules,
    '\t}',
  ]);
  return `${[`table ${name} {`, ...sets, ...chains, '}'].join('\n')}\n`;
}
