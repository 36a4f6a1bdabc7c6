import { metallbNamespace as namespace, readMetallbObjects } from '../shared/metallb-objects.ts';
import type { SmallCluster } from '../shared/small-cluster.ts';
import type { Host } from '../../../test/support/network/layout.ts';
import { locateSpeaker } from '../../lab/build/build.ts';
import { loadBalancerClass } from '../../../lib/api/vipnat.ts';
import { join } from 'node:path';
import { writeFileSync, mkdirSync } from 'node:fs';
import { randomBytes } from 'node:crypto';
import type { Order } from '../shared/service-objects.ts';
import { addressNetwork } from './objects.ts';

/** In MetalLB's own manifest. */
const labels = { app: 'metallb', component: 'speaker' };

/** Where the speakers' objects are created, and when. */
const places: Readonly<Record<string, { readonly path: string; readonly stage: number }>> = {
  Namespace: { path: '/api/v1/namespaces', stage: 0 },
  CustomResourceDefinition: { path: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', stage: 1 },
  ServiceAccount: { path: `/api/v1/namespaces/${namespace}/serviceaccounts`, stage: 1 },
  Role: { path: `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/roles`, stage: 1 },
  ClusterRole: { path: '/apis/rbac.authorization.k8s.io/v1/clusterroles', stage: 1 },
  RoleBinding: { path: `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/rolebindings`, stage: 1 },
  ClusterRoleBinding: { path: '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', stage: 1 },
};

const customPath = `/apis/metallb.io/v1beta1/namespaces/${namespace}`;
const podsPath = `/api/v1/namespaces/${namespace}/pods`;

/** MetalLB's speakers with the objects, rights and settings of its manifest for native mode, metallb-native.yaml. */
export class Metallb {
  readonly #cluster: SmallCluster;
  readonly #nodes: readonly Host[];
  #kubeconfig = '';
  #secretFolder = '';
  #touches = 0;

  private constructor(cluster: SmallCluster, nodes: readonly Host[]) {
    this.#cluster = cluster;
    this.#nodes = nodes;
  }

  /** Writes all objects; no speaker runs yet. */
  static async install(cluster: SmallCluster, nodes: readonly Host[]): Promise<Metallb> {
    const made = new Metallb(cluster, nodes);
    await cluster.write(await readManifest());
    await cluster.waitFor(`${customPath}/l2advertisements`);
    await cluster.write([...orderConfiguration(), ...nodes.flatMap(orderPod)]);
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/speaker/token`;
    const { object } = await cluster.api.ask({ method: 'POST', path, object: { spec: {} } });
    made.#kubeconfig = made.#writeKubeconfig((object['status'] as { readonly token: string }).token);
    made.#secretFolder = made.#writeSecret();
    return made;
  }

  /** As the DaemonSet of the manifest does, with the class of the Services here. */
  async startSpeaker(node: string): Promise<void> {
    const address = this.#nodes.find(({ name }) => name === node)?.addresses.ipv4 ?? '';
    const command = [locateSpeaker(), '--port=9120', '--log-level=info', `--lb-class=${loadBalancerClass}`];
    await this.#cluster.service(node, 'speaker').start(command, {
      KUBECONFIG: this.#kubeconfig,
      METALLB_NAMESPACE: namespace,
      METALLB_NODE_NAME: node,
      METALLB_POD_NAME: toPodName(node),
      METALLB_HOST: address,
      METALLB_ML_BIND_ADDR: address,
      METALLB_ML_LABELS: 'app=metallb,component=speaker',
      METALLB_ML_SECRET_KEY_PATH: this.#secretFolder,
    });
  }

  /** A kubelet writes to its node now and then. A speaker joins the others again then, or within a minute by itself. */
  async touchNode(node: string): Promise<void> {
    this.#touches += 1;
    const body = { metadata: { annotations: { touched: String(this.#touches) } } };
    await this.#cluster.write([{ stage: 0, method: 'PATCH', path: `/api/v1/nodes/${node}`, body }]);
  }

  #writeKubeconfig(token: string): string {
    const path = join(this.#cluster.folder, 'speaker.kubeconfig');
    const cluster = {
      server: this.#cluster.server,
      'certificate-authority': this.#cluster.certificates.authority,
    };
    const content = {
      ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'it' },
      clusters: [{ name: 'it', cluster }],
      users: [{ name: 'it', user: { token } }],
      contexts: [{ name: 'it', context: { cluster: 'it', user: 'it' } }],
    };
    writeFileSync(path, JSON.stringify(content));
    return path;
  }

  /** As its controller makes it. */
  #writeSecret(): string {
    const folder = join(this.#cluster.folder, 'speaker-secret');
    mkdirSync(folder);
    writeFileSync(join(folder, 'secretkey'), randomBytes(128).toString('base64'));
    return folder;
  }
}

async function readManifest(): Promise<Order[]> {
  const objects = await readMetallbObjects();
  return objects
    .map((body): Order => ({ ...placeOf(body), method: 'POST', body }))
    .sort((one, other) => one.stage - other.stage);
}

function placeOf({ kind }: { readonly kind: string }): { readonly path: string; readonly stage: number } {
  const place = places[kind];
  if (place === undefined) throw new Error(`MetalLB's speakers need a ${kind}, and its path is not known`);
  return place;
}

/** A pool with the addresses, announced on all interfaces of all nodes. */
function orderConfiguration(): Order[] {
  const create = (kind: string, spec: object): Order => ({
    ...{ stage: 0, method: 'POST', path: `${customPath}/${kind.toLowerCase()}s` },
    body: { apiVersion: 'metallb.io/v1beta1', kind, metadata: { name: 'bench' }, spec },
  });
  return [
    create('IPAddressPool', { addresses: [addressNetwork] }),
    create('L2Advertisement', { ipAddressPools: ['bench'] }),
  ];
}

/** The DaemonSet's pod on a node: speakers find each other by these. */
function orderPod({ name, addresses: { ipv4 } }: Host): Order[] {
  const podName = toPodName(name);
  const spec = {
    ...{ nodeName: name, hostNetwork: true, serviceAccountName: 'speaker' },
    containers: [{ name: 'speaker', image: 'speaker' }],
  };
  const status = { phase: 'Running', podIP: ipv4, podIPs: [{ ip: ipv4 }], hostIP: ipv4 };
  const metadata = { name: podName, labels };
  return [
    {
      ...{ stage: 0, method: 'POST', path: podsPath },
      body: { apiVersion: 'v1', kind: 'Pod', metadata, spec },
    },
    { stage: 1, method: 'PATCH', path: `${podsPath}/${podName}/status`, body: { status } },
  ];
}

function toPodName(node: string): string {
  return `speaker-${node}`;
}
