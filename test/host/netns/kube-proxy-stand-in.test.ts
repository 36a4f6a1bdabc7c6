import { describe, beforeEach, afterEach, expect, test } from '@jest/globals';
import { shownDialects } from '../../support/jest/pairs.ts';
import { Namespaces } from '../../support/network/namespaces.ts';
import { KubeProxyStandIn } from '../../support/kube-proxy/on-host.ts';
import { toolName } from '../../../lib/kernel/port.ts';
import { readCapture } from '../../support/kube-proxy/read-capture.ts';

describe.each(shownDialects)('the stand-in for kube-proxy with iptables-%s', (dialect) => {
  let namespaces: Namespaces;
  let namespace: string;
  let kubeProxy: KubeProxyStandIn;

  beforeEach(async () => {
    namespaces = new Namespaces();
    namespace = await namespaces.create('proxy');
    kubeProxy = new KubeProxyStandIn(namespaces, namespace, dialect);
  });

  afterEach(() => namespaces.close());

  const save = async (table: string) => {
    const tool = toolName('ipv4', dialect, 'save');
    const { exitCode, stdout, stderr } = await namespaces.run(namespace, [tool, '-t', table]);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    return stdout;
  };

  const states = ['three-endpoints', 'no-endpoints'] as const;
  test.each(states)('writes the nat rules that kube-proxy 1.36.3 was seen to write: %s', async (state) => {
    await kubeProxy.sync();
    if (state === 'no-endpoints') await kubeProxy.sync([]);
    const captured = readCapture(`iptables-${dialect}-save.${state}.txt`);
    expect(readNatRules(await save('nat'))).toEqual(readNatRules(captured));
    expect(readNatRules(captured)).toContain('-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000');
  });

  test('puts its jump back to the front when it is gone, and nowhere else when it is there', async () => {
    const ip = toolName('ipv4', dialect);
    await kubeProxy.sync();
    await namespaces.shell(namespace, `${ip} -t nat -I PREROUTING -j RETURN`);
    await kubeProxy.sync();
    expect(listTargets(await save('nat'), 'PREROUTING')).toEqual(['RETURN', 'KUBE-SERVICES']);
    await namespaces.shell(namespace, `${ip} -t nat -D PREROUTING 2`);
    await kubeProxy.sync();
    expect(listTargets(await save('nat'), 'PREROUTING')).toEqual(['KUBE-SERVICES', 'RETURN']);
  });
});

/** The nat rules of kube-proxy's chains, grouped by chain as printed. default/web has other endpoints here. */
function readNatRules(text: string): string[] {
  const nat = /^\*nat$(.*?)^COMMIT$/ms.exec(text)?.[1] ?? '';
  const rules = [...nat.matchAll(/^-A .*KUBE-.*$/gm)].map(([rule]) => rule);
  return rules.filter((rule) => !rule.includes('default/web')).sort(byChain);
}

/** Stable: the order within a chain is what counts. */
function byChain(left: string, right: string): number {
  const [a = '', b = ''] = [left, right].map((rule) => rule.split(' ')[1]);
  return a === b ? 0 : a < b ? -1 : 1;
}

const listTargets = (text: string, chain: string): string[] =>
  [...text.matchAll(new RegExp(`^-A ${chain} .*-j (\\S+)$`, 'gm'))].map(([, target]) => target ?? '');
