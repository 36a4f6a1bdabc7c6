import {
  type AlteonConfiguration,
  type AlteonRow,
  makeConfiguration,
  printDifference,
  readTable,
  schemas,
  validate,
  writeRow,
} from './alteon-configuration.ts';

/** What goes wrong. Numbers are how many requests from now on. */
export interface AlteonFaults {
  unauthorized: number;
  notAcceptable: number;
  /** Writes that are answered with 200 and `{"status":"err"}`. */
  refusedWrites: number;
  /** Tables that are empty although they have rows. */
  emptyTables: number;
  /** Requests that are done, and whose answers get lost. */
  lostAnswers: number;
  /** Answers that announce a length and have no body. */
  bodiless: number;
  /** What the unit says when it fails; null for it does not. */
  applyProblem: string | null;
  saveProblem: string | null;
  syncProblem: string | null;
}

/** An answer: its status, and a body as JSON or text. */
export interface UnitAnswer {
  readonly status: number;
  readonly body: unknown;
}

/** How many requests a unit works in the background for. */
export interface UnitPace {
  applyRequests: number;
  saveRequests: number;
}

const states = { idle: 2, inProgress: 3, complete: 4, failed: 5 };

interface Work {
  state: number;
  remaining: number;
  problem: string;
}

const ok: UnitAnswer = { status: 200, body: { status: 'ok' } };

/** A unit answers with so many rows where nobody says how many. */
const usualCount = 20;
const maxCount = 9000;

/** One unit of a simulated Alteon: its configurations, and what its REST interface answers. */
export class AlteonUnitSimulation {
  candidate = makeConfiguration();
  running = makeConfiguration();
  saved = makeConfiguration();
  /** By `GROUP/SERVER`: forgotten at a restart. */
  overrides = new Map<string, number>();
  /** By real server. */
  readonly sessions = new Map<string, number>();
  readonly #faults: AlteonFaults;
  readonly #pace: UnitPace;
  #apply: Work = { state: states.idle, remaining: 0, problem: '' };
  #save: Work = { state: states.idle, remaining: 0, problem: '' };

  constructor(faults: AlteonFaults, pace: UnitPace) {
    this.#faults = faults;
    this.#pace = pace;
  }

  restart(): void {
    this.running = structuredClone(this.saved);
    this.candidate = structuredClone(this.saved);
    this.overrides.clear();
  }

  /** The other unit's configuration comes, whole. */
  receive(running: AlteonConfiguration): void {
    this.candidate = structuredClone(running);
    this.running = structuredClone(running);
    this.saved = structuredClone(running);
  }

  /** Somebody else writes what waits to be applied. */
  edit(method: 'POST' | 'PUT' | 'DELETE', path: readonly [string, ...string[]], body: AlteonRow = {}): void {
    const problem = writeRow(this.candidate, method, path, body);
    if (problem !== null) throw new Error(problem);
  }

  /** Somebody else applies. */
  applyNow(): void {
    this.running = structuredClone(this.candidate);
  }

  /** Somebody else reverts. */
  revert(): void {
    this.candidate = structuredClone(this.running);
  }

  readMemberState(key: string): number {
    return (
      this.overrides.get(key) ??
      Number(readTable(this.running, 'EnhGroupRealServerTable').get(key)?.['State'] ?? 1)
    );
  }

  /** Work in the background goes on with each request. */
  tick(): void {
    finish(this.#apply, () => {
      const problem = this.#faults.applyProblem ?? validate(this.candidate);
      if (problem === null) this.applyNow();
      return problem;
    });
    finish(this.#save, () => {
      if (this.#faults.saveProblem === null) this.saved = structuredClone(this.running);
      return this.#faults.saveProblem;
    });
  }

  readProperties(): Record<string, number> {
    const isSame = (one: AlteonConfiguration, other: AlteonConfiguration) =>
      printDifference(one, other) === '';
    return {
      agApplyPending: isSame(this.running, this.candidate) ? 3 : 2,
      agSavePending: isSame(this.saved, this.running) ? 2 : 1,
      agApplyConfig: this.#apply.state,
      agSaveConfig: this.#save.state,
    };
  }

  act(action: string): UnitAnswer {
    const work = action === 'apply' ? this.#apply : this.#save;
    if (work.state === states.inProgress) return refuse(`${action} is in progress`);
    const { applyRequests, saveRequests } = this.#pace;
    const remaining = action === 'apply' ? applyRequests : saveRequests;
    Object.assign(work, { state: states.inProgress, remaining, problem: '' });
    return ok;
  }

  readText(name: string): string {
    return name === 'getdiff'
      ? printDifference(this.running, this.candidate)
      : printDifference(this.saved, this.running);
  }

  readTable(name: string, key: readonly string[], query: URLSearchParams): UnitAnswer {
    const rows = this.#findRows(name);
    if (rows === null) return { status: 404, body: { status: 'err', message: `no table ${name}` } };
    if (this.#faults.emptyTables > 0) {
      this.#faults.emptyTables -= 1;
      return { status: 200, body: { [name]: [] } };
    }
    const asked = key.join('/');
    const found = rows.filter(({ path }) => asked === '' || path === asked || path.startsWith(`${asked}/`));
    const [offset, count] = [Number(query.get('offset') ?? 0), Number(query.get('count') ?? usualCount)];
    const props = query.get('props')?.split(',');
    const page = found
      .slice(offset, offset + Math.min(count, maxCount))
      .map(({ row }) =>
        props === undefined
          ? row
          : Object.fromEntries(Object.entries(row).filter(([column]) => props.includes(column))),
      );
    return { status: 200, body: { [name]: page } };
  }

  write(method: string, name: string, key: readonly string[], body: AlteonRow): UnitAnswer {
    if (this.#faults.refusedWrites > 0) return this.refuse();
    if (name === 'SlbOperEnhGroupRealServerTable')
      return this.#override(key.join('/'), Number(body['State']));
    const table = name.replace(/^SlbNewCfg/, '');
    if (table === name || schemas[table] === undefined) return refuse(`no table ${name} to write`);
    const problem = writeRow(this.candidate, method, [table, ...key], body);
    return problem === null ? ok : refuse(problem);
  }

  /** One of the writes that are refused. */
  refuse(): UnitAnswer {
    this.#faults.refusedWrites -= 1;
    return refuse('the unit is busy');
  }

  #override(key: string, state: number): UnitAnswer {
    if (!readTable(this.running, 'EnhGroupRealServerTable').has(key))
      return refuse(`no member ${key} in force`);
    if (!(state >= 1 && state <= 4)) return refuse('State is out of range');
    this.overrides.set(key, state);
    return ok;
  }

  #findRows(name: string): readonly PrintedRow[] | null {
    const nameToRows: Readonly<Record<string, () => readonly PrintedRow[]>> = {
      AgApplyTable: () => printWords(this.#apply.problem),
      AgSaveTable: () => printWords(this.#save.problem),
      SlbOperEnhGroupRealServerTable: () => this.#printMembers(),
      SlbStatEnhRServerTable: () => this.#printSessions(),
    };
    const print = nameToRows[name];
    if (print !== undefined) return print();
    const [, which, table = ''] = /^Slb(New|Cur)Cfg(.+)$/.exec(name) ?? [];
    const schema = schemas[table];
    if (schema === undefined) return null;
    return [...readTable(which === 'New' ? this.candidate : this.running, table)].map(([path, row]) => {
      const parts = path.split('/').map((part, at) => [schema.keys[at] ?? '', part] as const);
      return { path, row: { ...Object.fromEntries(parts), ...spellOut(row) } };
    });
  }

  #printMembers(): readonly PrintedRow[] {
    return [...readTable(this.running, 'EnhGroupRealServerTable').keys()].map((path) => {
      const [RealServGroupIndex = '', ServIndex = ''] = path.split('/');
      const Status = this.readMemberState(path);
      const RuntimeStatus = Status === 1 ? 1 : 3;
      return { path, row: { RealServGroupIndex, ServIndex, State: Status, Status, RuntimeStatus } };
    });
  }

  #printSessions(): readonly PrintedRow[] {
    return [...readTable(this.running, 'EnhRealServerTable').keys()].map((Index) => ({
      path: Index,
      row: { Index, CurrSessions: this.sessions.get(Index) ?? 0, TotalSessions: 0 },
    }));
  }
}

interface PrintedRow {
  readonly path: string;
  readonly row: AlteonRow;
}

function printWords(said: string): readonly PrintedRow[] {
  if (said === '') return [];
  return said.split('\n').map((text, at) => ({ path: `${at + 1}`, row: { Index: at + 1, StringVal: text } }));
}

function finish(work: Work, act: () => string | null): void {
  if (work.state !== states.inProgress) return;
  work.remaining -= 1;
  if (work.remaining > 0) return;
  const problem = act();
  Object.assign(work, { state: problem === null ? states.complete : states.failed, problem: problem ?? '' });
}

function refuse(message: string): UnitAnswer {
  return { status: 200, body: { status: 'err', message } };
}

/** Units print IPv6 without `::`. */
function spellOut(row: AlteonRow): AlteonRow {
  const columns = ['Ipv6Addr', 'VirtServerIpv6Addr'].filter((column) =>
    String(row[column] ?? '').includes('::'),
  );
  return { ...row, ...Object.fromEntries(columns.map((column) => [column, expand(String(row[column]))])) };
}

function expand(text: string): string {
  const [head = '', tail = ''] = text.split('::').map((part) => part.split(':').filter(Boolean).join(':'));
  const count = [head, tail].flatMap((part) => (part === '' ? [] : part.split(':'))).length;
  return [head, ...Array.from({ length: 8 - count }, () => '0'), tail].filter(Boolean).join(':');
}
