import { type StepKey } from '../world/keys.ts';

/** A key as the queue has it: `Service/NAMESPACE/NAME`, `VirtualIP/NAME`. No name has a slash. */
export function formatKey(key: StepKey): string {
  return 'namespace' in key ? `${key.kind}/${key.namespace}/${key.name}` : `${key.kind}/${key.name}`;
}

/** The key of such a text. */
export function parseKey(text: string): StepKey {
  const [kind, first = '', second = ''] = text.split('/');
  if (kind === 'Service' || kind === 'EarlySlices' || kind === 'Pod')
    return { kind, namespace: first, name: second };
  if (kind === 'VirtualIP' || kind === 'AddressPool' || kind === 'Lease') return { kind, name: first };
  throw new TypeError(`no key: ${text}`);
}
