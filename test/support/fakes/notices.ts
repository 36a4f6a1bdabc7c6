import type { NoticeSource } from '../../../lib/keepalived/write.ts';

/** keepalived's named pipe: there is none until something is said. */
export class FakeNotices implements NoticeSource {
  #text: string | null = null;

  say(text: string): void {
    this.#text = (this.#text ?? '') + text;
  }

  end(): void {
    this.#text = null;
  }

  read(): Promise<string | null> {
    const text = this.#text;
    if (text !== null) this.#text = '';
    return Promise.resolve(text);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
