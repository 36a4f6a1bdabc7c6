import type { Random } from '../../../support/random/random.ts';
import { makeHostileText, addressTexts, edgeNumbers } from '../engine/hostile.ts';
import { optionNames, nameVariable, nameFlag, type Config } from '../../../../config/options.ts';

const good: Readonly<Record<string, readonly string[]>> = {
  vip: ['10.0.0.50:6443', '10.0.0.51', '[fd00::50]:6443', '10.0.0.50, fd00::51'],
  mode: ['auto', 'direct', 'service-chain'],
  proxyMode: ['auto', 'iptables', 'none'],
  iptables: ['auto', 'nft', 'none'],
  clusterIp: ['10.96.0.1', 'fd00:96::1'],
  endpoints: ['10.77.0.11:6443,10.77.0.12:6443', '[fd00:77::11]:6443'],
  masquerade: ['own', 'none'],
  sysctls: ['check'],
  probeInterval: ['250ms', '1.5s'],
  probeTimeout: ['0.333s'],
  nodeName: ['master-1', 'm1.example.com'],
  stateDir: ['/var/lib/vipnat', '/tmp/a b'],
  runDir: ['/run/vipnat'],
  listen: ['off', '127.0.0.1:10268', '[::]:80'],
  logLevel: ['debug'],
  logFormat: ['json'],
};

/** A value for an option: right, wrong, or meant to be more than a value. */
function makeValue(random: Random, name: string): string {
  const known = good[name] ?? ['/etc/kubernetes/pki/ca.crt'];
  if (random.chance(65)) return random.pick(known);
  if (random.chance(40)) return makeHostileText(random);
  if (random.chance(50)) return random.pick([...addressTexts, ...edgeNumbers]);
  return `${random.pick(known)}${makeHostileText(random)}`;
}

/** A configuration in words: of a file, of variables and of the command line. */
interface ConfigWords {
  readonly yaml: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly args: readonly string[];
}

export function makeConfigWords(random: Random): ConfigWords {
  const some = () => random.list(4, () => random.pick(optionNames));
  return {
    yaml: some()
      .map((name) => `${random.chance(95) ? name : makeHostileText(random)}: ${makeValue(random, name)}`)
      .join('\n'),
    environment: Object.fromEntries(
      some().map((name) => [
        random.chance(95) ? nameVariable(name) : `VIPNAT_${makeHostileText(random)}`,
        makeValue(random, name),
      ]),
    ),
    args: [
      ...(random.chance(80) ? ['--vip', '10.0.0.50'] : []),
      ...some().flatMap((name) =>
        random.chance(50)
          ? [nameFlag(name), makeValue(random, name)]
          : [`${nameFlag(name)}=${makeValue(random, name)}`],
      ),
    ],
  };
}

/** YAML as a person writes it, the base of mutations. */
export const yamlFiles: readonly string[] = [
  `# vipnat
vip:
  - 10.0.0.50:6443
  - "[fd00::50]:6443"
endpoints: 10.77.0.11:6443, 10.77.0.12:6443
mode: auto
probeInterval: 250ms
listen: off
`,
  `vip: &a [10.0.0.50]
endpoints: *a
nodeName: !!str m1
masquerade: 'own'
`,
  `{vip: ["10.0.0.50"], logLevel: "debug", stateDir: >-
  /var/lib/vipnat
}
`,
];

/** A whole configuration to plan with, in all that it may be. */
export const makeConfig = (random: Random, base: Config): Config => ({
  ...base,
  mode: random.pick(['auto', 'auto', 'direct', 'service-chain', 'cluster-ip']),
  proxyMode: random.pick(['auto', 'auto', 'auto', 'iptables', 'ipvs', 'nftables', 'none']),
  iptables: random.pick(['auto', 'auto', 'legacy', 'nft', 'none']),
  masquerade: random.pick(['own', 'kube-mark', 'none']),
  sysctls: random.pick(['set', 'check']),
  clusterIps: random.chance(30) ? { ipv4: '10.96.0.1' } : {},
});
