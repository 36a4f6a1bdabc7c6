import { areSameEndpoints, type Endpoint, sortEndpoints } from '../../lib/address/endpoint.ts';
import { type Family } from '../../lib/address/address.ts';
import { type Finding } from '../../lib/finding.ts';
import { admit } from './admission.ts';

/** The apiservers to balance over, where they are known from, and who was refused on the way to them. */
export interface Candidates extends Finding<readonly Endpoint[]> {
  readonly refused: readonly string[];
}

/** Where the apiservers of one family may be known from. */
export interface EndpointSources {
  readonly family: Family;
  /** What kube-proxy has programmed, in the mode it runs in. */
  readonly kubeProxy: Finding<readonly Endpoint[]> | null;
  /** `--endpoints`, of any family. */
  readonly configured: readonly Endpoint[];
  /** What kube-proxy had when it was last seen to have any, by this process. */
  readonly remembered: Finding<readonly Endpoint[]> | null;
  /** What our own intact rules in the kernel send connections to: the memory of an agent that is gone. */
  readonly written: readonly Endpoint[];
  /** The VIPs: as a backend each would be a loop. */
  readonly vips: readonly Endpoint[];
}

/**
 * The apiservers to balance over, from the first source that knows any: kube-proxy, the configuration, memory
 * (docs/adr/0003). An empty list names what was looked at.
 */
export function chooseEndpoints(sources: EndpointSources): Candidates {
  const { family, kubeProxy, configured, remembered, written, vips } = sources;
  const refused: string[] = [];
  const candidates = [
    kubeProxy,
    { value: configured, seenIn: '--endpoints' },
    remembered,
    { value: written, seenIn: 'our own rules' },
  ].filter((candidate) => candidate !== null);
  for (const candidate of candidates) {
    const admission = admit(candidate, family, vips);
    refused.push(...admission.refused);
    const { admitted } = admission;
    if (admitted.length > 0) return { value: sortEndpoints(admitted), seenIn: candidate.seenIn, refused };
  }
  return { value: [], seenIn: `neither kube-proxy's rules nor --endpoints name one`, refused };
}

/** Keeps the last answer of kube-proxy, for the time when its rules are gone but its apiservers are not. */
export function rememberEndpoints(
  remembered: Finding<readonly Endpoint[]> | null,
  kubeProxy: Finding<readonly Endpoint[]> | null,
): Finding<readonly Endpoint[]> | null {
  if (kubeProxy === null || kubeProxy.value.length === 0) return remembered;
  if (remembered !== null && areSameEndpoints(remembered.value, kubeProxy.value)) return remembered;
  return { value: kubeProxy.value, seenIn: `last seen in ${kubeProxy.seenIn}` };
}
