import type { NodeLab } from '../nodes/node-lab.ts';
import { waitUntil } from '../nodes/ready.ts';
import { printServices } from './install.ts';

/** A Deployment of small web servers, and the Service in front of them. */
export interface WebOptions {
  /** Of both. */
  readonly name: string;
  /** How many pods; 4 when left out. */
  readonly replicas?: number;
  /** On which nodes, by their labels; any without a taint when left out. */
  readonly nodeSelector?: Readonly<Record<string, string>>;
  /** More of the Service's spec. */
  readonly service?: object;
  /** The Service's annotations. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** What Node runs in each pod, on port 8080; the small web server when left out. */
  readonly program?: string;
  /** More of the pods' spec, and of their one container. */
  readonly pod?: object;
  readonly container?: object;
}

/** The port of the Service. */
export const webPort = 80;

/** What pods serve on. */
export const podPort = 8080;

/** Tests have three minutes: what is waited for is said before they end. A node that is off holds an address back for 40 s. */
const limitMs = 120_000;

/** Answers with the pod's name, and on which client's address it was asked. It serves on for 5 s when it is told to end. */
const webProgram = `const server = require('node:http').createServer((request, response) => {
  response.end(process.env.HOSTNAME + ' ' + request.socket.remoteAddress.replace('::ffff:', '') + '\\n');
});
server.listen(${podPort}, '::');
process.on('SIGTERM', () => setTimeout(() => process.exit(0), 5000));`;

/** Creates web servers and their Service, and waits until all pods are ready. The image is vipnat's own, which every node has. */
export async function createWeb(lab: NodeLab, options: WebOptions): Promise<void> {
  await lab.apply(renderService(options));
  await createPods(lab, options);
}

/** The same without a Service. */
export async function createPods(lab: NodeLab, options: WebOptions): Promise<void> {
  const { name } = options;
  await lab.apply(await renderDeployment(lab, options));
  await waitUntil(
    `the pods of ${name} are ready`,
    async () => {
      const { exitCode, stdout, stderr } = await lab.kubectl([
        ...['rollout', 'status', `deployment/${name}`, '--namespace', 'default', '--timeout=30s'],
      ]);
      return exitCode === 0 ? null : `${stdout}${stderr}`.trim();
    },
    limitMs,
  );
}

/** Removes both, and waits until both are gone. */
export async function removeWeb(lab: NodeLab, name: string): Promise<void> {
  const words = ['--namespace', 'default', '--ignore-not-found', '--timeout=60s'];
  await lab.ask(['delete', 'service', name, ...words], { limitMs: 90_000 });
  await lab.ask(['delete', 'deployment', name, '--cascade=foreground', ...words], { limitMs: 90_000 });
}

/** Waits until a Service of the namespace default has an address, and answers it. */
export async function waitForAddress(lab: NodeLab, name: string): Promise<string> {
  let address = '';
  await waitUntil(
    `the Service ${name} has an address`,
    async () => {
      const path = 'jsonpath={.status.loadBalancer.ingress[0].ip} {.status.conditions}';
      const words = ['get', 'service', name, '--namespace', 'default', '--output', path];
      const [found = '', ...conditions] = (await lab.ask(words)).split(' ');
      address = found;
      return address === '' ? `there is none: ${conditions.join(' ')}` : null;
    },
    limitMs,
  );
  return address;
}

/** What came of requests. */
export interface WebAnswers {
  /** By pod: how often it answered. */
  readonly pods: Readonly<Record<string, number>>;
  /** The clients' addresses that pods saw, each once. */
  readonly clients: readonly string[];
  /** How many requests had no answer within 10 s, which only a lost connection takes. */
  readonly failed: number;
}

/** One connection for each request, and an empty line for one that failed. */
const script = `count=$1 url=$2
for _ in $(seq "$count"); do curl --silent --max-time 10 "$url" || echo; done`;

/** Asks an address so many times, one after the other: from `client`, from a node by its name, or from `pod-NODE` (see runPod). */
export async function askWeb(
  lab: NodeLab,
  place: string,
  address: string,
  count: number,
): Promise<WebAnswers> {
  const host = address.includes(':') ? `[${address}]` : address;
  const node = place.replace(/^pod-/, '');
  const inPod = node === place ? [] : ['ip', 'netns', 'exec', 'pod'];
  const words = ['sh', '-c', script, 'sh', String(count), `http://${host}:${webPort}/`];
  const { stdout } = await lab.machine(node).run([...inPod, ...words], { limitMs: 300_000 });
  const lines = stdout.trimEnd() === '' ? [] : stdout.replace(/\n$/, '').split('\n');
  const answers = lines.filter((line) => line !== '').map((line) => line.split(' '));
  const pods: Record<string, number> = {};
  for (const [pod = ''] of answers) pods[pod] = (pods[pod] ?? 0) + 1;
  const clients = [...new Set(answers.map(([, client = '']) => client))];
  return { pods, clients, failed: count - answers.length };
}

/** The node that has an address of a Service on an interface; null where none has, or several. */
export async function findHolder(lab: NodeLab, address: string): Promise<string | null> {
  const holders = await listHolders(lab, address);
  return holders.length === 1 ? (holders[0] ?? null) : null;
}

/** Waits until no node has an address on an interface. */
export async function waitForNoHolder(lab: NodeLab, address: string): Promise<void> {
  await waitUntil(
    `${address} is on no interface`,
    async () => (await listHolders(lab, address)).join(', ') || null,
    limitMs,
  );
}

async function listHolders(lab: NodeLab, address: string): Promise<string[]> {
  const nodes = (await lab.ask(['get', 'nodes', '--output', 'jsonpath={.items[*].metadata.name}'])).split(
    ' ',
  );
  const found = await Promise.all(
    nodes.map(async (node) => {
      if (!(await lab.isOn(node))) return [];
      const { stdout } = await lab.machine(node).run(['ip', '-o', 'address', 'show', 'to', address]);
      return stdout === '' ? [] : [node];
    }),
  );
  return found.flat();
}

async function renderDeployment(
  lab: NodeLab,
  { name, replicas = 4, nodeSelector, program = webProgram, pod = {}, container = {} }: WebOptions,
): Promise<object> {
  const [, image = ''] = / image: (\S+)/.exec(await printServices(lab)) ?? [];
  const labels = { app: name };
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name, namespace: 'default' },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      strategy: { rollingUpdate: { maxUnavailable: 0 } },
      template: {
        metadata: { labels },
        spec: {
          ...(nodeSelector === undefined ? {} : { nodeSelector, tolerations: [{ operator: 'Exists' }] }),
          topologySpreadConstraints: [
            {
              ...{ maxSkew: 1, topologyKey: 'kubernetes.io/hostname', whenUnsatisfiable: 'ScheduleAnyway' },
              labelSelector: { matchLabels: labels },
            },
          ],
          terminationGracePeriodSeconds: 10,
          containers: [
            {
              ...{ name: 'web', image, imagePullPolicy: 'IfNotPresent', command: ['node', '-e', program] },
              readinessProbe: { httpGet: { path: '/', port: podPort }, periodSeconds: 1 },
              ...container,
            },
          ],
          ...pod,
        },
      },
    },
  };
}

function renderService({ name, service = {}, annotations = {} }: WebOptions): object {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'default', annotations },
    spec: {
      ...{ type: 'LoadBalancer', loadBalancerClass: 'vipnat.io/lb', selector: { app: name } },
      ports: [{ port: webPort, targetPort: podPort }],
      ...service,
    },
  };
}
