import type { Stage } from './stage.ts';
import type { Load } from './load.ts';
import { type Slice, type Sum, addUp } from './slice.ts';

/** What became of a flush of the nat table while a client went on. */
export interface FlushReport {
  /** From just before the flush until PREROUTING was seen to lead to our rules again; null when that took over 5 s. */
  readonly repairedMs: number | null;
  /** Of the client through vipnat, from half a second before the flush until half a second after the repair. */
  readonly sum: Sum;
}

/** All of our rules are written in one transaction: with the jump, the rest is there. */
const flushScript = `
start=\${EPOCHREALTIME/[.,]/}
iptables-nft -t nat -F
while [[ $(iptables-nft -t nat -S PREROUTING) != *'-j VIPNAT'* ]]; do
  (( \${EPOCHREALTIME/[.,]/} - start < 5000000 )) || exit 3
done
echo $(( (\${EPOCHREALTIME/[.,]/} - start) / 1000 ))
`;

/** Empties the host's nat table, kube-proxy's rules with it, under a steady load of new connections to the VIP. */
export async function flushNat(stage: Stage, load: Load, host: string): Promise<FlushReport> {
  const first = (await load.nextSlice()) - 1;
  const { exitCode, stdout } = await stage.run(host, ['bash', '-c', flushScript]);
  const last = await load.nextSlice();
  const slices: Slice[] = [];
  for (let index = first; index < last; index += 1) slices.push(...(await load.readSlice(index)).slice(0, 1));
  return { repairedMs: exitCode === 0 ? Number(stdout) : null, sum: addUp(slices) };
}
