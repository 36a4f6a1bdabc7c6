import { isDeepStrictEqual } from 'node:util';
import { type Address } from '../../lib/address/address.ts';
import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { type SilentNode } from '../../lib/services/node-report.ts';
import { type NodeOutages } from '../decide/node-outages.ts';
import { hasNeverAnswered, isReturning, type NodeState } from './node-state.ts';

/** A node that is asked. */
export interface Target {
  readonly address: Address;
  readonly state: NodeState;
  /** Since when it is out, as in ISO 8601; empty while it is not. */
  readonly silentSince: string;
}

/** The same node in another state. `toText` prints a time of the Clock. */
export function withState(before: Target, state: NodeState, toText: (atMs: number) => string): Target {
  const silentSince = state.outSince === null ? '' : before.silentSince || toText(state.outSince);
  return { ...before, state, silentSince };
}

type Targets = ReadonlyMap<string, Target>;

/** The nodes that are out, for people, sorted. */
export function listSilentNodes(targets: Targets): readonly SilentNode[] {
  return [...targets]
    .flatMap(([node, { silentSince: since }]) => (since === '' ? [] : [{ node, since }]))
    .sort((one, other) => (one.node < other.node ? -1 : 1));
}

/** The nodes that have never answered, and where they were asked: `w1 (10.0.0.21:10256)`, sorted. */
export function listUnheard(targets: Targets, port: number): readonly string[] {
  const format = ({ family, text }: Address) => formatEndpoint({ family, address: text, port });
  return [...targets]
    .filter(([, { state }]) => hasNeverAnswered(state))
    .map(([node, { address }]) => `${node} (${format(address)})`)
    .sort();
}

/** The nodes that are out, and those that are lost and silent. The same object as before where nothing has changed. */
export function listOutages(targets: Targets, before: NodeOutages): NodeOutages {
  const list = (isChosen: (state: NodeState) => boolean) =>
    new Set([...targets].flatMap(([node, { state }]) => (isChosen(state) ? [node] : [])));
  const outages = {
    out: list(({ outSince }) => outSince !== null),
    // What is still open when a node answers again goes on, whether it has started again or not: its host answers for that.
    lost: list((state) => state.isLost && !isReturning(state)),
  };
  return isDeepStrictEqual(outages, before) ? before : outages;
}

/** The states of all nodes but one. */
export function listOthers(targets: Targets, node: string): NodeState[] {
  return [...targets].flatMap(([other, { state }]) => (other === node ? [] : [state]));
}
