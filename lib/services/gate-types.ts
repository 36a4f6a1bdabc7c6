/** Types of readiness gates that vipnat opens. */
import { readJson } from '../kubernetes/read-json.ts';
import { electionLease, gateType, gateTypesAnnotation } from './names.ts';
import { type Lease } from './node-report.ts';

/** A name with a prefix: those without one are Kubernetes' own, such as Ready. Source: apimachinery, IsQualifiedName. */
export function isGateType(text: string): boolean {
  const [prefix = '', name = '', ...more] = text.split('/');
  const label = '[a-z0-9](?:[a-z0-9-]*[a-z0-9])?';
  const isDomain = prefix.length <= 253 && new RegExp(`^${label}(?:\\.${label})*$`).test(prefix);
  return more.length === 0 && isDomain && /^[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?$/.test(name);
}

/** The usual type, and others that were asked for. */
export function toGateTypes(others: readonly string[]): ReadonlySet<string> {
  return new Set([gateType, ...others]);
}

/** So many are read: a pod seldom has more gates than one. */
const maxTypes = 100;

/** What the controller notes on its Lease, so that its types are known while none leads. */
export function toGateTypesNote(types: ReadonlySet<string>): Record<string, string> {
  return { [gateTypesAnnotation]: JSON.stringify([...types].sort()) };
}

/** The types that the controller opens, or the last one did: the usual one, and those that it noted. What is none says nothing. Pure. */
export function readGateTypes(leases: readonly Lease[]): ReadonlySet<string> {
  const election = leases.find(({ metadata }) => metadata.name === electionLease);
  const noted = readJson(election?.metadata.annotations?.[gateTypesAnnotation] ?? '');
  const types = Array.isArray(noted) ? noted.filter((one): one is string => typeof one === 'string') : [];
  return toGateTypes(types.filter(isGateType).slice(0, maxTypes));
}
