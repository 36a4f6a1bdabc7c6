import { VipnatError } from '../../text/errors.ts';
import { withNetlinkClient } from '../netlink/netlink.ts';
import { readRawRules, type RulePlace } from '../netlink/nft-rules.ts';

/** vipnat asks for a handful of places. */
const maxPlaces = 64;

/** Remembers what a tool said of the rules of a place, as long as they stay as they are. */
export class RuleMemory<T> {
  /** Places to what was said last. */
  readonly #placeToAnswer = new Map<string, { readonly rules: string; readonly answer: T }>();

  /** What `ask` answers, without a call of it while the rules are the same. Rejects as `ask` does. */
  async recall(place: RulePlace, ask: () => Promise<T>): Promise<T> {
    const name = JSON.stringify(place);
    const rules = await describeRules(place);
    const known = this.#placeToAnswer.get(name);
    if (known !== undefined && known.rules === rules) return known.answer;
    this.#placeToAnswer.delete(name);
    const answer = await ask();
    // An answer can be of another moment: it counts for later if the rules are still the same.
    const isSettled = rules !== null && rules === (await describeRules(place));
    if (this.#placeToAnswer.size >= maxPlaces) this.#placeToAnswer.clear();
    if (isSettled) this.#placeToAnswer.set(name, { rules, answer });
    return answer;
  }
}

/** The same for the same rules; null where the kernel does not answer. */
async function describeRules(place: RulePlace): Promise<string | null> {
  try {
    const { handles, digest } = await withNetlinkClient('netfilter', (client) => readRawRules(client, place));
    return `${digest} ${handles.join()}`;
  } catch (error) {
    if (error instanceof VipnatError) return null;
    throw error;
  }
}
