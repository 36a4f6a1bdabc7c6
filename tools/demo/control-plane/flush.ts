import type { Stage } from './stage.ts';
import { vips, apiserverPort } from '../../../test/support/network/layout.ts';

/** What became of a flush of the nat table while a client went on. */
export interface FlushReport {
  /** From just before the flush until PREROUTING was seen to lead to our rules again; null when that took over 5 s. */
  readonly repairedMs: number | null;
  readonly sent: number;
  readonly failed: number;
}

const perSecond = 100;
const durationMs = 2500;

/** The client has warmed up by then. */
const flushAfterMs = 700;

/** All of our rules are written in one transaction: with the jump, the rest is there. */
const flushScript = `
start=\${EPOCHREALTIME/[.,]/}
iptables-nft -t nat -F
while [[ $(iptables-nft -t nat -S PREROUTING) != *'-j VIPNAT'* ]]; do
  (( \${EPOCHREALTIME/[.,]/} - start < 5000000 )) || exit 3
done
echo $(( (\${EPOCHREALTIME/[.,]/} - start) / 1000 ))
`;

/** Empties the host's nat table, kube-proxy's rules with it, under a steady stream of new connections to the VIP. */
export async function flushNat(stage: Stage, host: string): Promise<FlushReport> {
  const target = { host: vips.ipv4, port: apiserverPort };
  const stream = stage.seat('outside client').requestAtRate(target, perSecond, durationMs);
  await new Promise((resolve) => setTimeout(resolve, flushAfterMs));
  const { exitCode, stdout } = await stage.run(host, ['bash', '-c', flushScript]);
  const { answers } = await stream;
  return {
    repairedMs: exitCode === 0 ? Number(stdout) : null,
    sent: answers.length,
    failed: answers.filter(({ error }) => error !== undefined).length,
  };
}
