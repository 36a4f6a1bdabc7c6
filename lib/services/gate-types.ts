/** Types of readiness gates that vipnat opens. */
import { gateType } from './names.ts';

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
