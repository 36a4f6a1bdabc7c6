import { afterAll, beforeAll } from '@jest/globals';
import { buildComponents } from '../lab/build/build.ts';
import { type Lab } from '../lab/lab.ts';
import { defaultOptions, type LabOptions } from '../lab/options.ts';
import { raiseLab } from '../lab/raise.ts';

/** Components that nobody built yet take minutes. */
const upLimitMs = 15 * 60_000;

const say = (line: string) => {
  process.stderr.write(`${line}\n`);
};

/** A lab for all tests of a file, up before the first one and gone after the last. Answers how to get at it. */
export function useLab(options: Partial<LabOptions>): () => Lab {
  let lab: Lab | undefined;
  beforeAll(async () => {
    const whole = { ...defaultOptions, ...options };
    const name = `test-${process.pid}-${whole.proxyMode}-${whole.iptables}`;
    await buildComponents(whole.kubernetes, say);
    const started = performance.now();
    lab = await raiseLab({ ...whole, name });
    say(`lab ${name} is up after ${((performance.now() - started) / 1000).toFixed(0)} s`);
  }, upLimitMs);
  afterAll(async () => {
    await lab?.down();
  }, 60_000);
  return () => {
    if (lab === undefined) throw new Error('the lab is not up');
    return lab;
  };
}

/** A lab in a few words. */
export function nameLab({ options }: Lab): string {
  const { kubernetes, proxyMode, iptables, family } = options;
  const backend = proxyMode === 'nftables' ? '' : ` (iptables-${iptables})`;
  return `Kubernetes ${kubernetes}, ${proxyMode} mode${backend}, ${family}`;
}
