import { type Endpoint, formatEndpoint, sortEndpoints } from '../../lib/address/endpoint.ts';
import { type Config } from '../../config/config.ts';
import { admit, maxEndpoints } from '../endpoints/admission.ts';
import { type Decision } from './decision.ts';

/** Who is known of a VIP. */
interface Known {
  readonly decision: Pick<Decision, 'vip' | 'backends'>;
  /** The listed apiservers. */
  readonly candidates: readonly Endpoint[];
  /** Those of the VIP's family that rules of ours name, see listAnswering. */
  readonly installed: readonly Endpoint[];
}

/**
 * Whoever may answer connections to a VIP. Those who get new connections and all listed ones, as they may have open ones. Of those who
 * left the list, as rules of ours name them: whoever has open connections, and all where nobody has counted. Pure.
 */
export function listAnswerers(
  { decision: { vip, backends }, candidates, installed }: Known,
  open: ReadonlySet<string> | null,
  { vips }: Pick<Config, 'vips'>,
): readonly Endpoint[] {
  const known = sortEndpoints([...backends, ...candidates]);
  const texts = new Set(known.map(formatEndpoint));
  const { admitted } = admit({ value: installed, seenIn: "vipnat's own rules" }, vip.family, vips);
  const departed = admitted
    .map((one) => ({ one, text: formatEndpoint(one) }))
    .filter(({ text }) => !texts.has(text) && open?.has(text) !== false)
    .map(({ one }) => one);
  return sortEndpoints([...known, ...departed.slice(0, Math.max(0, maxEndpoints - known.length))]);
}
