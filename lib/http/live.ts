import type { ServerResponse } from 'node:http';
import type { View } from './html.ts';
import { type Clock, Rounds, sleep } from '../clock.ts';
import type { Page } from './pages.ts';

/**
 * A page for people at `/`, and its changes at `/live`, as server-sent events.
 *
 * Goal: whoever watches sees a change within a second.
 * Tension: anybody may watch, and the program has other work.
 * Compromise: one view is made for all who ask, and only its sections that changed are sent. After each, the program rests for 19
 * times as long, so all views take a twentieth of a processor at most. Nothing is made, or loaded, while nobody asks.
 */

interface LiveOptions {
  /** Its calls keep no process alive: whoever asks must not delay the end. */
  readonly clock: Clock;
  /** Reads all that is shown, and answers what makes the view of it without a wait. */
  readonly read: () => Promise<() => View>;
}

/** Changes are looked for so often while somebody watches. */
const intervalMs = 500;

/** Without a change, browsers get a sign of life so often. */
const beatMs = 4000;

/** Each viewer connects again so often: one whose host is gone without closing its connections keeps its place no longer. */
const viewMs = 60_000;

const [restFactor, maxRestMs] = [19, 10_000];

/** By path: the page and its changes. */
export function createLivePages(options: LiveOptions): ReadonlyMap<string, Page> {
  const live = new Live(options);
  return new Map<string, Page>(Object.entries({ '/': live.show, '/live': live.follow }));
}

class Live {
  readonly #options: LiveOptions;
  readonly #viewers = new Set<ServerResponse>();
  readonly #rounds: Rounds;
  /** What all viewers have; null before the first. */
  #sent: View | null = null;
  #sentAt = -Infinity;
  #making: Promise<View> | null = null;
  #last: { readonly view: View; readonly at: number } | null = null;
  #restedAt = 0;

  constructor(options: LiveOptions) {
    this.#options = options;
    const findDelay = () => (this.#viewers.size === 0 ? null : intervalMs);
    this.#rounds = new Rounds(options.clock, () => this.#sendNews(), findDelay);
  }

  readonly show: Page = async () => {
    const { printPage, pageHeaders } = await import('./html.ts');
    const text = printPage(await this.#make(), this.#options.clock.date());
    return { status: 200, type: 'text/html; charset=utf-8', text, headers: pageHeaders };
  };

  // The browser connects again this long after an end.
  readonly follow: Page = () => ({
    ...{ status: 200, type: 'text/event-stream', text: 'retry: 1000\n\n' },
    headers: { connection: 'close' },
    stream: this.#add.bind(this),
  });

  #add(response: ServerResponse): void {
    this.#viewers.add(response);
    const cancel = this.#options.clock.schedule(viewMs, () => {
      this.#viewers.delete(response);
      response.end();
    });
    response.once('close', () => {
      cancel();
      this.#viewers.delete(response);
      if (this.#viewers.size > 0) return;
      this.#sent = null;
      this.#rounds.plan();
    });
    if (this.#sent !== null) response.write(this.#print(this.#sent, Object.keys(this.#sent.sections)));
    this.#rounds.hasten(0);
  }

  async #sendNews(): Promise<void> {
    // Without a sign of life, browsers say that nothing comes.
    const view = await this.#make().catch(() => null);
    if (view !== null && this.#viewers.size > 0) this.#send(view);
  }

  #send(view: View): void {
    const now = this.#options.clock.now();
    const before = this.#sent?.sections;
    const news = Object.keys(view.sections).filter((id) => before?.[id]?.text !== view.sections[id]?.text);
    this.#sent = view;
    if (news.length === 0 && now - this.#sentAt < beatMs) return;
    this.#sentAt = now;
    const text = Buffer.from(this.#print(view, news));
    for (const viewer of this.#viewers) {
      // Whoever does not read what it got connects again when it does.
      if (viewer.writableLength > 0) viewer.destroy();
      else viewer.write(text);
    }
  }

  #print({ title, sections }: View, ids: readonly string[]): string {
    const texts = Object.fromEntries(ids.map((id) => [id, sections[id]?.text]));
    return `data: ${JSON.stringify({ now: this.#options.clock.date().getTime(), title, sections: texts })}\n\n`;
  }

  /** One at a time, for all who ask meanwhile: also for those who are gone by then. */
  #make(): Promise<View> {
    this.#making ??= this.#makeNow().finally(() => (this.#making = null));
    return this.#making;
  }

  async #makeNow(): Promise<View> {
    const { clock, read } = this.#options;
    if (this.#last !== null && clock.now() - this.#last.at < intervalMs / 2) return this.#last.view;
    if (this.#restedAt > clock.now()) await sleep(clock, this.#restedAt - clock.now());
    const make = await read();
    const begunAt = clock.now();
    const view = make();
    const now = clock.now();
    this.#last = { view, at: now };
    this.#restedAt = now + Math.min((now - begunAt) * restFactor, maxRestMs);
    return view;
  }
}
