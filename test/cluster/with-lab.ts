import { randomBytes } from 'node:crypto';
import { existsSync, rmSync } from 'node:fs';
import { afterAll, beforeAll } from '@jest/globals';
import { buildComponents } from '../lab/build/build.ts';
import { Lab } from '../lab/lab.ts';
import { defaultOptions, type LabOptions } from '../lab/options.ts';
import { raiseLab } from '../lab/raise.ts';
import { listLabs, locateLab } from '../lab/state.ts';

/** Components that nobody built yet take minutes. */
const upLimitMs = 15 * 60_000;

const testPrefix = 'test-';

const say = (line: string) => {
  process.stderr.write(`${line}\n`);
};

/** A lab for all tests of a file, up before the first one and gone after the last. Answers how to get at it. */
export function useLab(options: Partial<LabOptions>): () => Lab {
  let lab: Lab | undefined;
  beforeAll(async () => {
    const kubernetes = process.env['LAB_KUBERNETES'] ?? defaultOptions.kubernetes;
    const whole = { ...defaultOptions, kubernetes, ...options };
    const name = `${testPrefix}${process.pid}-${randomBytes(2).toString('hex')}`;
    removeOldLogs();
    await buildComponents(whole.kubernetes, say);
    const started = performance.now();
    lab = await raiseLab({ ...whole, name });
    say(`lab ${name} (${nameLab(lab)}) is up after ${((performance.now() - started) / 1000).toFixed(0)} s`);
  }, upLimitMs);
  afterAll(async () => {
    await lab?.end();
    if (lab !== undefined) say(`the logs of its components are in ${lab.folder} until the next run`);
  }, 60_000);
  return () => {
    if (lab === undefined) throw new Error('the lab is not up');
    return lab;
  };
}

/** The logs of a run are there for whoever looks at its failures; the next run needs the room. */
function removeOldLogs(): void {
  for (const name of listLabs()) {
    if (!name.startsWith(testPrefix) || isRunning(name)) continue;
    rmSync(locateLab(name), { recursive: true, force: true });
  }
}

/** Labs are made by this process or by another one whose number is in the name. */
function isRunning(name: string): boolean {
  return Lab.find(name) !== null || existsSync(`/proc/${name.slice(testPrefix.length).replace(/-.*/, '')}`);
}

/** A lab in a few words. */
export function nameLab({ options }: Lab): string {
  const { kubernetes, proxyMode, iptables, family } = options;
  const hasBackend = proxyMode === 'iptables' || proxyMode === 'ipvs';
  const mode = proxyMode === 'none' ? 'no kube-proxy' : `${proxyMode} mode`;
  return `Kubernetes ${kubernetes}, ${mode}${hasBackend ? ` (iptables-${iptables})` : ''}, ${family}`;
}
