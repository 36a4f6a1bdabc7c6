import { quoteText } from '../../config/setting.ts';
import { type NamespacedName } from '../../lib/kubernetes/api-object.ts';
import { servicesNamespace } from '../generate/manifest/options.ts';
import { type Found, type Own, readInterval } from './read-command.ts';

/** From one screen of --watch to the next: each lists all Services anew. */
const defaultWatchMs = 2000;

/** `services`, whose word names one. */
export function readServices(own: Own, words: readonly string[]): Found {
  const { namespace = servicesNamespace, json = false, watch } = own;
  const { watchMs, problems } = readInterval(watch, defaultWatchMs);
  const [word] = words;
  const service = word === undefined ? null : readName(word);
  // Words beside an unknown option may be its values: then only the option is told.
  const isUnclear = words.some((other) => other.startsWith('-'));
  const isWrong = word !== undefined && service === null && !isUnclear;
  return {
    command: { name: 'services', options: { service, namespace, json, watchMs } },
    wordCount: 1,
    problems: [...(isWrong ? [explainName(word)] : []), ...problems],
  };
}

/** Names of namespaces and Services (RFC 1123, a label). */
function readName(word: string): NamespacedName | null {
  const label = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?';
  const [, namespace, name] = new RegExp(`^(${label})/(${label})$`).exec(word) ?? [];
  return namespace === undefined || name === undefined ? null : { namespace, name };
}

function explainName(word: string): string {
  const name = /^[a-z0-9-]{1,63}$/.test(word) ? word : 'web';
  return `${quoteText(word)} is not NAMESPACE/NAME. Example: vipnat services default/${name}`;
}
