import { rmSync } from 'node:fs';
import { locateLab } from './state.ts';

/** On Ctrl-C and SIGTERM, removes what a lab of this name has on disk and ends this process, and with it all that it runs there. */
export function removeLabOnSignal(name: string): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      // Whatever still runs may write a last line meanwhile.
      rmSync(locateLab(name), { recursive: true, force: true, maxRetries: 5 });
      process.exit(130);
    });
  }
}
