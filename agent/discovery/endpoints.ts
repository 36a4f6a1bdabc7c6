import {
  areSameEndpoints,
  type Endpoint,
  formatEndpoint,
  sortEndpoints,
} from '../../lib/address/endpoint.ts';
import { type Family } from '../../lib/address/address.ts';
import { type Finding } from '../../lib/finding.ts';

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
export function chooseEndpoints(sources: EndpointSources): Finding<readonly Endpoint[]> {
  const { family, kubeProxy, configured, remembered, written, vips } = sources;
  const vipTexts = new Set(vips.map(formatEndpoint));
  const candidates = [
    kubeProxy,
    { value: configured, seenIn: '--endpoints' },
    remembered,
    { value: written, seenIn: 'our own rules' },
  ].filter((candidate) => candidate !== null);
  for (const { value, seenIn } of candidates) {
    const endpoints = value.filter(
      (endpoint) => endpoint.family === family && !vipTexts.has(formatEndpoint(endpoint)),
    );
    if (endpoints.length > 0) return { value: sortEndpoints(endpoints), seenIn };
  }
  return { value: [], seenIn: `neither kube-proxy's rules nor --endpoints name one` };
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
