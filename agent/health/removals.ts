/**
 * Apiservers that somebody took from the list on purpose: they answer, and are no fallback any more.
 *
 * Goal: no connection goes to a master that was removed, which may be another cluster's by now, or half of a split one.
 * Tension: apiservers that shut down or die leave the list too, may be back before any list says so, and are a fallback
 * then (docs/adr/0003). Some leave the list before anything is seen of their end.
 * Compromise: one that leaves a live list in good health is asked on for a while. It counts as removed when it and all
 * who are listed did well all that time; whatever else is seen of it, it stays a fallback.
 */
import { type Family } from '../../lib/address/address.ts';
import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { type EndpointHealth, isWell } from './endpoint-health.ts';
import { judgeBeside } from './judge.ts';
import { type ProbeResult, addResult } from '../probe/probe-history.ts';

/** Good answers on end, one a second: an apiserver that was told to stop has ended by then, or says that it does. */
const answersToRemove = 45;

/** After this many answers without enough good ones in a row, the apiserver is no longer asked: the listed ones are not healthy. */
const maxAnswers = 300;

/** So many are kept in mind, as many as memory keeps (docs/adr/0003). */
const maxRemovals = 8;

/** One that left a live list in good health. */
interface Leaver {
  readonly health: EndpointHealth;
  /** Good answers on end while all who are listed did well. */
  readonly good: number;
  readonly answers: number;
}

/** Whom a live source, the API or kube-proxy, lists: of one that lists nobody of a family nothing is known. */
export interface LiveList {
  readonly endpoints: readonly Endpoint[];
  readonly live: readonly Endpoint[];
}

/** Follows those who leave. */
export class Removals {
  #list: LiveList = { endpoints: [], live: [] };
  #leavers: readonly Leaver[] = [];

  /** Those who are to be probed. */
  get asked(): readonly Endpoint[] {
    return this.#leavers.filter((one) => !isOver(one)).map(({ health }) => health.endpoint);
  }

  /** Those who were removed, as text. */
  get removed(): ReadonlySet<string> {
    return new Set(this.#leavers.filter(isRemoved).map(({ health }) => formatEndpoint(health.endpoint)));
  }

  /** To be told of each list, and of those who are watched no more, as they were last. */
  watch(list: LiveList, left: readonly EndpointHealth[]): void {
    const before = toTexts(this.#list.live);
    const listed = toTexts(list.endpoints);
    const families = new Set<Family>(list.live.map(({ family }) => family));
    this.#list = list;
    const begun = left
      .filter(({ endpoint }) => before.has(formatEndpoint(endpoint)) && families.has(endpoint.family))
      .filter((one) => !one.isLocal && isInGoodHealth(one))
      .map((health) => ({ health, good: 0, answers: 0 }));
    const kept = this.#leavers.filter(({ health }) => !listed.has(formatEndpoint(health.endpoint)));
    this.#leavers = [...begun, ...kept].slice(0, maxRemovals);
  }

  /** Adds what a probe has shown of an apiserver; `all` are those who are watched, and how. */
  learn(
    text: string,
    result: ProbeResult,
    {
      askedAt,
      all,
      now,
    }: { readonly askedAt: number; readonly all: readonly EndpointHealth[]; readonly now: number },
  ): void {
    if (!this.asked.some((endpoint) => formatEndpoint(endpoint) === text)) return;
    this.#leavers = this.#leavers.flatMap((leaver) => {
      const { endpoint, history } = leaver.health;
      if (formatEndpoint(endpoint) !== text) return [leaver];
      const listed = this.#findListed(endpoint.family, all);
      const next = { ...leaver.health, history: addResult(history, result, askedAt) };
      const health = judgeBeside(next, { others: listed, now, goneAt: [] });
      if (!isInGoodHealth(health)) return [];
      if (result.kind !== 'ready') return [{ ...leaver, health }];
      const good = listed.length > 0 && listed.every((one) => isWell(one)) ? leaver.good + 1 : 0;
      return [{ health, good, answers: leaver.answers + 1 }];
    });
  }

  #findListed(family: Family, all: readonly EndpointHealth[]): EndpointHealth[] {
    const texts = toTexts(this.#list.live);
    return all.filter(({ endpoint }) => endpoint.family === family && texts.has(formatEndpoint(endpoint)));
  }
}

/** Nothing speaks against it, and a question was answered well. */
function isInGoodHealth(one: EndpointHealth): boolean {
  const { failure, unanswered, readyAt } = one.history;
  return (
    one.state === 'ready' && isWell(one) && failure === null && unanswered === 0 && readyAt !== -Infinity
  );
}

function isRemoved({ good }: Leaver): boolean {
  return good >= answersToRemove;
}

function isOver(one: Leaver): boolean {
  return isRemoved(one) || one.answers >= maxAnswers;
}

function toTexts(endpoints: readonly Endpoint[]): ReadonlySet<string> {
  return new Set(endpoints.map(formatEndpoint));
}
