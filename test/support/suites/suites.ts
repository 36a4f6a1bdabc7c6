import { execFile, execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** The suites of Debian whose tools tests unpack, to what they have. */
export const suites = {
  bullseye: 'nft 0.9.8, iptables 1.8.7',
  bookworm: 'nft 1.0.6, iptables 1.8.9, keepalived 2.2.7, HAProxy 2.6',
  trixie: 'nft 1.1.3, iptables 1.8.11, keepalived 2.3.3, HAProxy 3.0',
} as const;

export type Suite = keyof typeof suites;

/** All of them, the oldest first. */
export const suiteNames = Object.keys(suites) as Suite[];

/** What one suite's tools write, to those whose tools do so, and those whose tools read it. */
const tried = {
  "the API's VIP": { writers: suiteNames, readers: suiteNames },
  // nft 0.9.8 has no maps to an address and a port: kube-proxy serves all Services there.
  Services: { writers: ['bookworm', 'trixie'], readers: ['bookworm', 'trixie'] },
  // Of these suites, kube-proxy's images have had the nft of bookworm.
  'kube-proxy beside both': { writers: ['bookworm', 'trixie'], readers: ['bookworm'] },
} as const satisfies Record<
  string,
  { readonly writers: readonly Suite[]; readonly readers: readonly Suite[] }
>;

/** Each writer of it with each reader. */
export function listPairs(what: keyof typeof tried): readonly (readonly [writer: Suite, reader: Suite])[] {
  const { writers, readers } = tried[what];
  return writers.flatMap((writer) => readers.map((reader) => [writer, reader] as const));
}

/** What tests try of one suite's writes with another one's readers. */
export function listTried(writer: Suite, reader: Suite): readonly string[] {
  const names = Object.keys(tried) as (keyof typeof tried)[];
  return names.filter((what) => listPairs(what).some((pair) => pair[0] === writer && pair[1] === reader));
}

/** A folder with `bin` and `root` of a suite of Debian, as test/support/suites/unpack makes it. The first call for a suite downloads packages. */
export function unpackSuite(suite: Suite): string {
  const script = fileURLToPath(new URL('unpack', import.meta.url));
  return execFileSync(script, [suite], { encoding: 'utf8' }).trim();
}

interface Ending {
  readonly status: number | string;
  readonly text: string;
}

/**
 * Runs a script of bash in new namespaces, on a host of its own: `eth0` with 10.0.0.11 and fd00::11, an empty /run, and files that others may
 * write in /etc and /var/lib. /usr/local/sbin is as Debian made it once. The suite's own /etc lies above this host's: keepalived 2.3.3 reads a file there at each start.
 */
export async function runOnSuite(suiteFolder: string, script: string): Promise<Ending> {
  const host = `
    mount -t tmpfs tmpfs /run
    mkdir -p /run/own/upper /run/own/work /run/vipnat/keepalived /run/vipnat-lb
    mount -t overlay overlay -o "lowerdir=$1/root/etc:/etc,upperdir=/run/own/upper,workdir=/run/own/work" /etc
    mount -t tmpfs tmpfs /var/lib
    mount -t tmpfs -o mode=2775,gid=50 tmpfs /usr/local/sbin
    ip link set lo up
    ip link add eth0 type veth peer name eth1
    ip link set eth0 up
    ip link set eth1 up
    ip address add 10.0.0.11/24 dev eth0
    ip address add fd00::11/64 dev eth0 nodad
    PATH=$1/bin:$PATH
    ${script}`;
  const words = ['--net', '--mount', '--', 'bash', '-ec', host, 'bash', suiteFolder];
  return await promisify(execFile)('unshare', words).then(
    ({ stdout }) => ({ status: 0, text: stdout }),
    (error: unknown) => {
      const { code, signal, stdout, stderr } = error as Readonly<Record<string, string>>;
      return { status: code ?? signal ?? '', text: `${stdout}${stderr}` };
    },
  );
}
