import { FakeClock } from '../fakes/clock.ts';
import { FakeKernel } from '../fakes/kernel.ts';
import { readCapture } from '../kube-proxy/read-capture.ts';
import type { Config } from '../../../config/options.ts';
import { emptyState, type ReconcileState, type Assessment } from '../../../agent/decide/decision.ts';
import { observeAndAssess } from '../../../agent/read-host.ts';
import { nobodyProbes } from '../fakes/health.ts';
import { noApi } from '../../../agent/api.ts';
import { formatEndpoint } from '../../../lib/net.ts';

/** A fake kernel in the state that these files of test/support/fixtures/captures show; their names say what they are. */
export function restoreCaptures(names: readonly string[], clock = new FakeClock()): FakeKernel {
  const kernel = new FakeKernel(clock);
  for (const name of names) restoreCapture(kernel, name);
  return kernel;
}

/** Changes a kernel to what one more file shows. Tables are replaced chain by chain, not emptied first. */
export function restoreCapture(kernel: FakeKernel, name: string): void {
  const text = readCapture(name);
  const [, six, backend] = /^ip(6?)tables-(nft|legacy)-save/.exec(name) ?? [];
  if (backend === 'nft' || backend === 'legacy') kernel.run(six === '6' ? 'ipv6' : 'ipv4', backend, text);
  else if (name.startsWith('proc-net-ip_vs')) kernel.setIpvs(text);
  else kernel.setNftProxy('ipv4', (JSON.parse(text) as { nftables: unknown[] }).nftables);
}

/** One look, with kube-proxy giving this answer about its mode. */
export function lookOnce(
  kernel: FakeKernel,
  config: Config,
  { memory = emptyState, answer = null }: { memory?: ReconcileState; answer?: string | null } = {},
): Promise<Assessment> {
  return observeAndAssess(
    { kernel, askProxyMode: () => Promise.resolve(answer), health: nobodyProbes, api: noApi },
    config,
    memory,
  );
}

/** The only VIP's decision, in short. */
export function decisionOf({ decisions: [decision] }: Assessment) {
  if (decision === undefined) throw new Error('no decision');
  return { ...decision, backends: decision.backends.map(formatEndpoint) };
}
