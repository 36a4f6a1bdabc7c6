import { existsSync, rmSync } from 'node:fs';
import { locateLab } from './state.ts';

const maxTries = 20;

/** On Ctrl-C and SIGTERM, removes what a lab of this name has on disk and ends this process, and with it all that it runs there. */
export function removeLabOnSignal(name: string): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      // Whatever still runs may write a last line meanwhile; and rmSync ends where somebody else removes a file before it.
      for (let tries = 0; tries < maxTries && existsSync(locateLab(name)); tries += 1) {
        rmSync(locateLab(name), { recursive: true, force: true, maxRetries: 5 });
      }
      process.exit(130);
    });
  }
}
