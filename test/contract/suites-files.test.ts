/**
 * Files that vipnat prints are taken by the keepalived and the HAProxy of each suite of Debian, and tables that vipnat writes leave kube-proxy's
 * nft alone. suites.test.ts has what vipnat itself reads.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { configureUnit, formatInstaller } from '../../devices/haproxy/configuration.ts';
import { makePool, makeSeat, makeVirtualIp } from '../support/fakes/seat-objects.ts';
import { planSeats, renderSeats } from '../../balancer/seats/plan.ts';
import { listPairs, runOnSuite, type Suite, unpackSuite } from '../support/suites/suites.ts';
import { TemporaryFolder } from '../support/network/at-end.ts';
import type { DeviceSettings } from '../../devices/driver.ts';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import { listSubnets } from '../../lib/keepalived/read.ts';
import { locateSeatFiles } from '../../lib/keepalived/write.ts';
import { makeCertificate } from '../support/devices/haproxy-world.ts';
import { parseRange } from '../../lib/net.ts';
import { readFileSync, writeFileSync } from 'node:fs';
import { findPodSpec } from '../support/manifest/printing.ts';
import { quoteWords } from '../../lib/text.ts';

const suites = ['bookworm', 'trixie'] as const;
const folders = {} as Record<Suite, string>;
let made: TemporaryFolder;
beforeAll(() => {
  made = new TemporaryFolder('suites');
  // keepalived and HAProxy of bullseye are older than the documents promise.
  for (const suite of suites) folders[suite] = unpackSuite(suite);
}, 600_000);
afterAll(() => {
  made.remove();
});

const pathOf = (file: string) => fileURLToPath(new URL(file, import.meta.url));
const node = `${process.execPath} --disable-warning=ExperimentalWarning`;
const vipnat = `${node} ${pathOf('../../cli/main.ts')}`;

/** Runs a script, and says what went wrong; null for nothing. */
async function check(suite: Suite, script: string): Promise<string | null> {
  const { status, text } = await runOnSuite(folders[suite], script);
  return status === 0 ? null : `${status}: ${text}`;
}

describe.each(suites)('the keepalived of %s takes what is printed', (suite) => {
  const both = '--vip 10.0.0.50 --vip fd00::50';
  test.each([
    '--vip 10.0.0.50',
    '--vip 10.0.0.50 --advert 300ms --priority 110 --vrid 7',
    '--vip fd00::50 --interface eth0',
    '--vip 10.0.0.50 --vip 10.0.0.50:443 --vip 10.0.0.51 --peers 10.0.0.11,10.0.0.12 --advert 10s',
    `${both} --peers 10.0.0.11,10.0.0.12,fd00::11,fd00::12`,
    `${both} --vrid 7,8 --endpoints 10.0.0.11:6443,10.0.0.12:6443,[fd00::11]:6443,[fd00::12]:6443`,
  ])('by vipnat keepalived %s', async (words) => {
    const file = '/run/vipnat/keepalived/keepalived.conf';
    const script = `${vipnat} keepalived ${words} --output ${file}\nkeepalived -t -f ${file}`;
    expect(await check(suite, script)).toBeNull();
  });

  // The twin: what it does not take, it names.
  test('unless it has a word that it does not know', async () => {
    const script = 'echo unheard of > /run/keepalived.conf\nkeepalived -t -f /run/keepalived.conf';
    expect(await check(suite, script)).toContain('unheard');
  });

  test('for the seats of a balancer', async () => {
    const subnets = listSubnets([
      { family: 'ipv4', address: '10.0.0.11', device: 'eth0', prefixLength: 24 },
      { family: 'ipv6', address: 'fd00::11', device: 'eth0', prefixLength: 64 },
    ]);
    const seats = ['10.0.0.10', 'fd00::10'].map((network, at) => makeSeat(at, network, ['w1', 'w2']));
    const pools = [makePool('default', seats)];
    const names = ['10.0.0.20', '10.0.0.21'].map((name) => makeVirtualIp(name, 'default/0'));
    const virtualIps = [...names, makeVirtualIp('fd00--20', 'default/1')];
    const plan = planSeats({ pools, virtualIps }, { node: 'w2', subnets });
    expect(plan.seats).toHaveLength(2);
    const file = join(made.path, 'seats.conf');
    writeFileSync(file, renderSeats('w2', plan.seats, locateSeatFiles('/run/vipnat-lb')));
    expect(await check(suite, `keepalived -t -f ${file}`)).toBeNull();
  });
});

test.each(suites)(
  'the HAProxy and the keepalived of %s take what is printed for a unit of a pair',
  async (suite) => {
    const hosts = ['10.0.0.11', '10.0.0.12'];
    const { ca, tls } = await makeCertificate(hosts);
    const settings: DeviceSettings = {
      ...{ name: 'edge', cluster: 'prod', units: hosts.map((host) => `${host}:9443`), ca },
      credentials: { username: 'vipnat', password: 'a word' },
      options: { ports: '8080-8081,8443', slots: 'rr=24,lc=4,hash=4', proxyProtocol: 'v2' },
    };
    const ranges = ['10.0.0.60-10.0.0.69', 'fd00::60-fd00::61'].flatMap((text) => parseRange(text) ?? []);
    const [installer, pem] = ['unit.sh', 'tls.pem'].map((name) => join(made.path, name));
    writeFileSync(installer ?? '', formatInstaller(configureUnit(settings, ranges, 0)));
    writeFileSync(pem ?? '', tls);
    const script = `
    (umask 0; sh ${installer})
    cp ${pem} /etc/vipnat-haproxy/tls.pem
    /etc/vipnat-haproxy/unit prepare
    haproxy -c -f /etc/vipnat-haproxy/haproxy.cfg
    grep -qx ' *vrrp_garp_master_refresh 60' /etc/keepalived/keepalived.conf
    keepalived -t`;
    expect(await check(suite, script)).toBeNull();
  },
);

// A container's root is read-only, and keepalived is pid 1 of some: of that pid a killed one's file says that it runs.
test.each(suites.flatMap((suite) => ['keepalived', 'services'].map((file) => [suite, file] as const)))(
  'the keepalived of %s starts as manifests/%s.yaml has it, after one that was killed',
  async (suite, file) => {
    const manifest = readFileSync(pathOf(`../../manifests/${file}.yaml`), 'utf8');
    const container = findPodSpec(manifest).containers.find(({ name }) => name === 'keepalived');
    const words = quoteWords([...(container?.command ?? []), ...(container?.args ?? [])]);
    const mounts = container?.volumeMounts.map(({ mountPath }) => mountPath) ?? [];
    const script = `
      mount -o remount,ro /run
      for folder in ${mounts.join(' ')}; do
        mkdir -p $folder
        mount -t tmpfs tmpfs $folder
        echo 1 >$folder/keepalived.pid
        printf 'vrrp_instance one {\ninterface eth0\nvirtual_router_id 7\n}\n' >$folder/keepalived.conf
      done
      log=$(mktemp /dev/shm/XXXXXX)
      unshare --pid --fork --kill-child -- ${words} >$log 2>&1 &
      timeout 30 sh -c 'while kill -0 $1 && ! grep -q "BACKUP STATE" $2; do sleep 0.1; done' sh $! $log || true
      kill -KILL $! || true
      cat $log; rm $log`;
    const { text } = await runOnSuite(folders[suite], script);
    expect(text).toContain('Entering BACKUP STATE');
  },
);

// A table as an ordinary /etc/nftables.conf of Debian 13 has it. nft 1.0.6 can neither list nor write anything beside it.
test.each([
  ['is asked', 'bin', null],
  ['is missing', 'none', expect.stringContaining('SIGSEGV')],
])(
  "beside rules of a node's newer nft, vipnat works where the image's second nft %s",
  async (_, second, said) => {
    const ruleset =
      'table inet host { chain c { type filter hook input priority 0; iifname vmap { "lo" : accept }; }; }';
    const script = `
    mount -t tmpfs tmpfs /opt
    mkdir /opt/vipnat
    ln -s ${folders.trixie}/${second} /opt/vipnat/nft
    ${folders.trixie}/bin/nft '${ruleset}'
    ip address add 10.0.0.50/32 dev lo
    ${vipnat} run --once --mode direct --iptables none --vip 10.0.0.50 --endpoints 10.0.0.11:6443
    ${folders.trixie}/bin/nft list tables | grep -q vipnat`;
    expect(await check('bookworm', script)).toEqual(said);
  },
);

describe("kube-proxy's nft goes on beside what vipnat writes", () => {
  const words = '--mode direct --iptables none --vip 10.0.0.50 --endpoints 10.0.0.11:6443,10.0.0.12:6443';
  const element = '10.96.9.9 . tcp . 80 : goto service-SUSTUHLJ-default/web/tcp/http';
  const writes = {
    "the API's VIP": `${vipnat} run --once ${words} >&2`,
    Services: `${node} ${pathOf('suites-services.ts')} $1/bin $1/bin`,
    'a set with the types of its keys':
      'nft add table ip another; nft add set ip another one "{ type ipv4_addr; }"',
  };

  test.each(
    listPairs('kube-proxy beside both').flatMap((pair) =>
      (Object.keys(writes) as (keyof typeof writes)[]).map((what) => [...pair, what] as const),
    ),
  )('by the nft of %s, where that of %s is its own: %s', async (writer, reader, what) => {
    const script = `
      ip address add 10.0.0.50/32 dev lo
      ${writes[what]}
      nft list tables | grep -q .
      own=${folders[reader]}/bin/nft
      $own -f ${pathOf('../support/fixtures/captures/nft-kube-proxy.client-ip-affinity.txt')}
      $own add element ip kube-proxy service-ips '{ ${element} }'
      $own list table ip kube-proxy > /run/listed
      grep -q 10.96.9.9 /run/listed`;
    // The twin: 1.1.3 keeps such types in the kernel in a form that ends 1.0.6 by SIGSEGV.
    const crashes = writer === 'trixie' && what === 'a set with the types of its keys';
    expect(await check(writer, script)).toEqual(crashes ? expect.stringMatching(/^139: /) : null);
  });
});
