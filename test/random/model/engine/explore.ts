/**
 * Every interleaving, breadth first: what happens by itself (a step) costs nothing, what happens to it (an action)
 * costs one. So each state of a process that is left alone is a place at which every action can strike, up to a
 * number of actions; and what is left alone from any state is known to come to rest, and after how much.
 */

/** Where a search is, and how it got there. */
export interface Node<State> {
  readonly state: State;
  readonly key: string;
  /** How many actions it took at least. */
  readonly depth: number;
  readonly from: Node<State> | null;
  readonly by: string;
  /** What comes next when nothing happens; itself at rest. Null until it was tried. */
  next: Node<State> | null;
}

export interface System<State> {
  /** With what it is called. */
  readonly initial: readonly { readonly name: string; readonly state: State }[];
  /** Equal for states that can go on in the same ways only. */
  readonly toKey: (state: State) => string;
  readonly step: (state: State) => Promise<State>;
  readonly actions: readonly {
    readonly name: string;
    readonly run: (state: State) => State | Promise<State>;
  }[];
  /** What is wrong with a state, given all that follows from it when nothing happens; empty for nothing. */
  readonly check: (node: Node<State>) => Promise<readonly string[]>;
  /** How many steps it may take to come to rest. */
  readonly maxSteps: number;
}

interface Extent {
  readonly states: number;
  readonly transitions: number;
  readonly depth: number;
}

/** A state that should not be, with the shortest way to it. */
export class Violation extends Error {
  readonly actions: readonly string[];

  constructor(complaints: readonly string[], actions: readonly string[]) {
    super(`${complaints.join('; ')}\nafter:\n${actions.map((action) => `  ${action}`).join('\n')}`);
    this.actions = actions;
  }
}

/** Searches all states up to a number of actions. Throws the first Violation: none takes fewer actions. */
export async function explore<State>(system: System<State>, maxDepth: number): Promise<Extent> {
  return await new Search(system).run(maxDepth);
}

class Search<State> {
  readonly #system: System<State>;
  readonly #nodes = new Map<string, Node<State>>();
  #transitions = 0;

  constructor(system: System<State>) {
    this.#system = system;
  }

  async run(maxDepth: number): Promise<Extent> {
    let begun = this.#system.initial.flatMap(({ name, state }) => this.#addNew(state, null, name));
    for (let depth = 0; ; depth += 1) {
      const level = await this.#followAll(begun);
      if (depth === maxDepth) break;
      begun = [];
      for (const node of level) begun.push(...(await this.#strike(node)));
    }
    return { states: this.#nodes.size, transitions: this.#transitions, depth: maxDepth };
  }

  /** Everything that follows from these when nothing happens, checked. */
  async #followAll(begun: readonly Node<State>[]): Promise<Node<State>[]> {
    const level: Node<State>[] = [];
    for (const start of begun) {
      const mode = await this.#follow(start);
      level.push(...mode);
      for (const node of mode.toReversed()) {
        const complaints = await this.#system.check(node);
        if (complaints.length > 0) throw new Violation(complaints, describeMode(node));
      }
    }
    return level;
  }

  /** The new nodes on the way from a node to one at rest, or to one that was followed before. */
  async #follow(start: Node<State>): Promise<Node<State>[]> {
    const mode: Node<State>[] = [];
    let node = start;
    for (; node.next === null; node = node.next) {
      mode.push(node);
      const state = await this.#system.step(node.state);
      this.#transitions += 1;
      node.next = this.#add(state, node, 'the agent goes on').node;
      if (mode.length > this.#system.maxSteps) throw toRestless(node);
    }
    // What was followed before comes to rest, or would have been reported; what begins anew here never does.
    if (node.next !== node && mode.includes(node)) throw toRestless(mode.at(-1) ?? node);
    return mode;
  }

  /** Every action in a state; answers the states that are new by it. */
  async #strike(node: Node<State>): Promise<Node<State>[]> {
    const begun: Node<State>[] = [];
    for (const { name, run } of this.#system.actions) {
      const state = await run(node.state);
      if (state === node.state) continue;
      this.#transitions += 1;
      begun.push(...this.#addNew(state, node, name));
    }
    return begun;
  }

  #addNew(state: State, from: Node<State> | null, by: string): Node<State>[] {
    const { node, isNew } = this.#add(state, from, by);
    return isNew ? [node] : [];
  }

  #add(state: State, from: Node<State> | null, by: string): { node: Node<State>; isNew: boolean } {
    const key = this.#system.toKey(state);
    const known = this.#nodes.get(key);
    if (known !== undefined) return { node: known, isNew: false };
    const isStep = by === 'the agent goes on';
    const depth = from === null ? 0 : from.depth + (isStep ? 0 : 1);
    const node: Node<State> = { state, key, depth, from, by, next: null };
    this.#nodes.set(key, node);
    return { node, isNew: true };
  }
}

function toRestless<State>(node: Node<State>): Violation {
  return new Violation(['does not come to rest (I7)'], describeMode(node));
}

function describeMode<State>(node: Node<State>): string[] {
  return [...(node.from === null ? [] : describeMode(node.from)), node.by];
}
