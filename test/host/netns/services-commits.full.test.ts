/** A balancer beside a program that writes to nftables all the time, and a kube-proxy with a thousand Services. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { useShims } from '../../support/host/shims.ts';
import { sleep } from '../../support/host/vipnat.ts';
import { startStranger, writeServices } from './busy-host.ts';
import { balanced, useWebService } from './web-service.ts';

/** Three looks at what is forwarded, five seconds apart. */
const watchedMs = 16_000;

/** A look comes after five seconds at the most where tables change, and otherwise in a minute: that is six renewals. */
const fewRenewals = 3;

/** All that a balancer could ask for rules. */
const tools = ['iptables-nft', 'ip6tables-nft'].flatMap((tool) => [tool, `${tool}-save`, `${tool}-restore`]);

/** What drops forwarded packets, and what nftables has beside iptables. */
const firewall = `iptables-nft -P FORWARD DROP
nft -f - <<'END'
add table inet firewall
add chain inet firewall forward { type filter hook forward priority 0; policy drop; }
add rule inet firewall forward ct status dnat accept
END`;

/** It has its rules count for another 30 s every ten seconds. */
const renewal = 'nft -f -';

describe('while a stranger commits 25 times a second, a balancer', () => {
  const web = useWebService();
  const shims = useShims();

  /** The tools that were started since the last call, each with its arguments. */
  const takeStarts = () => {
    const starts = readFileSync(log(), 'utf8').split('\n').slice(0, -1);
    shims.write('starts', '');
    return starts;
  };
  const log = () => join(shims.onlyPath, 'starts');

  test('starts no tool while nothing changes that drops packets, and sees at once what does', async () => {
    shims.write('starts', '');
    for (const tool of [...tools, 'nft'])
      shims.wrap(tool, `echo "${tool} $*" >>'${log()}'\nexec "$TOOL" "$@"`);
    await web.shell('m1', firewall);
    await writeServices(web.cluster, 'm1');
    await startStranger(web.cluster, 'm1');
    const balancer = await web.startBalancer(balanced, { prefix: ['env', `PATH=${shims.path}`] });
    const written = /chain FORWARD of iptables-nft drops packets/;
    await balancer.waitForLine(written);
    // The look after a write reads what it has written.
    await sleep(7000);
    expect(takeStarts()).toContain('iptables-nft -t filter -S FORWARD');
    await sleep(watchedMs);
    expect(takeStarts().filter((start) => start !== renewal)).toEqual([]);
    const from = balancer.log.length;
    await web.shell('m1', 'iptables-nft -F FORWARD');
    await balancer.waitForLine(written, from);
    const starts = takeStarts();
    expect(starts).toContain('iptables-nft-restore --noflush -w 5');
    expect(starts.filter((start) => start === renewal).length).toBeLessThanOrEqual(fewRenewals);
    expect(balancer.listLines(/cannot be looked at|drops forwarded packets by its policy/)).toEqual([]);
    expect((await web.cluster.seat('outside client').greet('10.77.0.60', 80, 20)).errors).toEqual({});
  });
});
