import { type ControlPlane, masterNames } from './control-plane.ts';
import { masters as hosts, vips } from '../../network/layout.ts';
import { isReachable } from './masters.ts';

const { ipv4: vip } = vips;

/** kube-proxy's chain for default/kubernetes, which names each endpoint by its address. */
const nftChain = 'service-2QRHZV4L-default/kubernetes/tcp/https';

/**
 * Which masters an agent can know of: what the API lists where it has credentials, else what kube-proxy on its host has
 * written. A new apiserver is there some seconds later, and how many is not vipnat's affair.
 */
export class Knowledge {
  readonly #plane: ControlPlane;
  readonly #last = new Map<string, readonly string[]>();

  constructor(plane: ControlPlane) {
    this.#plane = plane;
  }

  /** The masters that the agent on a master must know by now; what was there last, where rules are gone: it remembers. */
  async read(master: string): Promise<readonly string[]> {
    const found = this.#plane.credentialed.has(master)
      ? await this.#readSlice()
      : await this.#readProxy(master);
    const known = found.length > 0 ? found : (this.#last.get(master) ?? []);
    this.#last.set(master, known);
    return known;
  }

  /** The masters that kube-proxy on a master has written. */
  async #readProxy(master: string): Promise<string[]> {
    const { mode, iptables } = this.#plane.proxy(master);
    const machine = this.#plane.lab.machine(master);
    if (mode === 'nftables') {
      const { stdout } = await machine.run(['nft', 'list', 'chain', 'ip', 'kube-proxy', nftChain]);
      return listNamed(stdout, ({ addresses }) => addresses.ipv4);
    }
    const { stdout } = await machine.run([`iptables-${iptables}-save`, '-t', 'nat']);
    const lines = stdout.split('\n').filter(isEndpoint);
    return listNamed(lines.join('\n'), ({ addresses }) => addresses.ipv4);
  }

  /** By an apiserver that is sound: it tells what all of them know. */
  async #readSlice(): Promise<string[]> {
    const [server] = this.#plane.usable();
    if (server === undefined) return [];
    const { lab } = this.#plane;
    const { authority, admin } = lab.certificates;
    const path = '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes';
    const { stdout } = await lab
      .machine(server)
      .run([
        ...['curl', '-s', '--max-time', '3', '--cacert', authority],
        ...['--cert', admin.certificate, '--key', admin.key, `https://127.0.0.1:6443${path}`],
      ]);
    return listNamed(stdout, ({ addresses }) => `"${addresses.ipv4}"`);
  }
}

/** The masters that hold the VIP and are reached by others. */
export async function listHolders({ lab, masters }: ControlPlane): Promise<string[]> {
  const reached = masters.filter(isReachable).map(({ name }) => name);
  return (await lab.listHolders()).filter((name) => reached.includes(name));
}

function isEndpoint(line: string): boolean {
  return !line.includes(vip) && /^-A KUBE-SEP-\w+ .*"default\/kubernetes:https".*-j DNAT/.test(line);
}

function listNamed(text: string, render: (host: (typeof hosts)[number]) => string): string[] {
  return masterNames.filter((name) => {
    const host = hosts.find((one) => one.name === name);
    return host !== undefined && text.includes(render(host));
  });
}
