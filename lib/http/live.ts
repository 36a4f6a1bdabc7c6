import type { ServerResponse } from 'node:http';
import type { View } from './html.ts';
import { type Clock, Rounds, sleep } from '../clock.ts';
import { type Page, toText } from './pages.ts';

/**
 * A page for people at `/`, and its changes at `/live`, as server-sent events.
 *
 * Goal: whoever watches sees a change within a second.
 * Tension: anybody may watch, and the program has other work.
 * Compromise: one view is made for all who ask for the same, and only its sections that changed are sent. After each, the program rests for 19
 * times as long, so all views take a twentieth of a processor at most. Nothing is made, or loaded, while nobody asks.
 */

interface LiveOptions {
  readonly clock: Clock;
  /** Reads what a query (`q`) asks for, and answers what makes the view of it without a wait. */
  readonly read: (query: string) => Promise<() => View>;
}

/** Changes are looked for so often while somebody watches. */
const intervalMs = 500;

/** Without a change, browsers get a sign of life so often. */
const beatMs = 4000;

const [restFactor, maxRestMs] = [19, 10_000];

/** So many queries are watched at a time, and none is longer. */
const [maxQueries, maxLength] = [8, 100];

/** Those who watch the same. */
interface Group {
  readonly viewers: Set<ServerResponse>;
  /** What all of them have; null before the first. */
  sent: View | null;
  sentAt: number;
}

/** By path: the page and its changes. */
export function createLivePages(options: LiveOptions): ReadonlyMap<string, Page> {
  const live = new Live(options);
  return new Map<string, Page>(Object.entries({ '/': live.show, '/live': live.follow }));
}

const toQuery = (search: URLSearchParams) => (search.get('q') ?? '').trim().slice(0, maxLength);

class Live {
  readonly #options: LiveOptions;
  readonly #groups = new Map<string, Group>();
  readonly #rounds: Rounds;
  #turn: Promise<unknown> = Promise.resolve();
  #last: { readonly query: string; readonly view: View; readonly at: number } | null = null;
  #restedAt = 0;

  constructor(options: LiveOptions) {
    this.#options = options;
    const findDelay = () => (this.#groups.size === 0 ? null : intervalMs);
    this.#rounds = new Rounds(options.clock, () => this.#sendNews(), findDelay);
  }

  readonly show: Page = async (search) => {
    const { printPage, pageHeaders } = await import('./html.ts');
    const text = printPage(await this.#make(toQuery(search)), this.#options.clock.date());
    return { status: 200, type: 'text/html; charset=utf-8', text, headers: pageHeaders };
  };

  readonly follow: Page = (search) => {
    const query = toQuery(search);
    if (!this.#groups.has(query) && this.#groups.size >= maxQueries)
      return toText(503, 'too many searches are watched');
    // The browser connects again this long after an end.
    return {
      status: 200,
      type: 'text/event-stream',
      text: 'retry: 1000\n\n',
      stream: this.#add.bind(this, query),
    };
  };

  #add(query: string, response: ServerResponse): void {
    const group = this.#groups.get(query) ?? { viewers: new Set(), sent: null, sentAt: -Infinity };
    this.#groups.set(query, group);
    group.viewers.add(response);
    response.once('close', () => {
      group.viewers.delete(response);
      if (group.viewers.size > 0) return;
      this.#groups.delete(query);
      this.#rounds.plan();
    });
    if (group.sent !== null) response.write(this.#print(group.sent, Object.keys(group.sent.sections)));
    this.#rounds.hasten(0);
  }

  async #sendNews(): Promise<void> {
    for (const [query, group] of this.#groups) {
      // Without a sign of life, browsers say that nothing comes.
      const view = await this.#make(query).catch(() => null);
      if (view !== null) this.#send(group, view);
    }
  }

  #send(group: Group, view: View): void {
    const now = this.#options.clock.now();
    const before = group.sent?.sections;
    const news = Object.keys(view.sections).filter((id) => before?.[id]?.text !== view.sections[id]?.text);
    group.sent = view;
    if (news.length === 0 && now - group.sentAt < beatMs) return;
    group.sentAt = now;
    const text = Buffer.from(this.#print(view, news));
    for (const viewer of group.viewers) {
      // Whoever does not read what it got connects again when it does.
      if (viewer.writableLength > 0) viewer.destroy();
      else viewer.write(text);
    }
  }

  #print({ title, sections }: View, ids: readonly string[]): string {
    const texts = Object.fromEntries(ids.map((id) => [id, sections[id]?.text]));
    return `data: ${JSON.stringify({ now: this.#options.clock.date().getTime(), title, sections: texts })}\n\n`;
  }

  /** One at a time. */
  #make(query: string): Promise<View> {
    const made = this.#turn.then(() => this.#makeNow(query));
    this.#turn = made.catch(() => undefined);
    return made;
  }

  async #makeNow(query: string): Promise<View> {
    const { clock, read } = this.#options;
    const last = this.#last;
    if (last?.query === query && clock.now() - last.at < intervalMs / 2) return last.view;
    if (this.#restedAt > clock.now()) await sleep(clock, this.#restedAt - clock.now());
    const make = await read(query);
    const begunAt = clock.now();
    const view = make();
    const now = clock.now();
    this.#last = { query, view, at: now };
    this.#restedAt = now + Math.min((now - begunAt) * restFactor, maxRestMs);
    return view;
  }
}
